import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.dpn import DPN

C = 8


def _begun(labels, **options):
    method = DPN(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def _targets(method):
    return method._above - method._below


def test_outputs_beyond_the_margin_cost_nothing_and_learn_nothing(rng):
    method = _begun(np.arange(6) % 3, margin=0.5)
    outputs = torch.tensor(_targets(method) * rng.uniform(0.51, 3, (6, C)), requires_grad=True)
    loss = method._loss(outputs, np.arange(6))
    loss.backward()
    assert loss == 0
    assert outputs.grad is not None
    assert not outputs.grad.any()


def test_the_loss_is_the_papers_of_each_bit(rng):
    method = _begun(np.arange(6) % 3)
    u = rng.normal(size=(6, C))
    expected = np.mean(np.maximum(1 - u * _targets(method), 0))
    assert method._loss(torch.tensor(u), np.arange(6)).item() == pytest.approx(expected)


def test_the_loss_bounds_the_distance_to_the_target(rng):
    """Every wrong bit costs at least m: the mean loss times c / m bounds the Hamming distance."""
    method = _begun(np.arange(6) % 3, margin=0.7)
    for scale in (0.1, 1, 10):
        u = scale * rng.normal(size=(1, C))
        wrong = np.sum((u > 0) != (_targets(method)[:1] > 0))
        assert wrong <= method._loss(torch.tensor(u), np.array([0])).item() * C / 0.7 + 1e-12


def test_an_image_of_several_labels_has_the_losses_of_all(rng):
    method = _begun(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]]), margin=0.7)
    u = rng.normal(size=(1, C))
    expected = sum(np.maximum(0.7 - u * method._centres[label], 0) for label in (0, 2))
    assert method._loss(torch.tensor(u), np.array([3])).item() == pytest.approx(np.mean(expected))


def test_a_margin_of_zero_is_refused(images):
    with pytest.raises(InvalidInput, match="margin must be above 0"):
        DPN(8, margin=0).fit(*images)
