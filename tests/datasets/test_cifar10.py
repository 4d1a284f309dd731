import pickle
import struct
from typing import ClassVar

import numpy as np
import pytest
from scipy.io import savemat

from ddsh.datasets import cifar10
from ddsh.errors import DataError
from ddsh.labels import SingleLabels

STEMS = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


class _Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, as in the official files."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, obj):
        self.write(b"T" + struct.pack("<i", len(obj)) + obj)
        self.memoize(obj)

    dispatch[bytes] = save_bytes


def _write_python2(path, content):
    with path.open("wb") as file:
        _Python2Pickler(file, protocol=2).dump(content)


@pytest.fixture
def batches(rng):
    """Six batches of four images each: labels, and rows of 3,072 pixels."""
    return {stem: (rng.integers(0, 10, 4), rng.integers(0, 256, (4, 3072), np.uint8)) for stem in STEMS}


def _write(folder, kind, batches):
    folder.mkdir(exist_ok=True)
    for stem, (labels, pixels) in batches.items():
        match kind:
            case "binary":
                rows = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
                (folder / f"{stem}.bin").write_bytes(rows.tobytes())
            case "python2":
                _write_python2(folder / stem, {b"data": pixels, b"labels": labels.tolist(), b"batch_label": b"x"})
            case "python3":
                (folder / stem).write_bytes(pickle.dumps({"data": pixels, "labels": labels.tolist()}))
            case "matlab":
                savemat(folder / f"{stem}.mat", {"data": pixels, "labels": labels[:, None].astype(np.uint8)})


@pytest.mark.parametrize("kind", ["binary", "python2", "python3", "matlab"])
def test_every_distribution_gives_the_same_images_and_labels(tmp_path, batches, kind):
    _write(tmp_path, kind, batches)
    dataset = cifar10.load(tmp_path, n_per_file=4)
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.values.tolist() == [label for labels, _ in batches.values() for label in labels]
    flat = np.concatenate([pixels for _, pixels in batches.values()])
    expected = flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    assert np.array_equal(np.stack(list(dataset.images.take(np.arange(24)))), expected)
    assert np.array_equal(dataset.images[-1], expected[-1])
    assert dataset.parts["train"].tolist() == list(range(20))
    assert dataset.parts["test"].tolist() == list(range(20, 24))
    assert "image 1" in dataset.images.name(5)


def test_images_are_read_only_when_asked_for(tmp_path, batches):
    _write(tmp_path, "binary", batches)
    dataset = cifar10.load(tmp_path, n_per_file=4)
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError):
        _ = dataset.images[0]


class _Evil:
    def __reduce__(self):
        return print, ("code was run",)


def test_a_pickle_that_would_run_code_is_refused(tmp_path, batches, capsys):
    _write(tmp_path, "python3", batches)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": _Evil(), "labels": []}))
    with pytest.raises(DataError, match="print has no place"):
        cifar10.load(tmp_path, n_per_file=4)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", ["binary", "python2", "matlab"])
@pytest.mark.parametrize("keep", [0, 1, 100, 0.5])
def test_a_truncated_file_is_refused(tmp_path, batches, kind, keep):
    _write(tmp_path, kind, batches)
    path = next(path for path in tmp_path.iterdir() if path.name.startswith("data_batch_3"))
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if keep == 0.5 else keep])
    with pytest.raises(DataError, match="data_batch_3") as caught:
        _ = cifar10.load(tmp_path, n_per_file=4).images[8]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["python3", "matlab"])
def test_pixels_of_another_shape_are_refused(tmp_path, batches, kind):
    labels, pixels = batches["test_batch"]
    _write(tmp_path, kind, batches | {"test_batch": (labels, pixels[:, :1000])})
    with pytest.raises(DataError, match=r"uint8 pixels \(4, 3072\)"):
        _ = cifar10.load(tmp_path, n_per_file=4).images[-1]


def test_labels_beyond_nine_are_refused(tmp_path, batches):
    _, pixels = batches["test_batch"]
    _write(tmp_path, "binary", batches | {"test_batch": (np.array([0, 1, 2, 10]), pixels)})
    with pytest.raises(DataError, match="4 labels 0 to 9, found 4 labels 0 to 10"):
        cifar10.load(tmp_path, n_per_file=4)


def test_a_folder_with_a_file_missing_is_no_cifar10(tmp_path, batches):
    _write(tmp_path, "binary", batches)
    (tmp_path / "data_batch_4.bin").unlink()
    assert cifar10.distribution(tmp_path) is None
    with pytest.raises(DataError, match="holds no CIFAR-10"):
        cifar10.load(tmp_path)
