import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods._regression import CodeRegression
from ddsh.methods.training import Training

FAST = Training(epochs=8, learning_rate=0.01, final_lr=0.001, batch_size=32, momentum=0.9)


def _make(n_bits):
    # The loss is a mean over bits: fewer of them learn faster.
    training = FAST.scaled(FAST.learning_rate * n_bits / 6)
    return CodeRegression(n_bits, backbone=Backbone("small-grey", image_size=8), training=training)


def test_the_loss_is_the_squared_distance_of_tanh_to_the_signs(rng):
    bits = rng.integers(0, 2, (7, 5))
    method = CodeRegression(5)
    method._begin_fit(as_labels(bits))
    rows, outputs = np.array([6, 1, 3]), rng.normal(size=(3, 5))
    total = 0.0
    for i, row in enumerate(rows):
        for k in range(5):
            total += ((1 if bits[row, k] else -1) - np.tanh(outputs[i, k])) ** 2
    assert method._loss(torch.tensor(outputs), rows).item() == pytest.approx(total / 15)


def test_the_gradient_equals_finite_differences(rng):
    method = CodeRegression(5)
    method._begin_fit(as_labels(rng.integers(0, 2, (7, 5))))
    outputs = torch.tensor(rng.normal(size=(3, 5)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, np.array([6, 1, 3])), [outputs])


def test_the_loss_vanishes_where_outputs_are_far_on_the_right_side(rng):
    bits = rng.integers(0, 2, (7, 5))
    method = CodeRegression(5)
    method._begin_fit(as_labels(bits))
    right = torch.tensor(1e30 * (2.0 * bits - 1), dtype=torch.float32)
    assert method._loss(right, np.arange(7)) == 0
    assert method._loss(-right, np.arange(7)) == 4


def test_a_network_learns_the_codes_it_is_given(images):
    X, labels = images
    codes = np.array([[0, 0, 1, 1, 0, 1], [1, 0, 0, 1, 1, 0], [0, 1, 1, 0, 1, 1]])[labels]
    method = _make(6).fit(X, codes)
    assert (method.encode(X).bits() == codes).mean() > 0.95
    assert method.history_[-1]["loss"] < 0.5 * method.history_[0]["loss"]


def test_codes_of_one_bit_are_learned_too(images):
    X, labels = images
    bits = (labels == 1).astype(int)
    found = _make(1).fit(X, bits[:, None]).encode(X)
    assert (found.bits()[:, 0] == bits).mean() > 0.95
    assert _make(1).fit(X, bits).encode(X) == found


def test_bits_of_binary_codes_are_taken_as_they_are(images, rng):
    X, _ = images
    codes = BinaryCodes.from_outputs(rng.normal(size=(90, 6)))
    method = _make(6).fit(X, codes.bits())
    assert np.array_equal(method._signs, codes.signs())


@pytest.mark.parametrize(
    ("n_bits", "codes", "message"),
    [
        (6, np.ones((90, 5), int), "6 columns; got 5"),
        (6, np.arange(90) % 2, "6 columns; got 1"),
        (1, np.arange(90) % 3, "must be 0 or 1"),
        (1, np.array(["cat", "dog"] * 45), "must be 0 or 1"),
        (6, np.full((90, 6), -1), "only 0 and 1"),
        (6, np.ones((89, 6), int), "90 items but 89 labels"),
    ],
)
def test_codes_that_do_not_fit_get_one_clear_line(images, n_bits, codes, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        _make(n_bits).fit(images[0], codes)
    assert "\n" not in str(caught.value)
