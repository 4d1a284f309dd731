import importlib
import json
import sys

import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import DATASETS, load, register
from ddsh.errors import DataError, InvalidInput, UnknownName


def _picture(path, seed=0, size=(8, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def photos(tmp_path):
    """Two classes of four photos each, all different, in two sizes."""
    for number in range(8):
        kind = ("cat", "dog")[number % 2]
        _picture(tmp_path / "photos" / kind / f"{number}.png", number, (8, 6) if number < 6 else (5, 5))
    return tmp_path / "photos"


def test_a_folder_of_images_is_recognised(photos):
    dataset = load(str(photos))
    assert dataset.class_names == ("cat", "dog")
    assert len(dataset) == 8
    assert dataset.protocol == "own"


def test_a_table_is_recognised(photos):
    rows = [json.dumps({"path": f"cat/{n}.png", "labels": ["cat", "pet"]}) for n in (0, 2)]
    (photos / "table.jsonl").write_text("\n".join(rows))
    assert load(photos / "table.jsonl").class_counts() == {"cat": 2, "pet": 2}


@pytest.mark.parametrize("given", ["", "x_test.txt", "x"])
def test_lists_are_recognised_by_folder_file_and_prefix(tmp_path, given):
    (tmp_path / "x_test.txt").write_text("a.jpg 0 1\n")
    (tmp_path / "x_train.txt").write_text("b.jpg 1 1\nc.jpg 1 0\n")
    dataset = load(tmp_path / given if given else tmp_path)
    assert len(dataset) == (1 if given.endswith(".txt") else 3)


def test_a_folder_of_photos_with_a_text_file_beside_them_is_no_list(photos):
    (photos / "test.txt").write_text("a.jpg 0 1\n")
    assert len(load(photos)) == 8


@pytest.mark.parametrize("name", ["cifar10", "svhn"])
def test_real_datasets_are_found_by_name_and_by_folder(data_root, name):
    by_name = load(name, root=data_root)
    by_folder = load(DATASETS[name].find(data_root))
    assert by_name.name == by_folder.name == name
    assert len(by_name) == len(by_folder)
    assert load(name, root=DATASETS[name].find(data_root)).name == name


def test_a_dataset_that_is_not_there_says_how_to_get_it(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    with pytest.raises(DataError, match=f"ddsh data fetch cifar10 --root {tmp_path}"):
        load("cifar10", root=str(tmp_path))
    with pytest.raises(DataError, match="official files"):
        load("nuswide", root=tmp_path)
    with pytest.raises(DataError, match="--root DIR or DDSH_DATA"):
        load("cifar10")


def test_names_and_paths_that_do_not_exist_are_told_apart():
    with pytest.raises(UnknownName, match="Did you mean 'cifar10'"):
        load("cifar-10")
    with pytest.raises(DataError, match="/no/such/folder does not exist"):
        load("/no/such/folder")


def test_a_path_is_never_taken_for_a_name(photos, tmp_path):
    photos.rename(tmp_path / "sample")
    assert len(load(tmp_path / "sample")) == 8
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "mnist")


def test_strict_refuses_a_list_whose_images_are_missing(photos, tmp_path):
    (tmp_path / "list.txt").write_text("cat/0.png 1 0\ndog/none.png 0 1\n")
    dataset = load(tmp_path / "list.txt", images_root=photos)
    assert dataset.images[0].shape == (6, 8, 3)
    with pytest.raises(DataError, match=r"1 images cannot be read: .*none\.png"):
        load(tmp_path / "list.txt", images_root=photos, strict=True)


def test_every_dataset_names_a_loader_that_exists():
    for card in DATASETS.values():
        module, function = card.loader.split(":")
        assert callable(getattr(importlib.import_module(module), function))


MODULE = """
import numpy as np
from ddsh.datasets import Dataset
from ddsh.images import ArrayImages
from ddsh.labels import as_labels

called_with = []

def _toy(name):
    images = ArrayImages(lambda: np.zeros((4, 2, 2, 1), np.uint8), 4, name)
    return Dataset(name, images, as_labels([0, 1, 0, 1]), ("a", "b"))

def load_plain():
    return _toy("plain")

def load_folder(folder):
    called_with.append(folder)
    return _toy("folder")

def load_optional(n_images=4, root=None):
    called_with.append(root)
    return _toy("optional")

def load_positional(place, /):
    called_with.append(place)
    return _toy("positional")

def load_nothing():
    return 3

number = 7
"""


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """An installed package with a module of loaders; its entry points are written by the test."""
    (tmp_path / "outside_toys.py").write_text(MODULE)
    (tmp_path / "outside_broken.py").write_text("raise RuntimeError('two\\nlines')")
    info = tmp_path / "outside_toys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ddsh.datasets]\n"
        "toys = outside_toys:load_folder\n"
        "gone = outside_gone:load\n"
        "lost = outside_toys:lost\n"
        "torn = outside_broken:load\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("outside_toys")
    del sys.modules["outside_toys"]


def test_a_function_of_your_own_module_is_a_dataset(outside, tmp_path):
    assert load("outside_toys:load_plain").name == "plain"
    assert load("outside_toys:load_plain", root=tmp_path).name == "plain"
    assert load("outside_toys:load_folder", root=str(tmp_path)).name == "folder"
    assert load("outside_toys:load_optional").name == "optional"
    load("outside_toys:load_optional", root=tmp_path)
    load("outside_toys:load_positional", root=tmp_path)
    assert outside.called_with == [tmp_path, None, tmp_path, tmp_path]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("outside_none:load", "outside_none:load cannot be loaded .*No module named 'outside_none'"),
        ("outside_toys:none", "outside_toys:none cannot be loaded .*no attribute 'none'"),
        ("outside_broken:load", "cannot be loaded .RuntimeError: two lines"),
        ("outside_toys:number", "is no function"),
        ("outside_toys:load_nothing", "returned int; expected a Dataset"),
        ("outside_toys:load_folder", "say where its files are: root="),
    ],
)
def test_a_function_that_cannot_be_used_is_one_clear_line(outside, reference, message):
    with pytest.raises(DataError, match=message) as caught:
        load(reference)
    assert "\n" not in str(caught.value)


