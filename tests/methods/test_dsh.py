import numpy as np
import pytest
import torch

from ddsh.labels import as_labels
from ddsh.methods.dsh import DSH

ROWS = np.array([4, 0, 7, 8, 2])
C = 6


@pytest.fixture
def labels(rng):
    return rng.integers(0, 3, 9)


def _begun(labels, **options):
    """A method that is about to train."""
    method = DSH(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_the_papers_of_each_pair(labels, rng):
    u = rng.normal(size=(5, C))
    losses, kinds = [], set()
    for i in range(5):
        for j in range(i + 1, 5):
            squared = np.sum((u[i] - u[j]) ** 2)
            is_similar = labels[ROWS[i]] == labels[ROWS[j]]
            kinds.add((bool(is_similar), bool(squared < 2 * C)))
            pull = squared / 2 if is_similar else max(2 * C - squared, 0) / 2
            losses.append(pull + 0.3 * (np.abs(np.abs(u[i]) - 1).sum() + np.abs(np.abs(u[j]) - 1).sum()))
    assert {(False, True), (False, False)} < kinds, "dissimilar pairs on both sides of the margin, and similar ones"
    for per_bit, expected in ((False, np.mean(losses)), (True, np.mean(losses) / C)):
        loss = _begun(labels, quantisation=0.3, per_bit=per_bit)._loss(torch.tensor(u), ROWS)
        assert loss.item() == pytest.approx(expected)


def test_the_gradient_equals_finite_differences(labels, rng):
    method = _begun(labels, quantisation=0.3)
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, ROWS), [outputs])


def test_quantisation_costs_nothing_where_outputs_are_signs(labels, rng):
    plain, weighted = _begun(labels, quantisation=0.0), _begun(labels, quantisation=50.0)
    signs = torch.tensor(rng.choice([-1.0, 1.0], (5, C)))
    assert weighted._loss(signs, ROWS) == plain._loss(signs, ROWS)
    for other in (0.9 * signs, 1.1 * signs):
        assert weighted._loss(other, ROWS) > plain._loss(other, ROWS)


def test_dissimilar_codes_that_differ_in_half_of_their_bits_cost_nothing():
    method = _begun(np.array([0, 1]))
    apart = torch.ones(2, C)
    apart[1, : C // 2] = -1
    assert method._loss(apart, np.arange(2)) == 0
    apart[1, 0] = 1
    assert method._loss(apart, np.arange(2)) == pytest.approx(2)


def test_an_image_alone_in_its_mini_batch_makes_no_pair(labels):
    outputs = torch.full((1, C), 0.5)
    assert _begun(labels)._loss(outputs, ROWS[:1]).item() == pytest.approx(2 * 0.01 / 2 * C)
