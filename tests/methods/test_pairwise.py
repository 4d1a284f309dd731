"""What the three deep methods that learn from pairs of images have in common."""

import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods import get_method
from ddsh.methods.training import Training

C = 6
WEIGHTS = {"dhn": "quantisation", "dpsh": "eta", "dsh": "quantisation"}
RATES = {"dhn": 0.01, "dpsh": 0.03, "dsh": 0.1 / 8}
PASSES = {"dhn": 8, "dpsh": 16, "dsh": 8}
LARGEST = {"dhn": 1e30, "dpsh": 1e6, "dsh": 1e6}


def _training(name, **others):
    rate = RATES[name]
    usual = {"epochs": PASSES[name], "learning_rate": rate, "final_lr": rate / 10, "batch_size": 32, "momentum": 0.9}
    return Training(**(usual | others))


def _make(name, **options):
    usual = {"n_bits": 8, "backbone": Backbone("small-grey", image_size=8), "training": _training(name)}
    return get_method(name)(**(usual | options))


@pytest.fixture(params=WEIGHTS)
def name(request):
    return request.param


@pytest.mark.parametrize("size", ["tiny", "large", "largest"])
def test_extreme_outputs_give_a_finite_loss(name, rng, size):
    method = get_method(name)(C)
    method._begin_fit(as_labels(rng.integers(0, 3, 9)))
    scale = {"tiny": 1e-20, "large": 1e2, "largest": LARGEST[name]}[size]
    outputs = torch.tensor(scale * rng.normal(size=(5, C)), dtype=torch.float32, requires_grad=True)
    loss = method._loss(outputs, np.array([4, 0, 7, 8, 2]))
    loss.backward()
    assert outputs.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(outputs.grad).all()


def test_training_lowers_the_loss_and_separates_the_classes(name, images):
    X, labels = images
    method = _make(name).fit(X, labels)
    assert method.history_[-1]["loss"] < 0.5 * method.history_[0]["loss"]
    codes = method.encode(X)
    distances = codes.hamming(codes).astype(float)
    same = labels[:, None] == labels
    assert distances[same].mean() + 2 < distances[~same].mean()


def test_a_mini_batch_of_one_image_is_no_obstacle(name, images):
    X, labels = images
    method = _make(name, training=_training(name, epochs=1, batch_size=44))
    assert np.isfinite(method.fit(X[:89], labels[:89]).history_[-1]["loss"])


@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_an_impossible_weight_is_refused(name, images, value):
    with pytest.raises(InvalidInput, match=f"{WEIGHTS[name]} must be 0 or more") as caught:
        _make(name, **{WEIGHTS[name]: value}).fit(*images)
    assert "\n" not in str(caught.value)
