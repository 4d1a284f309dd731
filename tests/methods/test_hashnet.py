import math

import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.hashnet import HashNet

ROWS = np.array([4, 0, 7, 8, 2])
C = 6


def _begun(labels, **options):
    method = HashNet(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_the_weighted_likelihood_of_pairs(rng):
    labels, outputs = rng.integers(0, 3, 9), rng.normal(size=(5, C))
    same = labels[:, None] == labels
    share = (same.sum() - 9) / 72
    z, losses = np.tanh(outputs), []
    for i in range(5):
        for j in range(i + 1, 5):
            similar, product = same[ROWS[i], ROWS[j]], 10 / C * z[i] @ z[j]
            weight = 1 / share if similar else 1 / (1 - share)
            losses.append(weight * (np.log1p(np.exp(product)) - similar * product))
    assert _begun(labels)._loss(torch.tensor(outputs), ROWS).item() == pytest.approx(np.mean(losses))


def test_similar_pairs_weigh_by_the_labels_they_share(rng):
    labels = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 1]])
    method = _begun(labels)
    z = torch.tensor(rng.normal(size=(2, C)))
    third, whole = method._loss(z, np.array([0, 1])), method._loss(z, np.array([0, 2]))
    assert whole.item() == pytest.approx(3 * third.item())


def test_similar_and_dissimilar_pairs_weigh_the_same():
    labels = np.arange(40) % 4
    method = _begun(labels)
    same = (labels[:, None] == labels)[~np.eye(40, dtype=bool)]
    assert method._balance[0] * same.sum() == pytest.approx(method._balance[1] * (~same).sum())


@pytest.mark.parametrize(("progress", "beta"), [(0.0, 1.0), (0.5, 5.0), (1.0, 7.0)])
def test_tanh_becomes_the_sign(progress, beta, rng):
    labels, outputs = rng.integers(0, 3, 9), torch.tensor(rng.normal(size=(5, C)))
    method = _begun(labels)
    method._progress = progress
    scaled = _begun(labels)
    assert method._loss(outputs, ROWS).item() == pytest.approx(scaled._loss(beta * outputs, ROWS).item())


def test_the_gradient_equals_finite_differences(rng):
    method = _begun(rng.integers(0, 3, 9))
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, ROWS), [outputs])


def test_one_class_alone_needs_no_balance():
    assert _begun(np.zeros(4, int))._balance == (1.0, 1.0)
    assert math.isfinite(_begun(np.zeros(4, int))._loss(torch.ones(1, C), np.array([0])).item())


@pytest.mark.parametrize(("name", "value"), [("slope", 0), ("final_scale", 0.5)])
def test_impossible_parameters_are_refused(name, value, images):
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        HashNet(8, **{name: value}).fit(*images)
