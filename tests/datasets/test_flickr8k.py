import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import get_protocol, load
from ddsh.errors import DataError
from ddsh.labels import MultiLabels


def test_photos_and_their_concepts_are_read(tmp_path, rng):
    (tmp_path / "images").mkdir()
    for name in "abc":
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).save(tmp_path / "images" / f"{name}.png")
    (tmp_path / "flickr8k.csv").write_text(
        "path,labels\nimages/a.png,dog;grass\nimages/b.png,dog\nimages/c.png,water\n"
    )
    for dataset in (load("flickr8k", root=tmp_path), load(tmp_path)):
        assert (dataset.name, dataset.protocol, len(dataset)) == ("flickr8k", "flickr8k", 3)
        assert dataset.class_counts() == {"dog": 2, "grass": 1, "water": 1}
        assert isinstance(dataset.labels, MultiLabels)
        assert dataset.images[0].shape == (9, 7, 3)


def test_a_folder_without_the_table_is_refused(tmp_path):
    with pytest.raises(DataError, match="not in"):
        load("flickr8k", root=tmp_path)


def test_the_real_photos_are_split_as_nus_wide_scaled_down(data_root):
    dataset = load("flickr8k", root=data_root)
    split = get_protocol("flickr8k").split(dataset, 0)
    assert (len(dataset), len(dataset.class_names)) == (7608, 10)
    assert (len(split.query), len(split.train), len(split.database)) == (500, 3000, 7108)
    assert split.protocol.top_k == 5000
    assert split.fingerprint == get_protocol("flickr8k").split(dataset, 0).fingerprint
