import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ddsh.datasets
from ddsh.datasets import Dataset, Protocol, load
from ddsh.errors import DataError
from ddsh.images import ArrayImages, FileImages
from ddsh.labels import as_labels


def _dataset(images, labels, names):
    return Dataset("<toy>", images, as_labels(labels), names)


def test_the_repr_has_name_and_sizes():
    assert repr(load("sample")) == "Dataset(sample: 11,000 images, 10 classes)"


def test_the_repr_of_a_split_and_a_protocol_is_short():
    protocol = Protocol("toy", query_per_class=100, n_train=5000)
    assert repr(protocol) == "Protocol('toy', query_per_class=100, n_train=5000)"
    split = protocol.split(load("sample"), 3)
    assert repr(split) == "Split(toy, seed 3: 1,000 query, 5,000 train, 10,000 database)"


def test_a_notebook_shows_class_counts_and_thumbnails():
    page = load("sample")._repr_html_()
    assert page.count("<img") == 40
    assert "T-shirt/top</td><td>1,100</td>" in page
    assert len(page) < 100_000


def test_a_notebook_shows_the_first_of_many_classes_and_escapes_their_names(tmp_path: Path):
    names = tuple(f"<{number}>" for number in range(30))
    images = FileImages([tmp_path / f"{number}.png" for number in range(30)])
    page = _dataset(images, np.arange(30), names)._repr_html_()
    assert "&lt;19&gt;" in page
    assert "&lt;20&gt;" not in page
    assert "and 10 more classes" in page
    assert "<img" not in page  # the files do not exist
    assert "<toy>" not in page


def test_as_many_labels_as_images_are_needed():
    images = ArrayImages(lambda: np.zeros((3, 2, 2, 1), np.uint8), 3, "zeros")
    with pytest.raises(DataError, match="3 images but 2 labels"):
        _dataset(images, [0, 1], ("a", "b"))


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, ddsh.datasets; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"numpy", "scipy", "PIL", "sklearn", "torch"}


def test_every_public_name_can_be_imported():
    for name in ddsh.datasets.__all__:
        assert getattr(ddsh.datasets, name) is not None
        assert name in dir(ddsh.datasets)
    with pytest.raises(AttributeError):
        _ = ddsh.datasets.nothing