def test_datasets_of_installed_packages_are_listed_and_loaded_by_name(outside, tmp_path):
    assert {"toys", "cifar10"} <= set(DATASETS)
    assert len(DATASETS) == len(list(DATASETS))
    card = DATASETS["toys"]
    assert (card.package, card.find(tmp_path), card.where(tmp_path)) == ("outside-toys", None, "package outside-toys")
    assert load("toys", root=tmp_path).name == "folder"
    (tmp_path / "toys").mkdir()
    assert card.where(tmp_path) == str(tmp_path / "toys")
    load("toys", root=tmp_path)
    assert outside.called_with == [tmp_path, tmp_path / "toys"]


@pytest.mark.parametrize("name", ["gone", "lost", "torn"])
def test_a_broken_entry_point_is_listed_and_one_clear_line_when_loaded(outside, name, tmp_path):
    assert name in DATASETS
    with pytest.raises(DataError, match=f"Dataset '{name}': outside_.* cannot be loaded") as caught:
        load(name, root=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_registered_dataset_is_loaded_by_name(outside, monkeypatch):
    monkeypatch.setattr(DATASETS, "cards", dict(DATASETS.cards))
    register("mine", outside.load_plain, "four black images")
    assert load("mine").name == "plain"
    assert (DATASETS["mine"].title, DATASETS["mine"].where(None)) == ("four black images", "registered")
    for taken in ("mine", "cifar10", "toys"):
        with pytest.raises(InvalidInput, match=f"already a dataset '{taken}'"):
            register(taken, outside.load_plain)


def test_a_file_whose_name_looks_like_a_function_is_a_file(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos.rename(tmp_path / "a:b")
    assert len(load("a:b")) == 8


def test_a_large_table_of_several_labels_loads_by_path(data_root):
    table = data_root / "flickr8k" / "flickr8k.csv"
    if not table.exists():
        pytest.skip("Flickr8k is not here")
    dataset = load(str(table), verify=False)
    assert repr(dataset) == "Dataset(flickr8k: 7,608 images, 10 classes)"
    assert dataset.class_counts()["child"] == 2482
    assert dataset.images[0].ndim == 3
