from itertools import product

import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.labels import as_labels
from ddsh.methods.dsch import DSCH
from ddsh.methods.training import Training

ROWS = np.array([4, 0, 7, 8, 2])
C = 6
LABELS = np.array([0, 1, 0, 2, 1, 0, 2, 1, 0])


def _begun(**options):
    method = DSCH(C, **options)
    method._begin_fit(as_labels(LABELS))
    return method


def test_the_loss_is_the_hinge_of_weighted_distances(rng):
    method = _begun(margin=0.3)
    logits = rng.normal(size=C)
    with torch.no_grad():
        method._helper[0].copy_(torch.from_numpy(logits))
    w = C * np.exp(logits) / np.exp(logits).sum()
    u = 2 * rng.normal(size=(5, C))
    h, kinds, losses = np.tanh(u), LABELS[ROWS], []

    def distance(i, j):
        return np.sum(w * (1 - h[i] * h[j]) / 2)

    for i, p, n in product(range(5), repeat=3):
        if i != p and kinds[i] == kinds[p] and kinds[i] != kinds[n]:
            losses.append(max(0, distance(i, p) - distance(i, n) + 0.3 * C) / C)
    assert method._loss(torch.tensor(u), ROWS).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_gradient_equals_finite_differences(rng):
    method = _begun()
    method._helper.double()
    outputs = torch.tensor(rng.normal(size=(5, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u, w: method._loss(u, ROWS), [outputs, method._helper[0]])


def test_bits_come_in_the_order_of_their_weights(images):
    X, labels = images
    method = DSCH(C, margin=0.5, backbone=Backbone("small-grey", image_size=8))
    method.set_params(training=Training(epochs=4, learning_rate=0.3, batch_size=30, momentum=0.9))
    method.fit(X, labels)
    weights = method._weights().detach().numpy()
    assert weights.sum() == pytest.approx(1)
    assert weights.max() > weights.min()
    # The first bit of the code is the heaviest: it separates classes at least as well as the last one.
    signs = method.encode(X).signs().astype(float)
    same = labels[:, None] == labels
    gaps = [(b[:, None] == b)[same].mean() - (b[:, None] == b)[~same].mean() for b in signs.T]
    assert gaps[0] >= gaps[-1] - 0.05
