"""NUS-WIDE: 269,648 Flickr images with 81 concepts and 1,000 user tags."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.datasets.base import Dataset
from ddsh.datasets.lists import parse_rows, read_names, read_text
from ddsh.errors import DataError, InvalidInput
from ddsh.images import FileImages
from ddsh.labels import as_labels

__all__ = ["Tags", "load", "load_tags"]

_PAPER_CONCEPTS = 10
_IMAGE_LIST = "ImageList/Imagelist.txt"
_CONCEPTS = "Groundtruth/AllLabels"
_TAG_NAMES = "NUS_WID_Tags/TagList1k.txt"
_TAGS = "NUS_WID_Tags/AllTags1k.txt"
_IMAGE_FOLDERS = ("Flickr", "images", "Images", "")
_BLOCK_LINES = 4096


@dataclass(frozen=True)
class Tags:
    """User tags of the images.

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
    """The most frequent concepts, all image names, which images have one of them, and their labels."""

    concepts: tuple[str, ...]
    names: Sequence[str]
    kept: NDArray[np.bool_]
    labels: "sparse.csr_array[Any]"


def load(root: str | os.PathLike[str], *, n_concepts: int = _PAPER_CONCEPTS) -> Dataset:
    """Read the images that have at least one of the most frequent concepts.

    Parameters
    ----------
    root : path
        The folder with ``ImageList/Imagelist.txt`` and ``Groundtruth/AllLabels/Labels_<concept>.txt``. Images are
        searched in ``Flickr``, ``images``, ``Images`` and the folder itself, with or without their subfolders.
        Without images the labels can still be used.
    n_concepts : int
        Number of concepts, most frequent first; 10 keep 186,577 images, as in the paper.

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
    root = Path(root)
    selection = _select(root, n_concepts)
    names = [name.replace("\\", "/") for name in compress(selection.names, selection.kept)]
    first = selection.names[0].replace("\\", "/")
    for folder in _IMAGE_FOLDERS:
        if (root / folder / first).is_file():
            break
        if (root / folder / first.rpartition("/")[2]).is_file():
            names = [name.rpartition("/")[2] for name in names]
            break
    else:
        folder = _IMAGE_FOLDERS[0]
    return Dataset(
        name="nuswide" if n_concepts == _PAPER_CONCEPTS else f"nuswide{n_concepts}",
        images=FileImages([root / folder / name for name in names]),
        labels=as_labels(selection.labels),
        class_names=selection.concepts,
        protocol="nuswide",
    )


def load_tags(root: str | os.PathLike[str], *, n_concepts: int = _PAPER_CONCEPTS) -> Tags:
    """Read the user tags of the images that :func:`load` returns, in the same order.

    Parameters
    ----------
    root : path
        The folder that :func:`load` takes, with ``NUS_WID_Tags/AllTags1k.txt`` and ``NUS_WID_Tags/TagList1k.txt``.
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
    root = Path(root)
    names = read_names(_existing(root, _TAG_NAMES))
    path = _existing(root, _TAGS)
    kept = _select(root, n_concepts).kept
    max_line_bytes = 8 * len(names) + 16
    blocks = []
    with path.open("rb") as file:
        for start in range(0, len(kept), _BLOCK_LINES):
            rows = kept[start : start + _BLOCK_LINES]
            lines = b"".join(file.readline(max_line_bytes) for _ in rows)
            table = parse_rows(lines, len(names), path, start + 1)
            if len(table) != len(rows):
                raise DataError(f"{path} ends after {start + len(table):,} lines but {_IMAGE_LIST} has {len(kept):,}.")
            blocks.append(sparse.csr_array(table[rows]))
        if file.read(max_line_bytes).strip():
            raise DataError(f"{path} has more lines than the {len(kept):,} of {_IMAGE_LIST}.")
    return Tags(tuple(names), sparse.csr_array(sparse.vstack(blocks)).astype(np.int32))


def _select(root: Path, n_concepts: int) -> _Selection:
    """Select the most frequent concepts, and the images that have them."""
    names = read_names(_existing(root, _IMAGE_LIST))
    folder = _existing(root, _CONCEPTS)
    files = sorted(folder.glob("Labels_*.txt"))
    if not files:
        raise DataError(f"{folder} has no Labels_<concept>.txt files; expected 81 of them.")
    if not 1 <= n_concepts <= len(files):
        raise InvalidInput(f"n_concepts={n_concepts}, but {folder} allows 1 to {len(files)}, one per label file.")
    rows_of = {}
    for file in files:
        column = parse_rows(read_text(file), 1, file)[:, 0]
        if len(column) != len(names):
            raise DataError(f"{file} has {len(column):,} lines but {_IMAGE_LIST} has {len(names):,}; they must match.")
        rows_of[file.stem.removeprefix("Labels_")] = np.flatnonzero(column)
    concepts = sorted(rows_of, key=lambda name: (-len(rows_of[name]), name))[:n_concepts]
    rows = np.concatenate([rows_of[name] for name in concepts])
    columns = np.repeat(np.arange(n_concepts), [len(rows_of[name]) for name in concepts])
    ones = np.ones(len(rows), np.int32)
    labels = sparse.csr_array((ones, (rows, columns)), shape=(len(names), n_concepts))
    kept = np.diff(labels.indptr) > 0
    return _Selection(tuple(concepts), names, kept, labels[kept])


def _existing(root: Path, name: str) -> Path:
    """Return the path of an official file or folder, or raise an error that describes the layout."""
    path = root / name
    if not path.exists():
        raise DataError(
            f"{path} is missing; expected the official NUS-WIDE folder with {_IMAGE_LIST}, "
            f"{_CONCEPTS}/Labels_<concept>.txt and, for tags, {_TAGS} and {_TAG_NAMES}."
        )
    return path
