"""Methods and backbones from outside the package."""

import sys

import numpy as np
import pytest

from ddsh.backbones.registry import get_card
from ddsh.errors import InvalidInput, UnknownName
from ddsh.methods import get_method, method_names
from ddsh.plugins import find_object, plugin_names

METHOD = """
from dataclasses import replace

from ddsh.methods import LSH
from ddsh.backbones.registry import BackboneCard
from ddsh.backbones.small import build


class Other(LSH):
    card = replace(LSH.card, name="other")

    class Inner(LSH):
        card = replace(LSH.card, name="inner")


def tiny(*, image_size=16, seed=0):
    return build(image_size=image_size, seed=seed)


CARD = BackboneCard("tiny", "sixteen pixels", "plugged:tiny", 16, 256, "none", None, is_pretrained=False)
NUMBER = 7
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A module `plugged` on the path, installed with entry points."""
    (tmp_path / "plugged.py").write_text(METHOD)
    (tmp_path / "broken.py").write_text("import no_such_package_anywhere\n")
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ddsh.methods]\nother = plugged:Other\nbroken = broken:Method\nnumber = plugged:NUMBER\n"
        "[ddsh.backbones]\ntiny = plugged:tiny\ntiny-card = plugged:CARD\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("plugged", "broken"):
        sys.modules.pop(name, None)


def test_an_object_is_found_by_module_and_name(package):
    assert find_object("plugged:NUMBER", "ddsh.methods") == 7
    assert find_object("plugged:Other.Inner", "ddsh.methods").card.name == "inner"


def test_a_module_in_the_working_directory_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside_me.py").write_text("NUMBER = 8\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    assert find_object("beside_me:NUMBER", "ddsh.methods") == 8
    sys.modules.pop("beside_me")


def test_entry_points_of_installed_packages_are_listed(package):
    assert {"broken", "number", "other"} <= set(plugin_names("ddsh.methods"))
    assert {"lsh", "other"} <= set(method_names())
    assert plugin_names("ddsh.no_such_group") == []


def test_a_name_that_is_neither_gives_none(package):
    assert find_object("nothing", "ddsh.methods") is None


@pytest.mark.parametrize("name", ["plugged:Other", "other"])
def test_a_method_of_another_package_learns(package, rng, name):
    method = get_method(name)(8)
    assert method.card.name == "other"
    assert len(method.fit(rng.normal(size=(20, 5))).encode(rng.normal(size=(3, 5)))) == 3


@pytest.mark.parametrize("name", ["plugged:tiny", "tiny", "plugged:CARD", "tiny-card"])
def test_a_backbone_of_another_package_gives_features(package, rng, name):
    pytest.importorskip("torch")
    from ddsh.backbones import Backbone

    card = get_card(name)
    assert (card.name, card.image_size, card.n_features) == (name, 16, 256)
    backbone = Backbone(name)
    assert backbone.image_size == 16
    assert backbone.features(rng.integers(0, 256, (3, 20, 20, 3), np.uint8)).shape == (3, 256)


@pytest.mark.parametrize("find", [get_method, get_card])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Method", r"^no_such_module:Method cannot be loaded \(ModuleNotFoundError: .*\)\.$"),
        ("plugged:Missing", r"^plugged:Missing cannot be loaded \(AttributeError: .*\)\.$"),
        ("broken:Method", r"^broken:Method cannot be loaded \(ModuleNotFoundError: .*no_such_package_anywhere.*\)\.$"),
        (":Method", r"^:Method cannot be loaded"),
        ("plugged:", r"^plugged: cannot be loaded"),
    ],
)
def test_an_object_that_cannot_be_loaded_is_one_line(package, find, name, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        find(name)
    assert "\n" not in str(caught.value)


def test_an_entry_point_that_cannot_be_loaded_is_one_line(package):
    with pytest.raises(InvalidInput, match=r"^broken cannot be loaded \(ModuleNotFoundError"):
        get_method("broken")


@pytest.mark.parametrize("name", ["plugged:NUMBER", "number", "plugged:tiny", "collections:Counter"])
def test_an_object_that_is_not_a_method_is_refused(package, name):
    with pytest.raises(
        InvalidInput, match=rf"^{name} is not a method: expected a subclass of ddsh\.methods\.Hasher\.$"
    ):
        get_method(name)


def test_an_object_that_is_not_a_backbone_is_refused(package):
    with pytest.raises(InvalidInput, match=r"^plugged:NUMBER is not a backbone: expected a BackboneCard or a function"):
        get_card("plugged:NUMBER")


def test_an_unknown_name_is_answered_with_the_nearest_plugin(package):
    with pytest.raises(UnknownName, match=r"Unknown method 'othr'\. Did you mean 'other'\?"):
        get_method("othr")
    with pytest.raises(UnknownName, match=r"Unknown backbone 'tinny'\. Did you mean 'tiny'\?"):
        get_card("tinny")
