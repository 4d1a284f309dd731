import json
import subprocess
import sys

import numpy as np
import pytest

from ddsh.backbones import Backbone
from ddsh.errors import ArtefactError, InvalidInput, UnknownName
from ddsh.methods._extensions import CNN, EXTENSIONS, FitOptions, Kernel, Linear, Trees, as_extension
from ddsh.methods._extensions.linear import LinearMap
from ddsh.methods.training import Training

FEW = Trees(n_trees=20, n_leaves=4)
ON_FEATURES = [FEW, Linear(), Kernel(n_anchors=40)]


def _learn(extension, features, signs, seed=0):
    return extension.learn(features, signs, seed=seed, options=FitOptions())


@pytest.fixture
def coded(rng):
    """Features of four classes, and a code of 6 bits for each class, given to its items."""
    labels = np.arange(120) % 4
    codes = np.array([[1, 1, -1, -1, 1, -1], [1, -1, 1, -1, -1, -1], [-1, 1, 1, 1, -1, -1], [-1, -1, -1, 1, 1, 1]])
    features = 3 * rng.normal(size=(4, 10))[labels] + 0.3 * rng.normal(size=(120, 10))
    return features, codes[labels].astype(np.int8)


@pytest.mark.parametrize("extension", ON_FEATURES, ids=lambda extension: extension.kind)
def test_codes_that_features_tell_are_learned(coded, extension):
    features, signs = coded
    learned = _learn(extension, features[:60], signs[:60])
    assert np.mean((learned.project(features[60:]) > 0) == (signs[60:] > 0)) > 0.98
    assert learned.n_features == 10


@pytest.mark.parametrize("extension", ON_FEATURES, ids=lambda extension: extension.kind)
@pytest.mark.parametrize("constant", [-1, 1])
def test_a_bit_that_all_items_share_is_given_to_new_ones_too(coded, extension, constant):
    features, signs = coded
    signs[:, 2] = constant
    assert (np.sign(_learn(extension, features, signs).project(features + 0.1)[:, 2]) == constant).all()


