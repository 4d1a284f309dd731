import numpy as np
import pytest
import torch

from ddsh.labels import as_labels
from ddsh.methods.dhn import DHN

ROWS = np.array([4, 0, 7, 8, 2])
C = 6


@pytest.fixture
def labels(rng):
    return rng.integers(0, 3, 9)


def _begun(labels, **options):
    """A method that is about to train."""
    method = DHN(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_cross_entropy_of_pairs_and_log_cosh(labels, rng):
    outputs = rng.normal(size=(5, C))
    z = np.tanh(outputs)
    total = 0.0
    for i in range(5):
        for j in range(5):
            product = z[i] @ z[j]
            total += (np.log(1 + np.exp(product)) - (labels[ROWS[i]] == labels[ROWS[j]]) * product) / 25
        total += 0.7 * np.sum(np.log(np.cosh(np.abs(z[i]) - 1))) / 5
    loss = _begun(labels, quantisation=0.7)._loss(torch.tensor(outputs), ROWS)
    assert loss.item() == pytest.approx(total)


def test_the_gradient_equals_finite_differences(labels, rng):
    method = _begun(labels, quantisation=0.7)
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, ROWS), [outputs])


def test_quantisation_costs_nothing_where_outputs_are_far_from_zero(labels, rng):
    plain, weighted = _begun(labels, quantisation=0.0), _begun(labels, quantisation=50.0)
    signs = torch.tensor(rng.choice([-1.0, 1.0], (5, C)))
    assert weighted._loss(30 * signs, ROWS) == plain._loss(30 * signs, ROWS)
    costs = [weighted._loss(scale * signs, ROWS) - plain._loss(scale * signs, ROWS) for scale in (0.0, 0.5, 1.0, 2.0)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0].item() == pytest.approx(50 * C * np.log(np.cosh(1)))
