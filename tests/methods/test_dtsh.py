import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.dtsh import DTSH

ROWS = np.array([4, 0, 7, 8, 2])
C = 6


def _begun(labels, **options):
    method = DTSH(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_the_likelihood_of_triplets_and_the_distance_to_the_codes(rng):
    labels, u = np.array([0, 1, 0, 2, 1, 0, 2, 1, 0]), rng.normal(size=(5, C))
    kinds, losses = labels[ROWS], []
    for q in range(5):
        for p in range(5):
            for n in range(5):
                if q != p and kinds[q] == kinds[p] and kinds[q] != kinds[n]:
                    gap = (u[q] @ u[p] - u[q] @ u[n]) / 2 - C / 2
                    losses.append(np.log1p(np.exp(-gap)))
    quantisation = np.mean(np.sum((np.sign(u) - u) ** 2, axis=1))
    loss = _begun(labels, quantisation=0.3)._loss(torch.tensor(u), ROWS)
    assert losses
    assert loss.item() == pytest.approx(np.mean(losses) + 0.3 * quantisation)


def test_the_gradient_equals_finite_differences(rng):
    method = _begun(rng.integers(0, 3, 9), quantisation=0.3)
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, ROWS), [outputs])


def test_without_a_triplet_only_quantisation_is_left():
    outputs = torch.full((3, C), 0.5)
    assert _begun(np.zeros(3, int), quantisation=2.0)._loss(outputs, np.arange(3)).item() == pytest.approx(
        2.0 * C * 0.25
    )


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_an_impossible_margin_is_refused(value, images):
    with pytest.raises(InvalidInput, match="margin must be 0 to 1"):
        DTSH(8, margin=value).fit(*images)
