import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ddsh.backbones import Backbone
from ddsh.errors import UnknownName
from ddsh.evaluation import score
from ddsh.labels import as_labels
from ddsh.methods.dpsh import DPSH
from ddsh.methods.nhl import NHL, balanced_weights
from ddsh.methods.training import Training

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.floats(0.1, 50))
def test_a_step_does_not_raise_the_loss_of_the_shortest_code(seed, scale):
    generator = torch.Generator().manual_seed(seed)
    lengths, gradients = [3, 5, 8], []
    for place, length in enumerate(lengths):
        gradient = torch.zeros(6, 8)
        gradient[:, :length] = scale**place * torch.randn(6, length, generator=generator)
        gradients.append(gradient)
    gradients[1][:, :3] -= scale * gradients[0][:, :3]  # a conflict
    weights = balanced_weights(gradients, lengths)
    total = sum(weight * gradient for weight, gradient in zip(weights, gradients, strict=True))
    assert (total * gradients[0])[:, :3].sum() > -1e-5 * gradients[0].square().sum()


def test_codes_that_agree_weigh_the_same():
    gradient = torch.ones(2, 4)
    assert balanced_weights([gradient, gradient, gradient], [1, 2, 4]) == [1, 1, 1]


def test_a_longer_code_that_pulls_against_a_shorter_one_weighs_less():
    short, long = torch.tensor([[1.0, 0.0]]), torch.tensor([[-5.0, 1.0]])
    weights = balanced_weights([short, long], [1, 2])
    assert sum(weights) == pytest.approx(2)
    assert weights[1] / weights[0] == pytest.approx(1 / 5)


def test_no_longer_code_weighs_more_than_the_next_one_for_a_shorter_code():
    short, longer = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[-5.0, 1.0, 0.0]])
    longest = torch.tensor([[1.0, 1.0, 1.0]])
    weights = balanced_weights([short, longer, longest], [1, 2, 3])
    assert weights[1] / weights[0] == pytest.approx((1 / 2) / 5)
    assert weights[2] == pytest.approx(weights[1])


def test_with_one_length_the_loss_is_that_of_the_base(rng):
    labels, rows = as_labels(np.arange(9) % 3), np.array([4, 0, 7])
    outputs = torch.tensor(rng.normal(size=(3, 6)), dtype=torch.float32, requires_grad=True)
    nested, base = NHL(6, lengths=(), base="dpsh"), DPSH(6)
    nested._begin_fit(labels)
    base._begin_fit(labels)
    assert nested._loss(outputs, rows).item() == pytest.approx(base._loss(outputs, rows).item())


def test_distillation_costs_nothing_where_prefixes_have_the_same_relations():
    labels, rows = as_labels(np.array([0, 1, 0])), np.arange(3)
    half = torch.tensor([[1.0, -1.0], [1.0, 1.0], [-1.0, 2.0]])
    outputs = torch.cat([half, half], 1).requires_grad_()
    losses = []
    for distillation in (0.0, 100.0):
        method = NHL(4, lengths=(2,), base="dpsh", distillation=distillation)
        method._begin_fit(labels)
        losses.append(method._loss(outputs, rows).item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_every_prefix_of_the_codes_separates_the_classes(images):
    X, labels = images
    training = Training(epochs=10, learning_rate=0.1, final_lr=0.01, batch_size=30, momentum=0.9)
    backbone = Backbone("small-grey", image_size=8)
    codes = NHL(12, lengths=(4, 8), base="dsh", backbone=backbone, training=training).fit(X, labels).encode(X)
    for length in (4, 8, 12):
        first = codes.first(length)
        assert first.n_bits == length
        assert score(first, first, as_labels(labels), as_labels(labels), leave_one_out=True).map > 0.9


def test_a_base_with_steps_of_its_own_is_refused():
    with pytest.raises(UnknownName, match="base"):
        NHL(8, base="ddsh").fit(np.zeros((2, 8, 8, 1), np.uint8), [0, 1])
