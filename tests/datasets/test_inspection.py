import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import PROTOCOLS, Protocol, check_dataset, load


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


def test_a_check_finds_images_that_lists_put_into_both_parts(photos, tmp_path):
    (photos / "x_test.txt").write_text("cat/0.png 1 0\ncat/2.png 1 0\n")
    (photos / "x_database.txt").write_text("cat/2.png 1 0\ndog/1.png 0 1\n")
    dataset = load(photos / "x")
    report = check_dataset(dataset, PROTOCOLS["given"])
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
    report = check_dataset(load(photos / "table.jsonl"), PROTOCOLS["given"])
    assert len({query for query, _ in report.shared}) == 2
    assert report.n_readable == 3


def test_a_check_finds_duplicates_between_query_and_database(photos):
    (photos / "dog" / "copy.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    (photos / "dog" / "broken.png").write_bytes(b"not an image")
    dataset = load(photos)
    one_each = Protocol("one", query_per_class=1)
    seen = []
    reports = [
        check_dataset(dataset, one_each, seed, lambda done, total: seen.append((done, total))) for seed in range(12)
    ]
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
    report = check_dataset(load(photos), PROTOCOLS["cifar10"])
    assert report.split is None
    assert "class 'cat' has 4 images" in report.no_split
    assert json.loads(json.dumps(report.to_dict()))["n_images"] == 8


def test_a_check_counts_unlabelled_images(photos):
    _picture(photos / "loose.png", seed=99)
    report = check_dataset(load(photos), PROTOCOLS["own"])
    assert (report.n_images, report.n_unlabelled, report.labels_per_image) == (9, 1, 1.0)
    assert report.split == check_dataset(load(photos), PROTOCOLS["own"]).split


def test_a_check_lists_images_that_went_missing(photos):
    dataset = load(photos)
    (photos / "cat" / "0.png").unlink()
    report = check_dataset(dataset, PROTOCOLS["own"])
    assert len(report.broken) == 1
    assert "0.png" in report.broken[0].path
    assert "0.png" not in report.broken[0].reason
