"""CIFAR-10, in any of its three official distributions.

References
----------
Krizhevsky, A. "Learning Multiple Layers of Features from Tiny Images." Technical report, 2009.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets.dataset import Dataset
from ddsh.datasets.matlab import read_mat
from ddsh.errors import DataError
from ddsh.images import ArrayImages, StackedImages
from ddsh.labels import SingleLabels
from ddsh.storage import read_pickled_arrays

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STEMS = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
_RECORD = np.dtype([("label", np.uint8), ("pixels", np.uint8, (3, 32, 32))])


@dataclass(frozen=True)
class _Batch:
    """One of the six files: its labels, and a way to its images."""

    labels: NDArray[Any]
    images: ArrayImages


def load(root: Path, *, n_per_file: int = 10_000) -> Dataset:
    """Read CIFAR-10 from a folder with the binary, Python or MATLAB files.

    Parameters
    ----------
    root : path
        The folder that holds ``data_batch_1`` to ``data_batch_5`` and ``test_batch`` (``.bin``, ``.mat`` or no
        extension), as the official archives unpack.
    n_per_file : int
        Images that each file must hold.

    Returns
    -------
    Dataset
        60,000 images: part ``train`` is the five batches, part ``test`` the sixth.
    """
    suffix = distribution(root)
    if suffix is None:
        raise DataError(f"{root} holds no CIFAR-10: expected data_batch_1 .. 5 and test_batch (.bin, .mat or pickled).")
    batches = [_read(root / (stem + suffix), n_per_file) for stem in _STEMS]
    labels = np.concatenate([batch.labels for batch in batches])
    rows = np.arange(len(labels))
    n_train = 5 * n_per_file
    return Dataset(
        name="cifar10",
        images=StackedImages([batch.images for batch in batches]),
        labels=SingleLabels(labels),
        class_names=CLASS_NAMES,
        parts={"train": rows[:n_train], "test": rows[n_train:]},
        protocol="cifar10",
    )


def distribution(root: Path) -> str | None:
    """Return the file extension of the distribution that is complete in `root`, or None."""
    for suffix in (".bin", "", ".mat"):
        if all((root / (stem + suffix)).is_file() for stem in _STEMS):
            return suffix
    return None


def _read(path: Path, n_images: int) -> _Batch:
    batch = _READERS[path.suffix](path, n_images)
    if batch.labels.shape != (n_images,) or not np.isin(batch.labels, np.arange(len(CLASS_NAMES))).all():
        raise DataError(f"{path}: expected {n_images:,} labels 0 to 9, found {_describe(batch.labels)}; get it again.")
    return batch


def _read_binary(path: Path, n_images: int) -> _Batch:
    expected = n_images * _RECORD.itemsize
    if path.stat().st_size != expected:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, expected {expected:,}; get the file again.")

    def records() -> NDArray[Any]:
        """Map the file; it is opened where images are read."""
        return np.memmap(path, _RECORD, mode="r")

    labels = np.asarray(records()["label"], np.int64)
    return _Batch(labels, ArrayImages(lambda: records()["pixels"].transpose(0, 2, 3, 1), n_images, str(path)))


def _read_python(path: Path, n_images: int) -> _Batch:
    labels = np.asarray(_unpickle(path)["labels"], np.int64)
    return _Batch(labels, _flat_images(lambda: _unpickle(path)["data"], n_images, path))


def _read_matlab(path: Path, n_images: int) -> _Batch:
    labels = read_mat(path, "labels").ravel().astype(np.int64)
    return _Batch(labels, _flat_images(lambda: read_mat(path, "data"), n_images, path))


_READERS: Mapping[str, Callable[[Path, int], _Batch]] = {
    ".bin": _read_binary,
    "": _read_python,
    ".mat": _read_matlab,
}


def _flat_images(open_flat: Callable[[], Any], n_images: int, path: Path) -> ArrayImages:
    """Return images that are stored as rows of 3,072 numbers: red, green, blue planes of 32 x 32."""

    def open_array() -> NDArray[np.uint8]:
        """Read the rows, check them, and make images of them."""
        flat = np.asarray(open_flat())
        if flat.shape != (n_images, 3072) or flat.dtype != np.uint8:
            raise DataError(f"{path}: expected uint8 pixels ({n_images}, 3072), found {flat.dtype} {flat.shape}.")
        return np.ascontiguousarray(flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))

    return ArrayImages(open_array, n_images, str(path))


def _unpickle(path: Path) -> dict[str, Any]:
    """Read a CIFAR-10 batch that was pickled by Python 2 or 3."""
    content = read_pickled_arrays(path)
    try:
        batch = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in content.items()}
        return {"data": batch["data"], "labels": batch["labels"]}
    except (AttributeError, KeyError) as error:
        raise DataError(f"{path} is not a CIFAR-10 Python batch: it has no data and labels.") from error


def _describe(labels: NDArray[Any]) -> str:
    return f"{len(labels):,} labels {labels.min()} to {labels.max()}" if labels.size else "none"
