import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ddsh.backbones import Backbone
from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError, InvalidInput
from ddsh.labels import PairLabels
from ddsh.methods import get_method
from ddsh.methods._extensions import CNN, Kernel, Linear, Trees
from ddsh.methods._two_step import TwoStepHasher
from ddsh.methods.base import MethodCard
from ddsh.methods.cosdish import COSDISH
from ddsh.methods.lfh import LFH
from ddsh.methods.training import Training
from ddsh.model import Model

NETWORK = CNN(
    backbone=Backbone("small-grey", device="cpu"),
    training=Training(epochs=6, learning_rate=0.005, batch_size=16, momentum=0.9),
)
ON_FEATURES = [Trees(n_trees=20), Linear(), Kernel(n_anchors=40)]


class ClassCodes(TwoStepHasher):
    """The smallest two-step method: every class has a code of its own, its number in binary."""

    card = MethodCard("class-codes", "Class codes", "", "", 2000, "supervised", "features")

    def __init__(self, n_bits=4, *, extension="linear", seed=0):
        self.n_bits = n_bits
        self.extension = extension
        self.seed = seed

    def learn_codes(self, labels):
        return np.where(labels.to_array()[:, None] >> np.arange(self.n_bits) & 1, 1, -1).astype(np.int8)


@pytest.fixture
def features(rng):
    labels = np.arange(120) % 4
    return 3 * rng.normal(size=(4, 10))[labels] + 0.3 * rng.normal(size=(120, 10)), labels


@pytest.fixture
def images(rng):
    labels = np.arange(96) % 4
    noisy = rng.integers(0, 150, (4, 28, 28, 1))[labels] + rng.integers(0, 100, (96, 28, 28, 1))
    return noisy.astype(np.uint8), labels


@pytest.mark.parametrize("extension", ON_FEATURES, ids=lambda extension: extension.kind)
def test_new_items_get_the_codes_of_their_classes(features, extension):
    items, labels = features
    hasher = ClassCodes(extension=extension).fit(items[:60], labels[:60])
    bits = labels[:, None] >> np.arange(4) & 1
    assert hasher.codes_ == BinaryCodes.from_bits(bits[:60])
    assert np.mean(hasher.encode(items[60:]).bits() == bits[60:]) > 0.98
    assert hasher.history_ == []
    assert hasher.n_features_in_ == 10


def test_a_network_gives_new_images_the_codes_of_their_classes(images):
    pixels, labels = images
    steps = []
    hasher = ClassCodes(extension=NETWORK).fit(pixels[:64], labels[:64], on_step=steps.append)
    right = hasher.encode(pixels[64:]).bits() == (labels[64:, None] >> np.arange(4) & 1)
    assert right.mean() > 0.95
    assert [entry["epoch"] for entry in hasher.history_] == [1, 2, 3, 4, 5, 6]
    assert len(steps) == 24


def test_a_network_that_was_stopped_goes_on_to_the_same_codes(images, tmp_path):
    whole = ClassCodes(extension=NETWORK).fit(*images)

    class Stopped(Exception):
        pass

    def stop(step):
        if step.done == 20:
            raise Stopped

    with pytest.raises(Stopped):
        ClassCodes(extension=NETWORK).fit(*images, checkpoints=tmp_path, on_step=stop)
    steps = []
    resumed = ClassCodes(extension=NETWORK).fit(*images, checkpoints=tmp_path, resume=True, on_step=steps.append)
    assert len(steps) < 36 - 12
    assert np.array_equal(resumed.project(images[0]), whole.project(images[0]))


def test_the_extension_says_what_the_items_are():
    assert ClassCodes(extension="cnn").inputs == "images"
    assert [ClassCodes(extension=name).inputs for name in ("trees", "linear", "kernel")] == ["features"] * 3
    assert get_method("cosdish").card.inputs == "features"


def test_features_are_refused_where_the_items_are_images(features):
    with pytest.raises(InvalidInput, match="uint8"):
        ClassCodes(extension=NETWORK).fit(*features)


