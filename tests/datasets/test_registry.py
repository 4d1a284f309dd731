import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import DATASETS, PROTOCOLS, Protocol, load
from ddsh.datasets.check import check
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


def test_a_check_finds_images_that_lists_put_into_both_parts(photos, tmp_path):
    (photos / "x_test.txt").write_text("cat/0.png 1 0\ncat/2.png 1 0\n")
    (photos / "x_database.txt").write_text("cat/2.png 1 0\ndog/1.png 0 1\n")
    dataset = load(photos / "x")
    report = check(dataset, PROTOCOLS["given"])
    assert [Path(query).name for query, _ in report.shared] == ["2.png"]
    assert len(PROTOCOLS["given"].split(dataset, 0).database) == 1


def test_every_copy_of_a_query_is_reported(photos):
    for name in ("a", "b"):
        (photos / "dog" / f"{name}.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    (photos / "table.jsonl").write_text(
        "\n".join(
            json.dumps({"path": path, "label": "x", "part": part})
            for path, part in [("cat/0.png", "query"), ("dog/a.png", "query"), ("dog/b.png", "database")]
        )
    )
    report = check(load(photos / "table.jsonl"), PROTOCOLS["given"])
    assert len({query for query, _ in report.shared}) == 2
    assert report.n_readable == 3


def test_every_dataset_names_a_loader_that_exists():
    for card in DATASETS.values():
        module, function = card.loader.split(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_a_check_finds_duplicates_between_query_and_database(photos):
    (photos / "dog" / "copy.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    (photos / "dog" / "broken.png").write_bytes(b"not an image")
    dataset = load(photos)
    one_each = Protocol("one", query_per_class=1)
    seen = []
    reports = [check(dataset, one_each, seed, lambda done, total: seen.append((done, total))) for seed in range(12)]
    assert seen[:9] == [(n, 9) for n in range(1, 10)]
    for report in reports:
        assert report.n_duplicates == 1
        assert report.class_counts == {"cat": 4, "dog": 5}
        assert report.sizes == {"8 x 6": 7, "5 x 5": 2}
        assert [Path(file.path).name for file in report.broken] == ["broken.png"]
        assert report.split == one_each.split(dataset, report.seed).fingerprint
        for pair in report.shared:
            assert {Path(path).name for path in pair} == {"0.png", "copy.png"}
    shared = [len(report.shared) for report in reports]
    expected = []
    for seed in range(12):
        split = one_each.split(dataset, seed)
        names = {Path(dataset.images.name(int(row))).name for row in split.query}
        expected.append(int(len(names & {"0.png", "copy.png"}) == 1))
    assert shared == expected
    assert sum(shared) > 0


def test_a_check_of_a_dataset_that_cannot_be_split_says_why(photos):
    report = check(load(photos), PROTOCOLS["own"])
    assert report.split is None
    assert "class 'cat' has 4 images" in report.no_split
    assert json.loads(json.dumps(report.to_dict()))["n_images"] == 8


def test_a_check_lists_images_that_went_missing(photos):
    dataset = load(photos)
    (photos / "cat" / "0.png").unlink()
    report = check(dataset, PROTOCOLS["own"])
    assert len(report.broken) == 1
    assert "0.png" in report.broken[0].path
    assert "0.png" not in report.broken[0].reason
