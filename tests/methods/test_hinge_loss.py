import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.methods.losses import HingeLoss, as_loss, describe_loss

C = 8


def test_pairs_beyond_the_margin_cost_nothing():
    products = np.array([8.0, 4.0, 3.0, -8.0, -4.0, -3.0, 5.0])
    similarity = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -0.5])
    assert HingeLoss().values(products, similarity, C).tolist() == [0, 0, 1, 0, 0, 1, 4.5]


def test_the_mean_is_that_of_the_values_divided_by_the_code_length(rng):
    products, similarity = rng.integers(-C, C + 1, (5, 7)).astype(float), rng.choice([-0.2, 0.0, 1.0], (5, 7))
    mean = HingeLoss(0.7).mean(torch.tensor(products), torch.tensor(similarity), C)
    assert mean.item() == pytest.approx(HingeLoss(0.7).values(products, similarity, C).mean() / C)


def test_the_slope_is_half_the_difference_of_a_bit():
    slope = HingeLoss().slope(np.array([0.0, 4.0, 6.0]), np.ones(3), C)
    assert slope.tolist() == [-1, -0.5, 0]


def test_the_loss_is_found_by_name():
    assert as_loss({"kind": "hinge", "margin": 0.3}) == HingeLoss(0.3)
    assert describe_loss("hinge") == {"kind": "hinge", "margin": 0.5}


@pytest.mark.parametrize("margin", [0, 1.1, float("nan")])
def test_an_impossible_margin_is_refused(margin):
    with pytest.raises(InvalidInput, match="margin must be"):
        HingeLoss(margin)
