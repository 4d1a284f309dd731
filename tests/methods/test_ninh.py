from itertools import product

import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.ninh import NINH
from ddsh.methods.training import Training

ROWS = np.array([4, 0, 7, 8, 2])
C = 6
LABELS = np.array([0, 1, 0, 2, 1, 0, 2, 1, 0])


def _begun(**options):
    method = NINH(C, divide=False, **options)
    method._begin_fit(as_labels(LABELS))
    return method


def test_the_loss_is_the_hinge_of_triplets(rng):
    u = 3 * rng.normal(size=(5, C))
    b, kinds, losses = 1 / (1 + np.exp(-u)), LABELS[ROWS], []
    for i, p, n in product(range(5), repeat=3):
        if i != p and kinds[i] == kinds[p] and kinds[i] != kinds[n]:
            losses.append(max(0, 1 - np.sum((b[i] - b[n]) ** 2) + np.sum((b[i] - b[p]) ** 2)))
    assert 0 < sum(loss == 0 for loss in losses) < len(losses)
    assert _begun()._loss(torch.tensor(u), ROWS).item() == pytest.approx(np.mean(losses))


def test_the_gradient_equals_finite_differences(rng):
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: _begun()._loss(u, ROWS), [outputs])


def test_each_bit_sees_its_own_features_before_and_after_training(images):
    X, labels = images
    training = Training(epochs=1, learning_rate=0.1, batch_size=30, momentum=0.9)
    method = NINH(C, backbone=Backbone("small-grey", image_size=8), training=training).fit(X, labels)
    used = method.model_.head.weight.detach().numpy() != 0
    assert (used.sum(axis=0) == 1).all(), "every feature belongs to one bit"
    assert used.sum(axis=1).max() - used.sum(axis=1).min() <= 1


def test_more_bits_than_features_cannot_be_divided(images):
    X, labels = images
    with pytest.raises(InvalidInput, match="needs a feature of its own"):
        NINH(1000, backbone=Backbone("small-grey", image_size=8)).fit(X, labels)
