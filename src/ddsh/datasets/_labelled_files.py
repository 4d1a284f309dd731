"""Labelled image files: check that they can be read, and build a dataset."""

import os
import re
import reprlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from ddsh.datasets.base import Dataset, ProgressCallback, Skipped
from ddsh.errors import BrokenImage, DataError
from ddsh.images import FileImages, check_file, read_image
from ddsh.labels import Labels, SingleLabels, as_labels

__all__ = ["PARTS", "LabelledFile", "build_dataset", "check_text", "find_readable", "reading"]

PARTS = ("query", "train", "database")
"""The parts that a table may assign images to."""

_BATCH = 1024
_N_NAMED = 5
_MISSING = -1
# A line break means an unclosed quote; JSON escapes can produce NUL and lone surrogates.
_NO_TEXT = re.compile("[\x00-\x1f\ud800-\udfff]")


@dataclass(frozen=True)
class LabelledFile:
    """Path, labels and part of an image file that may not be readable; without labels it is unlabelled."""

    path: Path
    labels: tuple[str, ...]
    part: str = ""


@contextmanager
def reading(source: Path) -> Iterator[None]:
    """Turn an error of the file system into one line that names the source."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror or error}).") from error


def check_text(value: object, what: str, where: str) -> str:
    """Return `value` if it is one line of valid text, or raise."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {what} must be a string, got {reprlib.repr(value)}.")
    if _NO_TEXT.search(value):
        raise DataError(f"{where}: {what} {reprlib.repr(value)} holds characters that are no text.")
    return value


def find_readable(
    files: Sequence[LabelledFile], verify: bool, on_progress: ProgressCallback | None
) -> tuple[list[LabelledFile], list[Skipped]]:
    """Return the files that can be read, and the others with the reason.

    Parameters
    ----------
    files : sequence of LabelledFile
        The files.
    verify : bool
        Decode every image; otherwise only check that the files exist.
    on_progress : callable, optional
        Called with (done, total) after each file.
    """
    check = read_image if verify else check_file

    def problem_of(file: LabelledFile) -> str | None:
        """Return why a file cannot be read; the image itself is dropped at once."""
        try:
            check(file.path)
        except BrokenImage as error:
            return str(error).removeprefix(f"{file.path}: ").removesuffix(".")
        return None

    readable: list[LabelledFile] = []
    skipped: list[Skipped] = []
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            problems = pool.map(problem_of, batch) if verify else map(problem_of, batch)
            for done, (file, problem) in enumerate(zip(batch, problems, strict=True), start + 1):
                if problem is None:
                    readable.append(file)
                else:
                    skipped.append(Skipped(str(file.path), problem))
                if on_progress:
                    on_progress(done, len(files))
    finally:
        pool.shutdown(cancel_futures=True)  # after an interruption the rest of the batch is not decoded
    return readable, skipped


def build_dataset(
    name: str,
    source: Path,
    files: Sequence[LabelledFile],
    skipped: Sequence[Skipped],
    *,
    many: bool = False,
    parts: Sequence[str] = (),
    strict: bool = False,
) -> Dataset:
    """Build a dataset from readable files; classes and rows follow the order of their names and files.

    Parameters
    ----------
    name : str
        Name of the dataset.
    source : path
        Folder or table that the files come from, for messages.
    files : sequence of LabelledFile
        The readable files.
    skipped : sequence of Skipped
        What was left out.
    many : bool
        Whether an image can have several labels.
    parts : sequence of str
        The parts that must not be empty.
    strict : bool
        Raise if anything was left out.
    """
    if not files or (strict and skipped):
        named = "; ".join(f"{' '.join(each.path.splitlines())} ({each.reason})" for each in skipped[:_N_NAMED])
        more = f"; and {len(skipped) - _N_NAMED} more" if len(skipped) > _N_NAMED else ""
        problem = f"{len(skipped)} entries cannot be used" if files else "no image can be read"
        raise DataError(f"{source}: {problem}: {named}{more}. Mend or remove them.")
    class_names = tuple(sorted({label for file in files for label in file.labels}))
    position = {label: number for number, label in enumerate(class_names)}
    unlabelled = np.array([row for row, file in enumerate(files) if not file.labels], np.int64)
    labels: Labels
    if many:
        columns = np.array([position[label] for file in files for label in file.labels], np.int64)
        starts = np.cumsum([0, *(len(file.labels) for file in files)])
        ones = np.ones(len(columns), np.int32)
        labels = as_labels(sparse.csr_array((ones, columns, starts), shape=(len(files), len(class_names))))
    else:
        values = np.array([position[file.labels[0]] if file.labels else _MISSING for file in files], np.int64)
        labels = SingleLabels(values, _MISSING if len(unlabelled) else None)
    part_of_row = np.array([file.part for file in files])
    rows = {part: np.flatnonzero(part_of_row == part).astype(np.int64) for part in parts}
    for part in parts:
        if not rows[part].size:
            raise DataError(f"{source}: no image of the part {part} can be read; mend them or leave out the column.")
    protocol = "given" if {"query", "database"} <= rows.keys() else "own"
    images = FileImages([file.path for file in files])
    return Dataset(name, images, labels, class_names, rows, protocol, tuple(skipped), unlabelled)
