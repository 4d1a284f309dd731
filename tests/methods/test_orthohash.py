import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.orthohash import OrthoHash
from ddsh.methods.training import Training

C = 8


def _begun(labels, **options):
    method = OrthoHash(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_loss_is_cross_entropy_of_cosines_with_a_margin(rng):
    labels = np.arange(6) % 3
    method = _begun(labels, scale=5.0, margin=0.3)
    u = rng.normal(size=(6, C))
    v = (u - u.mean(0)) / np.sqrt(u.var(0) + 1e-5)
    codes = method._codes.numpy()
    cosines = v @ codes.T / np.linalg.norm(v, axis=1)[:, None] / np.sqrt(C)
    logits = 5 * (cosines - 0.3 * np.eye(3)[labels])
    expected = np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(6), labels])
    method._norm.double()
    assert method._loss(torch.tensor(u), np.arange(6)).item() == pytest.approx(expected)


def test_outputs_at_their_codes_have_the_loss_of_orthogonal_targets():
    """Toy of the paper: cosine 1 with the own code and 0 with the k - 1 others."""
    labels = np.arange(4)
    method = _begun(labels, scale=8.0, margin=0.2)
    method._norm.double()
    codes = method._codes.double()
    # One image alone is normalised by the running mean 0 and variance 1.
    losses = [method._loss(codes[[row]], np.array([row])).item() for row in range(4)]
    assert losses == pytest.approx([np.log(1 + 3 * np.exp(-8 * 0.8))] * 4, rel=1e-4)


def test_several_labels_share_the_probability(rng):
    labels = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    method = _begun(labels, margin=0.0)
    u = torch.tensor(rng.normal(size=(3, C)), dtype=torch.float32)
    v = torch.nn.functional.batch_norm(u, None, None, training=True)
    cosines = torch.nn.functional.normalize(v) @ method._codes.float().T / np.sqrt(C)
    logs = torch.log_softmax(8 * cosines, 1)
    expected = -(logs[0, :2].mean() + logs[1, 1] + logs[2, 2]) / 3
    assert method._loss(u, np.arange(3)).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_gradient_equals_finite_differences(rng):
    method = _begun(np.arange(6) % 3)
    method._norm.double()
    outputs = torch.tensor(rng.normal(size=(6, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, np.arange(6)), [outputs])


def test_the_hash_layer_absorbs_the_normalisation(images):
    X, labels = images
    training = Training(epochs=1, learning_rate=0.03, batch_size=90)
    method = OrthoHash(C, backbone=Backbone("small-grey", image_size=8), training=training)
    method.fit(X, labels)
    mean, variance = method._norm.running_mean.numpy(), method._norm.running_var.numpy()
    outputs = method.project(X)
    head = method.model_.head
    spread = np.sqrt(variance + method._norm.eps)
    before = outputs * spread + mean
    with torch.no_grad():
        head.weight.mul_(torch.from_numpy(spread)[:, None])
        head.bias.mul_(torch.from_numpy(spread)).add_(torch.from_numpy(mean))
    method._folded = None
    assert method.project(X) == pytest.approx(before, abs=1e-4)
    assert np.abs(mean).max() > 0


def test_an_image_alone_in_its_mini_batch_is_no_obstacle(images):
    X, labels = images
    training = Training(epochs=1, learning_rate=0.03, batch_size=44)
    method = OrthoHash(C, backbone=Backbone("small-grey", image_size=8), training=training)
    assert np.isfinite(method.fit(X[:89], labels[:89]).history_[-1]["loss"])


@pytest.mark.parametrize(("name", "value"), [("scale", 0), ("margin", -1), ("margin", 2)])
def test_impossible_parameters_are_refused(name, value, images):
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        OrthoHash(8, **{name: value}).fit(*images)