@pytest.mark.parametrize("given", [{"resume": True}, {"on_step": print}, {"checkpoints": "folder"}])
def test_what_belongs_to_the_training_of_a_network_is_refused_elsewhere(features, given):
    with pytest.raises(InvalidInput, match="Only extension 'cnn'"):
        ClassCodes().fit(*features, **given)


def test_another_extension_forgets_the_width_of_the_features(features, images):
    hasher = ClassCodes().fit(*features).set_params(extension=NETWORK).fit(*images)
    assert hasher.n_features_in_ is None
    assert len(hasher.encode(images[0][:3])) == 3
    with pytest.raises(InvalidInput, match="X has 9 features"):
        ClassCodes().fit(*features).encode(features[0][:, 1:])


@pytest.mark.parametrize("method", [COSDISH, LFH])
@pytest.mark.parametrize("extension", ON_FEATURES, ids=lambda extension: extension.kind)
def test_a_fitted_method_survives_a_folder(features, tmp_path, method, extension):
    items, labels = features
    hasher = method(12, extension=extension, seed=3).fit(items, labels)
    Model(hasher).save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model").method
    assert np.array_equal(loaded.project(items), hasher.project(items))
    assert loaded.describe_params() == hasher.describe_params()
    assert not hasattr(loaded, "codes_")


def test_a_trained_network_survives_a_folder(images, tmp_path):
    hasher = COSDISH(12, extension=NETWORK).fit(*images)
    Model(hasher).save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model").method
    assert loaded.inputs == "images"
    assert loaded.encode(images[0]) == hasher.encode(images[0])
    assert loaded.history_ == []


def test_a_model_with_arrays_of_another_extension_is_refused(features, tmp_path):
    Model(COSDISH(4, extension="linear").fit(*features)).save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    path.write_text(path.read_text().replace('"linear"', '"kernel"'))
    with pytest.raises(ArtefactError, match="does not fit"):
        Model.load(tmp_path / "model")


def test_the_codes_of_the_training_items_are_not_among_the_weights(features):
    assert set(ClassCodes().fit(*features).get_weights()) == {"mean", "weights", "offset"}


def test_saving_before_fitting_is_refused():
    with pytest.raises(NotFittedError, match="fit"):
        ClassCodes().get_weights()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "trees"),
        ({"extension": "linear"}, "linear"),
        ({"extension": {"kind": "cnn", "backbone": "small", "training": {"epochs": 2}}}, "cnn"),
    ],
)
def test_a_method_can_be_made_from_plain_values_and_described_in_them(given, kind):
    hasher = COSDISH.from_description({"n_bits": 6, "seed": 2} | given)
    described = json.loads(json.dumps(hasher.describe_params()))
    again = COSDISH.from_description(described)
    assert again.describe_params() == described
    assert again.inputs == hasher.inputs
    assert described["extension"]["kind"] == kind


def test_the_parameters_of_a_method_can_be_cloned_with_its_extension():
    hasher = COSDISH(8, extension=NETWORK)
    assert clone(hasher).get_params() == hasher.get_params()


@pytest.mark.parametrize(
    "labels",
    [
        np.zeros(120, int),
        np.column_stack([np.ones(120, int), np.arange(120) % 2]),
        PairLabels(lambda first, second: np.ones((len(first), len(second))), 120),
    ],
    ids=["one class", "one class of all", "pairs"],
)
@pytest.mark.parametrize("method", [COSDISH, LFH])
def test_items_that_are_all_similar_are_refused(features, method, labels):
    with pytest.raises(InvalidInput, match="nothing to learn"):
        method(8, extension="linear").fit(features[0], labels)


def test_an_unknown_extension_is_refused_before_anything_is_learned(features):
    with pytest.raises(InvalidInput, match="Did you mean 'kernel'"):
        COSDISH(8, extension="kernels").fit(*features)
