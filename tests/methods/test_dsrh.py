import numpy as np
import pytest
import torch

from ddsh.labels import as_labels
from ddsh.methods.dsrh import DSRH

C = 6


def _begun(labels, **options):
    method = DSRH(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_the_weighted_ranking_and_the_balance(rng):
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]])
    u = rng.normal(size=(5, C))
    h, shared = np.tanh(u), labels @ labels.T
    queries = []
    for q in range(5):
        others = [i for i in range(5) if i != q]
        pairs = [(i, j) for i in others for j in others if shared[q, i] > shared[q, j]]
        weights = [2.0 ** shared[q, i] - 2.0 ** shared[q, j] for i, j in pairs]
        distance = [(C - h[q] @ h[i]) / 2 / C for i in range(5)]
        losses = [max(0, distance[i] - distance[j] + 0.25) for i, j in pairs]
        queries.append(np.dot(weights, losses) / sum(weights) if pairs else 0)
    expected = np.mean(queries) + 0.3 / 2 * np.mean(h.mean(axis=0) ** 2)
    loss = _begun(labels, margin=0.25, balance=0.3)._loss(torch.tensor(u), np.arange(5))
    assert loss.item() == pytest.approx(expected)


def test_the_gradient_equals_finite_differences(rng):
    method = _begun(rng.integers(0, 2, (5, 3)))
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, np.arange(5)), [outputs])


def test_two_shared_labels_come_before_one(rng):
    """The order by shared labels costs less than the reverse one."""
    method = _begun(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]]), balance=0.0)
    signs = np.ones((4, C))
    signs[2, :2], signs[3, :4] = -1, -1
    good = method._loss(torch.tensor(5 * signs), np.arange(4))
    worse = method._loss(torch.tensor(5 * signs[[0, 2, 1, 3]]), np.arange(4))
    assert good < worse


def test_labels_that_are_the_same_for_all_leave_the_balance():
    outputs = torch.full((3, C), 30.0)
    assert _begun(np.zeros(3, int), balance=2.0)._loss(outputs, np.arange(3)).item() == pytest.approx(1.0)
