"""CIFAR-10, in any of its three official distributions.

References
----------
Krizhevsky, A. "Learning Multiple Layers of Features from Tiny Images." Technical report, 2009.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets._matlab import read_mat
from ddsh.datasets.base import Dataset
from ddsh.errors import DataError
from ddsh.images import ArrayImages, StackedImages
from ddsh.labels import SingleLabels
from ddsh.storage import read_pickled_arrays

__all__ = ["CLASS_NAMES", "distribution", "load"]

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STEMS = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
_RECORD = np.dtype([("label", np.uint8), ("pixels", np.uint8, (3, 32, 32))])


def load(root: str | os.PathLike[str], *, n_per_file: int = 10_000) -> Dataset:
    """Read CIFAR-10 from a folder with the binary, Python or MATLAB files.

    Parameters
    ----------
    root : path
        The folder that holds ``data_batch_1`` to ``data_batch_5`` and ``test_batch`` (``.bin``, ``.mat`` or no
        extension), as in the official archives.
    n_per_file : int
        Number of images that each file must hold.

    Returns
    -------
    Dataset
        60,000 images: part ``train`` is the five batches, part ``test`` the sixth.
    """
    suffix = distribution(root)
    if suffix is None:
        raise DataError(f"{root} holds no CIFAR-10: expected data_batch_1 .. 5 and test_batch (.bin, .mat or pickled).")
    read = {".bin": _read_binary, "": _read_python, ".mat": _read_matlab}[suffix]
    labels, images = [], []
    for path in (Path(root, stem + suffix) for stem in _STEMS):
        values, open_pixels = read(path, n_per_file)
        if values.shape != (n_per_file,) or not np.isin(values, np.arange(len(CLASS_NAMES))).all():
            found = f"{len(values):,} labels {values.min()} to {values.max()}" if values.size else "none"
            raise DataError(f"{path}: expected {n_per_file:,} labels 0 to 9, found {found}; get it again.")
        labels.append(values)
        images.append(ArrayImages(open_pixels, n_per_file, str(path)))
    rows = np.arange(len(_STEMS) * n_per_file)
    n_train = 5 * n_per_file
    return Dataset(
        name="cifar10",
        images=StackedImages(images),
        labels=SingleLabels(np.concatenate(labels)),
        class_names=CLASS_NAMES,
        parts={"train": rows[:n_train], "test": rows[n_train:]},
        protocol="cifar10",
    )


def distribution(root: str | os.PathLike[str]) -> str | None:
    """Return the file extension of the distribution that is complete in `root`, or None."""
    for suffix in (".bin", "", ".mat"):
        if all(Path(root, stem + suffix).is_file() for stem in _STEMS):
            return suffix
    return None


def _read_binary(path: Path, n_images: int) -> tuple[NDArray[Any], Callable[[], NDArray[Any]]]:
    """Return the labels of a batch, and a function that opens its images."""
    expected = n_images * _RECORD.itemsize
    if path.stat().st_size != expected:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, expected {expected:,}; get the file again.")

    def records() -> NDArray[Any]:
        """Map the file into memory."""
        return np.memmap(path, _RECORD, mode="r")

    return np.asarray(records()["label"], np.int64), lambda: records()["pixels"].transpose(0, 2, 3, 1)


def _read_python(path: Path, n_images: int) -> tuple[NDArray[Any], Callable[[], NDArray[Any]]]:
    def read(key: str) -> NDArray[Any]:
        """Read one entry of the pickled dictionary; the keys of Python 2 are bytes."""
        content = read_pickled_arrays(path)
        try:
            batch = {name.decode() if isinstance(name, bytes) else str(name): value for name, value in content.items()}
            return np.asarray({"data": batch["data"], "labels": batch["labels"]}[key])
        except (AttributeError, KeyError) as error:
            raise DataError(f"{path} is not a CIFAR-10 Python batch: it has no data and labels.") from error

    return np.asarray(read("labels"), np.int64), lambda: _unflatten(read("data"), n_images, path)


def _read_matlab(path: Path, n_images: int) -> tuple[NDArray[Any], Callable[[], NDArray[Any]]]:
    labels = read_mat(path, "labels").ravel().astype(np.int64)
    return labels, lambda: _unflatten(read_mat(path, "data"), n_images, path)


def _unflatten(flat: NDArray[Any], n_images: int, path: Path) -> NDArray[np.uint8]:
    """Turn rows of 3,072 numbers (red, green and blue planes) into images (n, 32, 32, 3)."""
    if flat.shape != (n_images, 3072) or flat.dtype != np.uint8:
        raise DataError(f"{path}: expected uint8 pixels ({n_images}, 3072), found {flat.dtype} {flat.shape}.")
    return np.ascontiguousarray(flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
