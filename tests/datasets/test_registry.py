import importlib
import json

import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import DATASETS, load
from ddsh.errors import DataError, UnknownName


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
