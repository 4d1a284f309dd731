"""Deep methods that learn without labels: BiHalf and CIBHash."""

from itertools import combinations

import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.bihalf import BiHalf, _BiHalfLayer
from ddsh.methods.cibhash import CIBHash
from ddsh.methods.training import Training

C = 6


@pytest.mark.parametrize("n_rows", [2, 6, 7])
def test_half_of_the_codes_of_each_bit_are_one_and_they_have_the_largest_outputs(rng, n_rows):
    outputs = torch.tensor(rng.normal(size=(n_rows, C)))
    codes = _BiHalfLayer.apply(outputs, 0.0)
    assert (codes.sum(0) == n_rows % 2).all()
    for u, b in zip(outputs.T, codes.T, strict=True):
        assert u[b > 0].min() > u[b < 0].max()


def test_no_other_balanced_codes_are_nearer_to_the_outputs(rng):
    outputs = torch.tensor(rng.normal(size=(6, 1)))
    found = (outputs - _BiHalfLayer.apply(outputs, 0.0)).square().sum().item()
    for ones in combinations(range(6), 3):
        codes = -torch.ones(6, 1)
        codes[list(ones)] = 1
        assert found <= (outputs - codes).square().sum().item() + 1e-9


def test_the_gradient_is_passed_on_with_a_pull_towards_the_codes(rng):
    outputs = torch.tensor(rng.normal(size=(4, C)), requires_grad=True)
    codes = _BiHalfLayer.apply(outputs, 0.5)
    weights = torch.tensor(rng.normal(size=(4, C)))
    (codes * weights).sum().backward()
    assert outputs.grad is not None
    assert torch.allclose(outputs.grad, weights + 0.5 * (outputs - codes).detach())


def test_the_loss_compares_cosines_of_codes_and_features(rng):
    method = BiHalf(C)
    method._features_before = rng.normal(size=(9, 5)).astype(np.float32)
    rows = np.array([4, 0, 7, 8])
    outputs = torch.tensor(rng.normal(size=(4, C)))
    b = _BiHalfLayer.apply(outputs, 0.0).numpy()
    f = (method._features_before - method._features_before.mean(0))[rows].astype(float)
    f /= np.linalg.norm(f, axis=1)[:, None]
    assert method._loss(outputs, rows).item() == pytest.approx(np.mean((b @ b.T / C - f @ f.T) ** 2), rel=1e-5)


def test_the_contrastive_loss_finds_the_other_view(rng):
    method = CIBHash(C, bottleneck=0.0)
    method._begin_fit(as_labels(np.zeros(3, int)))
    outputs = rng.normal(size=(6, C))
    b, total = np.where(outputs > 0, 1, -1), 0.0
    for i in range(6):
        scores = np.array([b[i] @ b[j] / C / 0.3 for j in range(6)])
        total += np.log(np.exp(np.delete(scores, i)).sum()) - scores[(i + 3) % 6]
    assert method._loss(torch.tensor(outputs), np.tile(np.arange(3), 2)).item() == pytest.approx(total / 6)


def test_the_bottleneck_is_the_divergence_of_the_two_views(rng):
    outputs = rng.normal(size=(2, C))
    p, q = (1 / (1 + np.exp(-u)) for u in outputs)

    def divergence(p, q):
        return np.sum(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    rows, u = np.zeros(2, int), torch.tensor(outputs)
    without, weighted = (CIBHash(C, bottleneck=weight)._loss(u, rows).item() for weight in (0.0, 1.0))
    assert weighted - without == pytest.approx((divergence(p, q) + divergence(q, p)) / 2)


def test_a_view_is_drawn_to_the_other_one_as_it_stands():
    """The gradient of (KL(p || q) + KL(q || p)) / 2 with the second of each fixed: p (1 - p) (u - v) / 2."""
    outputs = torch.tensor([[0.7], [-0.4]], dtype=torch.float64, requires_grad=True)
    losses = [CIBHash(1, bottleneck=weight)._loss(outputs, np.zeros(2, int)) for weight in (1.0, 0.0)]
    (gradient,) = torch.autograd.grad(losses[0] - losses[1], outputs)
    p = torch.sigmoid(outputs.detach())
    difference = outputs.detach() - outputs.detach().flip(0)
    assert torch.allclose(gradient, p * (1 - p) * difference / 2)


def test_equal_views_cost_no_divergence(rng):
    outputs = torch.tensor(np.tile(rng.normal(size=(3, C)), (2, 1)))
    rows = np.tile(np.arange(3), 2)
    assert CIBHash(C, bottleneck=0.0)._loss(outputs, rows) == CIBHash(C, bottleneck=9.0)._loss(outputs, rows)


@pytest.mark.parametrize("method", [BiHalf, CIBHash])
def test_labels_are_not_looked_at(method, images):
    X, labels = images
    options = {"backbone": Backbone("small-grey", image_size=8), "training": Training(2, 0.03, batch_size=30, crop=1)}
    assert method(C, **options).fit(X).encode(X) == method(C, **options).fit(X, labels[::-1]).encode(X)


def test_views_of_frozen_stages_cannot_be_shifted(images):
    backbone = Backbone("small-grey", image_size=8, n_frozen=1)
    with pytest.raises(InvalidInput, match="needs crop=0"):
        CIBHash(C, backbone=backbone, training=Training(1, 0.03, crop=1)).fit(images[0])
