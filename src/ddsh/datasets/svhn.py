"""SVHN, the Street View House Numbers: cropped digits of 32 x 32 pixels.

References
----------
Netzer, Y. et al. "Reading Digits in Natural Images with Unsupervised Feature Learning." NIPS Workshop on Deep
Learning and Unsupervised Feature Learning, 2011.
"""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets._matlab import mat_shape, read_mat
from ddsh.datasets.base import Dataset
from ddsh.errors import DataError
from ddsh.images import ArrayImages, StackedImages
from ddsh.labels import SingleLabels

__all__ = ["FILES", "load"]

FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
"""File of each part."""


def load(root: str | os.PathLike[str]) -> Dataset:
    """Read SVHN from the folder with ``train_32x32.mat`` and ``test_32x32.mat``.

    The files label digit 0 as class 10; here the label of a digit is the digit.

    Parameters
    ----------
    root : path
        The folder.

    Returns
    -------
    Dataset
        73,257 images of part ``train``, then 26,032 of part ``test``.
    """
    paths = [Path(root, name) for name in FILES.values()]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise DataError(f"{root} holds no SVHN: {' and '.join(missing)} missing. Run: ddsh data fetch svhn --root DIR")
    labels = [_read_labels(path) for path in paths]
    rows = np.arange(sum(map(len, labels)))
    return Dataset(
        name="svhn",
        images=StackedImages(
            [
                # The file has the images on the last of four axes.
                ArrayImages(lambda path=path: read_mat(path, "X").transpose(3, 0, 1, 2), len(part), str(path))  # type: ignore[misc]
                for path, part in zip(paths, labels, strict=True)
            ]
        ),
        labels=SingleLabels(np.concatenate(labels)),
        class_names=tuple("0123456789"),
        parts=dict(zip(FILES, np.split(rows, [len(labels[0])]), strict=True)),
        protocol="svhn",
    )


def _read_labels(path: Path) -> NDArray[np.int64]:
    """Return the digits, checked against the shape of the images."""
    digits = read_mat(path, "y").ravel().astype(np.int64)
    shape = mat_shape(path, "X")
    if shape != (32, 32, 3, len(digits)):
        raise DataError(f"{path}: {len(digits):,} labels but images X of shape {shape}; get the file again.")
    if not np.isin(digits, np.arange(1, 11)).all():
        raise DataError(f"{path}: labels must be 1 to 10, found {digits.min()} to {digits.max()}.")
    return digits % 10
