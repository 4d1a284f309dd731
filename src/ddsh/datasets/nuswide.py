"""NUS-WIDE as its makers distribute it: 269,648 Flickr pictures with 81 concepts and 1,000 user tags."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.datasets.dataset import Dataset
from ddsh.datasets.lists import parse_rows, read_names, read_text
from ddsh.errors import DataError, InvalidInput
from ddsh.images import FileImages
from ddsh.labels import as_labels

_PAPER_CONCEPTS = 10
_IMAGE_LIST = "ImageList/Imagelist.txt"
_CONCEPTS = "Groundtruth/AllLabels"
_TAG_NAMES = "NUS_WID_Tags/TagList1k.txt"
_TAGS = "NUS_WID_Tags/AllTags1k.txt"
_IMAGE_FOLDERS = ("Flickr", "images", "Images", "")
_BLOCK_LINES = 4096


@dataclass(frozen=True)
class Tags:
    """The words that users gave to images.

    Parameters
    ----------
    names : tuple of str
        The tags.
    matrix : sparse array of 0/1, shape (n, n_tags)
        Which image has which tag.
    """

    names: tuple[str, ...]
    matrix: "sparse.csr_array[Any]"


@dataclass(frozen=True)
class _Selection:
    """The chosen concepts, all image names, which images carry a chosen concept, and the labels of those."""

    concepts: tuple[str, ...]
    names: Sequence[str]
    kept: NDArray[np.bool_]
    labels: "sparse.csr_array[Any]"


def load(root: Path, *, n_concepts: int = _PAPER_CONCEPTS) -> Dataset:
    """Read the images that carry at least one of the most frequent concepts.

    Parameters
    ----------
    root : Path
        The folder with ``ImageList/Imagelist.txt`` and ``Groundtruth/AllLabels/Labels_<concept>.txt``.
        Images are looked for in ``Flickr``, ``images``, ``Images`` and the folder itself, with or without
        their sub-folders; without images the labels can still be used.
    n_concepts : int
        How many concepts, most frequent first; 10 keep 186,577 images, as in the paper.

    Returns
    -------
    Dataset
        With the concepts as classes, the most frequent first.

    Raises
    ------
    DataError
        If a file is missing, malformed or does not fit the others.
    InvalidInput
        If there are fewer concepts than asked for.
    """
    selection = _select(root, n_concepts)
    folder, flat = _find_images(root, selection.names[0])
    names = compress(selection.names, selection.kept)
    return Dataset(
        name="nuswide" if n_concepts == _PAPER_CONCEPTS else f"nuswide{n_concepts}",
        images=FileImages([folder / _relative(name, flat=flat) for name in names]),
        labels=as_labels(selection.labels),
        class_names=selection.concepts,
        protocol="nuswide",
    )


def load_tags(root: Path, *, n_concepts: int = _PAPER_CONCEPTS) -> Tags:
    """Read the user tags of the images that :func:`load` returns, in the same order.

    Parameters
    ----------
    root : Path
        The folder that :func:`load` takes, with ``NUS_WID_Tags/AllTags1k.txt`` and
        ``NUS_WID_Tags/TagList1k.txt`` in it.
    n_concepts : int
        As in :func:`load`.

    Returns
    -------
    Tags
        One row per image.

    Raises
    ------
    DataError
        If a file is missing, malformed or does not fit the others.
    InvalidInput
        If there are fewer concepts than asked for.
    """
    names = read_names(_existing(root, _TAG_NAMES))
    path = _existing(root, _TAGS)
    kept = _select(root, n_concepts).kept
    with path.open("rb") as file:
        tables = _tag_tables(file, path, len(kept), len(names))
        blocks = [sparse.csr_array(table[kept[start : start + len(table)]]) for start, table in tables]
    return Tags(tuple(names), sparse.csr_array(sparse.vstack(blocks)).astype(np.int32))


def _select(root: Path, n_concepts: int) -> _Selection:
    """Choose the most frequent concepts, and the images that carry them."""
    names = read_names(_existing(root, _IMAGE_LIST))
    files = _label_files(root, n_concepts)
    carriers = {file.stem.removeprefix("Labels_"): _carriers(file, len(names)) for file in files}
    concepts = sorted(carriers, key=lambda name: (-len(carriers[name]), name))[:n_concepts]
    labels = _label_matrix([carriers[name] for name in concepts], len(names))
    kept = np.diff(labels.indptr) > 0
    return _Selection(tuple(concepts), names, kept, labels[kept])


def _label_files(root: Path, n_concepts: int) -> list[Path]:
    """Return the label files, which must be at least as many as the concepts asked for."""
    folder = _existing(root, _CONCEPTS)
    files = sorted(folder.glob("Labels_*.txt"))
    if not files:
        raise DataError(f"{folder} has no Labels_<concept>.txt files; expected 81 of them.")
    if not 1 <= n_concepts <= len(files):
        raise InvalidInput(f"n_concepts={n_concepts}, but {folder} allows 1 to {len(files)}, one per label file.")
    return files


def _carriers(file: Path, n_images: int) -> NDArray[np.intp]:
    """Return the rows of the images that carry the concept of a label file."""
    column = parse_rows(read_text(file), 1, file)[:, 0]
    if len(column) != n_images:
        raise DataError(f"{file} has {len(column):,} lines but {_IMAGE_LIST} has {n_images:,}; they must match.")
    return np.flatnonzero(column)


def _label_matrix(carriers: Sequence[NDArray[np.intp]], n_images: int) -> "sparse.csr_array[Any]":
    """Return the 0/1 matrix whose columns are the concepts with these rows."""
    rows = np.concatenate(carriers)
    columns = np.repeat(np.arange(len(carriers)), [len(column) for column in carriers])
    ones = np.ones(len(rows), np.int32)
    return sparse.csr_array((ones, (rows, columns)), shape=(n_images, len(carriers)))


def _find_images(root: Path, first: str) -> tuple[Path, bool]:
    """Return the folder that holds the first listed image (or should), and whether it has no sub-folders."""
    for folder in _IMAGE_FOLDERS:
        for flat in (False, True):
            if (root / folder / _relative(first, flat=flat)).is_file():
                return root / folder, flat
    return root / _IMAGE_FOLDERS[0], False


def _relative(name: str, *, flat: bool) -> str:
    """Return the path of a listed image below the image folder; the list is written with backslashes."""
    path = name.replace("\\", "/")
    return path.rpartition("/")[2] if flat else path


def _tag_tables(file: IO[bytes], path: Path, n_images: int, n_tags: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield the tags of some thousand images at a time, with the row of the first."""
    longest = 8 * n_tags + 16
    for start in range(0, n_images, _BLOCK_LINES):
        expected = min(_BLOCK_LINES, n_images - start)
        lines = b"".join(file.readline(longest) for _ in range(expected))
        table = parse_rows(lines, n_tags, path, start + 1)
        if len(table) != expected:
            raise DataError(f"{path} ends after {start + len(table):,} lines but {_IMAGE_LIST} has {n_images:,}.")
        yield start, table
    if file.read(longest).strip():
        raise DataError(f"{path} has more lines than the {n_images:,} of {_IMAGE_LIST}.")


def _existing(root: Path, name: str) -> Path:
    """Return the path of a part of the distribution, or say what is expected where."""
    path = root / name
    if not path.exists():
        raise DataError(
            f"{path} is missing; expected the official NUS-WIDE folder with {_IMAGE_LIST}, "
            f"{_CONCEPTS}/Labels_<concept>.txt and, for tags, {_TAGS} and {_TAG_NAMES}."
        )
    return path
