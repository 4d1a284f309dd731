"""MNIST, Fashion-MNIST and the bundled sample, from idx files.

References
----------
LeCun, Y. et al. "Gradient-Based Learning Applied to Document Recognition." Proceedings of the IEEE, 1998.
Xiao, H., Rasul, K. and Vollgraf, R. "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
Algorithms." arXiv:1708.07747, 2017.
"""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets.base import Dataset
from ddsh.errors import DataError
from ddsh.images import ArrayImages, StackedImages
from ddsh.labels import SingleLabels

__all__ = ["DIGITS", "FASHION", "find_idx", "load", "load_fashion", "load_mnist", "load_sample", "read_idx"]

DIGITS = tuple("0123456789")
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_SAMPLE = Path(__file__).parent / "sample"
_UNSIGNED_BYTE = 8
_MAX_IDX_BYTES = 1 << 30


def load_mnist(root: str | os.PathLike[str]) -> Dataset:
    """Read MNIST: 60,000 images of part ``train``, then 10,000 of part ``test``."""
    return load(root, name="mnist", class_names=DIGITS)


def load_fashion(root: str | os.PathLike[str]) -> Dataset:
    """Read Fashion-MNIST: 60,000 images of part ``train``, then 10,000 of part ``test``."""
    return load(root, name="fashion-mnist", class_names=FASHION)


def load_sample(root: str | os.PathLike[str] = _SAMPLE) -> Dataset:
    """Read the sample bundled with ddsh: 1,000 query and 10,000 database images of Fashion-MNIST."""
    files = {"query": "query", "database": "database"}
    return load(root, name="sample", class_names=FASHION, files=files, protocol="sample")


def load(
    root: str | os.PathLike[str],
    *,
    name: str,
    class_names: tuple[str, ...],
    files: Mapping[str, str] | None = None,
    protocol: str = "mnist",
) -> Dataset:
    """Read pairs of idx files, ``*-images-idx3-ubyte`` and ``*-labels-idx1-ubyte``, plain or ``.gz``.

    Parameters
    ----------
    root : path
        The folder.
    name : str
        Name of the dataset.
    class_names : tuple of str
        Names of the classes.
    files : mapping of str to str, optional
        Prefix of the files of each part; MNIST's ``train`` and ``t10k`` by default.
    protocol : str
        Name of the default protocol.

    Returns
    -------
    Dataset
        The parts, one after the other.
    """
    prefixes = files or {"train": "train", "test": "t10k"}
    images, labels = [], []
    for prefix in prefixes.values():
        path = find_idx(root, prefix, "images", 3)
        shape = _read_shape(path)
        if len(shape) != 3:
            raise DataError(f"{path}: expected images (n, height, width), its header says {shape}.")
        images.append(ArrayImages(lambda path=path: read_idx(path)[..., None], shape[0], str(path)))  # type: ignore[misc]
        path = find_idx(root, prefix, "labels", 1)
        values = read_idx(path)
        if values.ndim != 1 or values.max(initial=0) >= len(class_names):
            raise DataError(f"{path}: expected labels 0 to {len(class_names) - 1}.")
        labels.append(values.astype(np.int64))
    rows = np.arange(sum(map(len, labels)))
    parts = np.split(rows, np.cumsum([len(part) for part in labels])[:-1])
    return Dataset(
        name=name,
        images=StackedImages(images),
        labels=SingleLabels(np.concatenate(labels)),
        class_names=class_names,
        parts=dict(zip(prefixes, parts, strict=True)),
        protocol=protocol,
    )


def find_idx(root: str | os.PathLike[str], prefix: str, kind: str, n_dims: int) -> Path:
    """Return the idx file of a part: with ``-`` or ``.`` before ``idx``, plain or gzipped."""
    names = [f"{prefix}-{kind}{dot}idx{n_dims}-ubyte{gz}" for dot in "-." for gz in ("", ".gz")]
    for name in names:
        if Path(root, name).is_file():
            return Path(root, name)
    raise DataError(f"{root} holds no {names[0]} (plain or .gz).")


def read_idx(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes; a plain one is memory-mapped."""
    path = Path(path)
    shape = _read_shape(path)
    offset = 4 + 4 * len(shape)
    if path.suffix != ".gz":
        return np.memmap(path, np.uint8, mode="r", offset=offset, shape=shape)
    n_bytes = math.prod(shape)
    data = _read_bytes(path, offset + n_bytes + 1)
    if len(data) != offset + n_bytes:
        raise DataError(f"{path}: its header promises {n_bytes:,} bytes of data, which do not follow.")
    return np.frombuffer(data, np.uint8, offset=offset).reshape(shape)


def _read_shape(path: Path) -> tuple[int, ...]:
    """Read the header of an idx file: two zero bytes, type, number of dimensions, dimensions."""
    header = _read_bytes(path, 16)
    if len(header) < 4 or header[:3] != bytes([0, 0, _UNSIGNED_BYTE]) or not 1 <= header[3] <= 3:
        raise DataError(f"{path} is not an idx file of unsigned bytes.")
    n_bytes = 4 + 4 * header[3]
    if len(header) < n_bytes:
        raise DataError(f"{path} ends within its header.")
    shape: tuple[int, ...] = struct.unpack(f">{header[3]}I", header[4:n_bytes])
    expected = n_bytes + math.prod(shape)
    if not n_bytes < expected <= _MAX_IDX_BYTES:
        raise DataError(f"{path}: its header promises {shape}; expected 1 to {_MAX_IDX_BYTES:,} bytes in all.")
    if path.suffix != ".gz" and path.stat().st_size != expected:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, its header promises {expected:,}.")
    return shape


def _read_bytes(path: Path, n_bytes: int) -> bytes:
    """Return the first bytes of a plain or gzipped file."""
    try:
        with cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            return file.read(n_bytes)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); get the file again.") from error
