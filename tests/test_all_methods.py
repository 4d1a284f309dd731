"""One contract for every method."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ddsh.errors import InvalidInput, UnknownName
from ddsh.methods import METHODS, get_method
from ddsh.methods._extensions import CNN
from ddsh.methods.base import Hasher, MethodCard
from ddsh.methods.training import Training
from ddsh.model import Model

pytestmark = pytest.mark.parametrize("name", sorted(METHODS))


def make(name, n_bits=12):
    """A method that is quick to fit."""
    method = get_method(name)
    if method.card.inputs == "features":
        return method(n_bits=n_bits)
    training = Training(epochs=2, learning_rate=0.1, batch_size=32)
    if "extension" in method().get_params():
        return method(n_bits=n_bits, extension=CNN("small-grey", training))
    fewer = {"n_omega": 20} if "n_omega" in method().get_params() else {}
    return method(n_bits=n_bits, backbone="small-grey", training=training, **fewer)


@pytest.fixture
def items(name, rng):
    """Features or images of four classes, and their labels."""
    labels = np.arange(80) % 4
    if get_method(name).card.inputs == "features":
        return rng.normal(size=(4, 20))[labels] + 0.3 * rng.normal(size=(80, 20)), labels
    images = rng.integers(0, 150, (4, 28, 28, 1))[labels] + rng.integers(0, 100, (80, 28, 28, 1))
    return images.astype(np.uint8), labels


@pytest.mark.parametrize("n_bits", [8, 12])
def test_codes_have_the_length_asked_for(name, items, n_bits):
    features, labels = items
    codes = make(name, n_bits).fit(features, labels).encode(features)
    assert codes.n_bits == n_bits
    assert len(codes) == len(features)


def test_the_same_seed_gives_the_same_codes(name, items):
    features, labels = items
    first, second = (make(name, 12).fit(features, labels).encode(features) for _ in range(2))
    assert first == second


def test_a_bit_is_one_where_the_output_is_above_zero(name, items):
    features, labels = items
    method = make(name, 12).fit(features, labels)
    assert np.array_equal(method.encode(features).bits(), method.project(features) > 0)


def test_fitting_again_forgets(name, items):
    features, labels = items
    method = make(name, 12).fit(features[40:] // 2, labels[40:]).fit(features, labels)
    assert method.encode(features) == make(name, 12).fit(features, labels).encode(features)


def test_fit_does_not_change_its_parameters_or_its_input(name, items):
    features, labels = items
    features.setflags(write=False)
    method = make(name, 12)
    before = method.get_params()
    method.fit(features, labels)
    assert method.get_params() == before
    assert clone(method).get_params() == before


def test_a_read_only_memory_map_is_accepted(name, items, tmp_path):
    features, labels = items
    np.save(tmp_path / "features.npy", features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    method = make(name, 8).fit(mapped, labels)
    assert method.encode(mapped) == make(name, 8).fit(features, labels).encode(features)


def test_every_parameter_is_documented(name, items):
    method = get_method(name)
    documentation = "".join(parent.__doc__ or "" for parent in method.__mro__ if issubclass(parent, Hasher))
    for parameter in method().get_params():
        assert f"    {parameter} : " in documentation, f"{name}: {parameter} is not documented"
    assert "References" in documentation


def test_the_card_says_what_the_method_is(name, items):
    card = get_method(name).card
    assert isinstance(card, MethodCard)
    assert card.name == name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: np.where(x == x.max(), np.nan, x), "NaN"),
        (lambda x: np.where(x == x.max(), np.inf, x), "infinity|uint8"),
        (lambda x: x.reshape(-1), "2D array|shape"),
        (lambda x: x[:0], "0 sample|no images"),
        (lambda x: x.astype(str), "numeric|uint8"),
    ],
)
def test_items_that_are_none_are_refused(name, items, change, message):
    features, labels = items
    bad = change(features)
    with pytest.raises(InvalidInput, match=message):
        make(name, 8).fit(bad, labels[: len(bad)])


def test_other_features_than_it_was_fitted_on_are_refused(name, items):
    features, labels = items
    if get_method(name).card.inputs == "images":
        assert len(make(name, 8).fit(features, labels).encode(features[:, :20, :25])) == 80
        return
    method = make(name, 8).fit(features, labels)
    with pytest.raises(InvalidInput, match="X has 19 features"):
        method.encode(features[:, :-1])


def test_encoding_before_fitting_is_refused(name, items):
    with pytest.raises(NotFittedError, match="fit"):
        make(name, 8).encode(items[0])


@pytest.mark.parametrize("n_bits", [0, -1, 1025])
def test_impossible_code_lengths_are_refused(name, items, n_bits):
    with pytest.raises(InvalidInput, match="n_bits"):
        make(name, n_bits).fit(*items)


def test_labels_are_needed_where_the_method_learns_from_them(name, items):
    features, labels = items
    method = make(name, 8)
    if method.card.supervision != "supervised":
        assert len(method.fit(features).encode(features)) == len(features)
        return
    with pytest.raises(InvalidInput, match="requires y"):
        method.fit(features)
    with pytest.raises(InvalidInput, match="80 items but 79 labels"):
        method.fit(features, labels[1:])


def test_a_fitted_method_survives_a_folder(name, items, tmp_path):
    method = make(name, 8).fit(*items)
    Model(method).save(tmp_path / "model")
    assert Model.load(tmp_path / "model").method.encode(items[0]) == method.encode(items[0])


def test_a_misspelt_name_is_answered_with_the_nearest(name, items):
    with pytest.raises(UnknownName, match=f"Did you mean '{name}'"):
        get_method(name + name[-1])