@pytest.mark.parametrize("extension", ON_FEATURES, ids=lambda extension: extension.kind)
@pytest.mark.parametrize("n_items", [1, 2, 30])
def test_features_that_tell_nothing_give_the_more_frequent_sign(extension, n_items):
    signs = np.ones((n_items, 2), np.int8)
    signs[: n_items // 3] = -1
    learned = _learn(extension, np.full((n_items, 3), 7.0), signs)
    assert (learned.project(np.full((2, 3), 7.0)) > 0).all()


@pytest.mark.parametrize("extension", ON_FEATURES, ids=lambda extension: extension.kind)
def test_what_was_learned_survives_as_plain_arrays(coded, extension):
    features, signs = coded
    learned = _learn(extension, features, signs)
    arrays = learned.to_arrays()
    assert all(array.dtype.kind in "uf" for array in arrays.values())
    again = extension.restore(arrays)
    assert np.array_equal(again.project(features), learned.project(features))
    assert again.n_features == 10


@pytest.mark.parametrize("shape", [(60, 7), (7, 60)], ids=["more items", "more features"])
def test_ridge_regression_ends_where_its_gradient_is_zero(rng, shape):
    features, signs = rng.normal(2, 3, size=shape), rng.choice(np.array([-1, 1], np.int8), (shape[0], 3))
    learned = LinearMap.fit(features, signs, ridge=0.5)
    centred = features - features.mean(axis=0)
    penalty = 0.5 * shape[0] * centred.var(axis=0).mean()
    errors = learned.project(features) - signs
    assert np.abs(centred.T @ errors + penalty * learned.weights).max() < 1e-8
    assert np.abs(errors.sum(axis=0)).max() < 1e-8


@pytest.mark.parametrize("extension", [Linear(), Kernel(n_anchors=40)], ids=lambda extension: extension.kind)
def test_the_units_of_the_features_do_not_matter(coded, extension):
    features, signs = coded
    plain, scaled = (_learn(extension, given, signs).project(given) for given in (features, 1000 * features + 50))
    assert np.allclose(plain, scaled, atol=1e-6)


@pytest.mark.parametrize("extension", [FEW, Kernel()], ids=lambda extension: extension.kind)
def test_trees_and_kernels_learn_what_no_linear_function_can(rng, extension):
    features = rng.uniform(-2, 2, (400, 2))
    signs = np.where(np.abs(features[:, :1]) < 1, 1, -1).astype(np.int8)
    right = [
        np.mean((_learn(any_, features, signs).project(features) > 0) == (signs > 0)) for any_ in (extension, Linear())
    ]
    assert right[0] > 0.95 > 0.7 > right[1]


def test_trees_are_the_same_however_many_workers_grow_them(coded):
    features, signs = coded
    one, two, many = (
        _learn(Trees(n_trees=15, max_features=3, n_workers=workers), features, signs) for workers in (1, 2, 7)
    )
    assert one.models == two.models == many.models
    assert np.array_equal(one.project(features), two.project(features))


def test_trees_of_equal_bits_see_different_features_and_so_do_other_seeds(coded):
    features, signs = coded
    twice = np.repeat(signs[:, :1], 2, axis=1)
    trees = Trees(n_trees=15, max_features=3)
    first, second = _learn(trees, features, twice).models
    assert first != second
    assert _learn(trees, features, twice, seed=1).models[0] != first


def test_damaged_trees_are_refused(coded):
    arrays = _learn(FEW, *coded).to_arrays()
    whole = arrays["bit0002"]
    middle = whole.tobytes().index(b"Tree=7")
    for damaged in (whole[:0], whole[:middle], np.delete(whole, middle - 9), np.frombuffer(b"nothing", np.uint8)):
        with pytest.raises(ArtefactError, match="trees of bit 2 are damaged"):
            _ = FEW.restore(arrays | {"bit0002": damaged}).n_features


@pytest.mark.parametrize(
    "extension",
    [
        Trees(n_trees=3, n_workers=2),
        Linear(0.3),
        Kernel(5),
        CNN(),
        CNN(Backbone("small", 40, n_frozen=1, cache_dir="x"), Training(epochs=3, learning_rate=0.1)),
    ],
    ids=lambda extension: extension.kind,
)
def test_a_description_in_plain_json_makes_the_same_extension(extension):
    described = json.loads(json.dumps(extension.describe()))
    again = as_extension(described)
    assert again.describe() == extension.describe()
    if extension.kind == "cnn":
        assert again.with_backbone(extension.trained_backbone).trained_backbone == extension.trained_backbone
    else:
        assert again == extension
    assert described["kind"] in EXTENSIONS


def test_a_description_need_only_say_what_differs():
    assert as_extension("linear") == as_extension({"kind": "linear"}) == Linear()
    assert as_extension({"kind": "trees", "n_leaves": 5}) == Trees(n_leaves=5)
    network = as_extension({"kind": "cnn", "backbone": "small", "training": {"epochs": 3}})
    assert network.trained_backbone.name == "small"
    assert network.training.epochs == 3
    assert network.training.momentum > 0
    assert as_extension(network) is network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("trues", "Did you mean 'trees'"),
        ({"kind": "lineal"}, "Did you mean 'linear'"),
        ({"kind": "linear", "rigde": 1}, "'linear' has no parameter 'rigde'; it has ridge"),
        ({"ridge": 1}, "has a kind, one of cnn, kernel, linear, trees"),
        (7, "has a kind.*got 7"),
        ({"kind": "linear", "ridge": 0}, "ridge must be above 0; got 0"),
        ({"kind": "kernel", "n_anchors": 0}, "n_anchors must be above 0"),
        ({"kind": "trees", "n_leaves": 1}, "n_leaves and n_bins must be at least 2"),
        ({"kind": "trees", "n_workers": 0}, "n_workers must be above 0"),
        ({"kind": "trees", "learning_rate": float("nan")}, "learning_rate must be above 0"),
    ],
)
def test_what_is_no_extension_is_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        as_extension(given)


def test_an_unknown_kind_is_an_unknown_name():
    with pytest.raises(UnknownName):
        as_extension("forest")


def _run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_neither_torch_nor_lightgbm_is_loaded_before_it_is_needed():
    code = (
        "import sys, ddsh.methods.cosdish, ddsh.methods.lfh; print('torch' in sys.modules, 'lightgbm' in sys.modules)"
    )
    assert _run(code).split() == ["False", "False"]


@pytest.mark.parametrize(
    ("package", "use", "advice"),
    [
        ("lightgbm", "COSDISH(4).fit([[1.0], [2.0]], [0, 1])", "pip install 'ddsh[methods]'"),
        ("torch", "COSDISH(4, extension='cnn').fit([[1.0], [2.0]], [0, 1])", "pip install 'ddsh[deep]'"),
    ],
)
def test_a_missing_package_is_answered_with_one_line(package, use, advice):
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == '{package}':
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from ddsh.errors import DdshError
from ddsh.methods.cosdish import COSDISH
try:
    {use}
except DdshError as error:
    print(error)
"""
    output = _run(code)
    assert advice in output
    assert len(output.splitlines()) == 1
