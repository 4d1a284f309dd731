import numpy as np
import pytest
import torch

from ddsh.labels import as_labels
from ddsh.methods.csq import CSQ

C = 8


def _begun(labels, **options):
    method = CSQ(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_cross_entropy_with_the_centres_and_log_cosh(rng):
    labels, rows = np.arange(9) % 3, np.array([4, 0, 7])
    method = _begun(labels, quantisation=0.3)
    u = rng.normal(size=(3, C))
    h = (np.tanh(u) + 1) / 2
    bits = (method._centres[rows] + 1) / 2
    entropy = -np.mean(bits * np.log(h) + (1 - bits) * np.log(1 - h))
    quantisation = np.mean(np.log(np.cosh(np.abs(2 * h - 1) - 1)))
    assert method._loss(torch.tensor(u), rows).item() == pytest.approx(entropy + 0.3 * quantisation)


def test_a_toy_of_two_bits_by_hand():
    """u = 0 for a bit costs log 2, and a bit of log 3 / 2 towards its side log(4 / 3)."""
    method = CSQ(2, quantisation=0.0)
    method._begin_fit(as_labels([0, 1]))
    outputs = torch.tensor(method._centres[:1] * np.array([0.0, np.log(3) / 2]))
    assert method._loss(outputs, np.array([0])).item() == pytest.approx((np.log(2) + np.log(4 / 3)) / 2)


def test_images_of_a_class_have_the_same_centre_and_others_differ_in_half_of_the_bits():
    labels = np.arange(12) % 4
    centres = _begun(labels)._centres.astype(int)
    assert np.array_equal(centres @ centres.T, C * (labels[:, None] == labels))


def test_the_gradient_equals_finite_differences(rng):
    method = _begun(np.arange(9) % 3, quantisation=0.3)
    outputs = torch.tensor(rng.normal(size=(3, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, np.array([4, 0, 7])), [outputs])


def test_several_labels_have_the_majority_of_the_centres():
    method = _begun(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]))
    centres = method._centres.astype(int)
    assert np.array_equal(centres[3], np.sign(centres[:3].sum(axis=0)))


def test_images_with_the_same_labels_have_the_same_centre():
    centres = _begun(np.array([[1, 0, 0], [0, 1, 0], *[[1, 1, 0]] * 5]))._centres
    assert (centres[:2].sum(axis=0) == 0).any(), "there are ties"
    assert len(np.unique(centres[2:], axis=0)) == 1
