import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.datasets import mnist
from ddsh.errors import DataError
from ddsh.labels import SingleLabels


def _idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def files(rng):
    """The four files of an MNIST of seven and three images."""
    shapes = {"train": 7, "t10k": 3}
    images = {stem: rng.integers(0, 256, (n, 28, 28), np.uint8) for stem, n in shapes.items()}
    labels = {stem: rng.integers(0, 10, n).astype(np.uint8) for stem, n in shapes.items()}
    return images, labels


def _write(folder, files, dot="-", compress=False):
    for kind, arrays in zip(("images", "labels"), files, strict=True):
        for stem, array in arrays.items():
            name = f"{stem}-{kind}{dot}idx{array.ndim}-ubyte"
            data = _idx(array)
            if compress:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)


@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize("compress", [False, True])
def test_files_are_read_plain_and_gzipped_under_both_names(tmp_path, files, dot, compress):
    _write(tmp_path, files, dot, compress)
    dataset = mnist.load_mnist(tmp_path)
    images, labels = files
    assert np.array_equal(np.stack(list(dataset.images.take(np.arange(7))))[..., 0], images["train"])
    assert np.array_equal(dataset.images[8], images["t10k"][1][..., None])
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.values.tolist() == [*labels["train"], *labels["t10k"]]
    assert dataset.parts["test"].tolist() == [7, 8, 9]


@given(st.binary(max_size=40))
def test_bytes_that_are_no_idx_file_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("idx") / "x"
    path.write_bytes(data)
    try:
        array = mnist.read_idx(path)
    except DataError:
        return
    assert _idx(array) == data


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("change", ["short", "long", "type", "gzip"])
def test_a_damaged_file_is_refused(tmp_path, files, compress, change):
    _write(tmp_path, files, compress=compress)
    path = mnist.find_idx(tmp_path, "train", "images", 3)
    data = _idx(files[0]["train"])
    data = {"short": data[:-1], "long": data + b"x", "type": b"\0\0\x0d" + data[3:], "gzip": data}[change]
    written = gzip.compress(data) if compress else data
    path.write_bytes(written[: len(written) // 2] if change == "gzip" else written)
    with pytest.raises(DataError, match="train-images") as caught:
        _ = mnist.load_mnist(tmp_path).images[0]
    assert "\n" not in str(caught.value)


def test_labels_of_a_class_without_a_name_are_refused(tmp_path, files):
    files[1]["t10k"][1] = 10
    _write(tmp_path, files)
    with pytest.raises(DataError, match="labels 0 to 9"):
        mnist.load_fashion(tmp_path)


def test_more_labels_than_images_are_refused(tmp_path, files):
    files[1]["t10k"] = np.zeros(5, np.uint8)
    _write(tmp_path, files)
    with pytest.raises(DataError, match="10 images but 12 labels"):
        mnist.load_fashion(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte \(plain or \.gz\)"):
        mnist.load_mnist(tmp_path)


def test_the_sample_is_balanced_and_real():
    sample = mnist.load_sample()
    assert isinstance(sample.labels, SingleLabels)
    for part, per_class in (("query", 100), ("database", 1000)):
        counts = np.bincount(sample.labels.values[sample.parts[part]])
        assert counts.tolist() == [per_class] * 10
    images = np.stack(list(sample.images.take(np.arange(len(sample)))))
    assert images.shape == (11_000, 28, 28, 1)
    assert 60 < images.mean() < 90
    assert len(np.unique(images.reshape(11_000, -1), axis=0)) == 11_000


@pytest.mark.parametrize("shape", [(2**31, 2, 2), (2**32 - 1, 2**32 - 1, 2**32 - 1), (0, 28, 28)])
def test_a_header_that_promises_too_much_or_nothing_is_refused_before_reading(tmp_path, shape):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    with gzip.open(path, "wb") as file:
        file.write(bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape) + bytes(1000))
    with pytest.raises(DataError, match="its header promises"):
        mnist.read_idx(path)
