"""MNIST's idx files, plain or gzipped: MNIST, Fashion-MNIST, and the sample that comes with the package.

References
----------
LeCun, Y. et al. "Gradient-Based Learning Applied to Document Recognition." Proceedings of the IEEE, 1998.
Xiao, H., Rasul, K. and Vollgraf, R. "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
Algorithms." arXiv:1708.07747, 2017.
"""

import gzip
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets.dataset import Dataset
from ddsh.errors import DataError
from ddsh.images import ArrayImages, StackedImages
from ddsh.labels import SingleLabels

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


def load_mnist(root: Path) -> Dataset:
    """Read MNIST: 60,000 images of part ``train``, then 10,000 of part ``test``."""
    return load(root, name="mnist", class_names=DIGITS)


def load_fashion(root: Path) -> Dataset:
    """Read Fashion-MNIST: 60,000 images of part ``train``, then 10,000 of part ``test``."""
    return load(root, name="fashion-mnist", class_names=FASHION)


def load_sample(root: Path = _SAMPLE) -> Dataset:
    """Read the sample that comes with ddsh: 1,000 query and 10,000 database images of Fashion-MNIST."""
    files = {"query": "query", "database": "database"}
    return load(root, name="sample", class_names=FASHION, files=files, protocol="sample")


def load(
    root: Path,
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
        The dataset's name.
    class_names : tuple of str
        What the labels mean.
    files : mapping of str to str, optional
        What the files of each part start with; MNIST's ``train`` and ``t10k`` if not given.
    protocol : str
        The usual protocol.

    Returns
    -------
    Dataset
        The parts, one after the other.
    """
    stems = files or {"train": "train", "test": "t10k"}
    images = [_images(find(root, stem, "images", 3)) for stem in stems.values()]
    labels = [_labels(find(root, stem, "labels", 1), len(class_names)) for stem in stems.values()]
    rows = np.arange(sum(map(len, labels)))
    parts = np.split(rows, np.cumsum([len(part) for part in labels])[:-1])
    return Dataset(
        name=name,
        images=StackedImages(images),
        labels=SingleLabels(np.concatenate(labels)),
        class_names=class_names,
        parts=dict(zip(stems, parts, strict=True)),
        protocol=protocol,
    )


def find(root: Path, stem: str, kind: str, n_dims: int) -> Path:
    """Return the idx file of a part under the names in use: with ``-`` or ``.`` before ``idx``, plain or gzipped."""
    names = [f"{stem}-{kind}{dot}idx{n_dims}-ubyte{gz}" for dot in "-." for gz in ("", ".gz")]
    for name in names:
        if (root / name).is_file():
            return root / name
    raise DataError(f"{root} holds no {names[0]} (plain or .gz).")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes; a plain one is memory-mapped."""
    shape = _shape(path)
    offset = 4 + 4 * len(shape)
    if path.suffix != ".gz":
        return np.memmap(path, np.uint8, mode="r", offset=offset, shape=shape)
    n_bytes = math.prod(shape)
    with _open(path) as file:
        data = _read(file, path, offset + n_bytes + 1)
    if len(data) != offset + n_bytes:
        raise DataError(f"{path}: its header promises {n_bytes:,} bytes of data, which do not follow.")
    return np.frombuffer(data, np.uint8, offset=offset).reshape(shape)


def _images(path: Path) -> ArrayImages:
    shape = _shape(path)
    if len(shape) != 3:
        raise DataError(f"{path}: expected images (n, height, width), its header says {shape}.")
    return ArrayImages(lambda: read_idx(path)[..., None], shape[0], str(path))


def _labels(path: Path, n_classes: int) -> NDArray[Any]:
    labels = read_idx(path)
    if labels.ndim != 1 or labels.max(initial=0) >= n_classes:
        raise DataError(f"{path}: expected labels 0 to {n_classes - 1}.")
    return labels.astype(np.int64)


def _shape(path: Path) -> tuple[int, ...]:
    """Read the header of an idx file: two zero bytes, the type, the number of dimensions, the dimensions."""
    with _open(path) as file:
        magic = _read(file, path, 4)
        if len(magic) != 4 or magic[:3] != bytes([0, 0, _UNSIGNED_BYTE]) or not 1 <= magic[3] <= 3:
            raise DataError(f"{path} is not an idx file of unsigned bytes.")
        sizes = _read(file, path, 4 * magic[3])
    if len(sizes) != 4 * magic[3]:
        raise DataError(f"{path} ends within its header.")
    shape: tuple[int, ...] = struct.unpack(f">{magic[3]}I", sizes)
    expected = 4 + len(sizes) + math.prod(shape)
    if path.suffix != ".gz" and path.stat().st_size != expected:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, its header promises {expected:,}.")
    return shape


def _open(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _read(file: BinaryIO, path: Path, n_bytes: int) -> bytes:
    try:
        return file.read(n_bytes)
    except (OSError, EOFError) as error:
        raise DataError(f"{path} is damaged ({error}); get the file again.") from error
