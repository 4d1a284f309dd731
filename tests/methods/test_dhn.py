import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods._training import Training
from ddsh.methods.dhn import DHN

FAST = Training(passes=8, learning_rate=0.01, final_rate=0.001, batch_size=32, momentum=0.9)
ROWS = np.array([4, 0, 7, 8, 2])
C = 6


@pytest.fixture
def labels(rng):
    return rng.integers(0, 3, 9)


@pytest.fixture
def images(rng):
    """Three kinds of textures with noise, and what they are."""
    labels = np.arange(90) % 3
    y, x = np.mgrid[:8, :8]
    kinds = np.stack([(x % 2), (y % 2), (x + y) % 2]) * 150
    return (kinds[labels] + rng.integers(0, 90, (90, 8, 8))).astype(np.uint8)[..., None], labels


def _begun(labels, **options):
    """A method that is about to train."""
    method = DHN(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def _make(**options):
    return DHN(**({"n_bits": 8, "network": "small-grey", "image_size": 8, "training": FAST} | options))


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


@pytest.mark.parametrize("scale", [0.0, 1e2, 1e30])
def test_extreme_outputs_give_a_finite_loss(labels, rng, scale):
    outputs = torch.tensor(scale * rng.normal(size=(5, C)), dtype=torch.float32, requires_grad=True)
    loss = _begun(labels)._loss(outputs, ROWS)
    loss.backward()
    assert outputs.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(outputs.grad).all()


def test_training_lowers_the_loss_and_separates_the_classes(images):
    X, labels = images
    method = _make().fit(X, labels)
    assert method.history_[-1]["loss"] < 0.5 * method.history_[0]["loss"]
    codes = method.encode(X)
    distances = codes.hamming(codes).astype(float)
    same = labels[:, None] == labels
    assert distances[same].mean() + 2 < distances[~same].mean()


def test_a_mini_batch_of_one_image_is_no_obstacle(images):
    X, labels = images
    method = _make(training=Training(passes=1, learning_rate=0.01, batch_size=44, momentum=0.9))
    assert np.isfinite(method.fit(X[:89], labels[:89]).history_[-1]["loss"])


@pytest.mark.parametrize("weight", [-0.1, float("nan")])
def test_an_impossible_weight_is_refused(images, weight):
    with pytest.raises(InvalidInput, match="quantisation must be 0 or more") as caught:
        _make(quantisation=weight).fit(*images)
    assert "\n" not in str(caught.value)
