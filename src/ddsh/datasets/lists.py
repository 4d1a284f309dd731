"""Text lists of images: a path and a row of 0s and 1s in each line."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.datasets.base import Dataset
from ddsh.errors import DataError
from ddsh.images import FileImages
from ddsh.labels import as_labels

__all__ = ["MAX_LIST_BYTES", "is_prefix", "load", "parse_rows", "read_names", "read_text"]

MAX_LIST_BYTES = 1 << 30
"""Larger text files are refused before they are read."""

_BLANKS = b" \t\r"
_PAIR = re.compile(r"(?P<stem>.+)_(?:img|label)\.txt")
_ROLE = re.compile(r"(?P<prefix>.*)(?P<role>train|test|database)\.txt")
_SEPARATORS = "_-."


@dataclass(frozen=True)
class _List:
    """A list: its paths as written, and a table of shape (n, classes)."""

    source: Path
    paths: Sequence[str]
    table: NDArray[np.bool_]


def load(path: str | os.PathLike[str], *, images_root: str | os.PathLike[str] | None = None) -> Dataset:
    """Read images and labels from text lists.

    Parameters
    ----------
    path : path
        One of

        - a file with lines ``path 0 1 0 ...``;
        - either file of a pair ``*_img.txt`` (paths) and ``*_label.txt`` (rows of 0 and 1);
        - a folder with ``*train.txt``, ``*test.txt`` and ``*database.txt`` (any of them), or, if a folder holds
          several such sets, the folder and the prefix of one, such as ``lists/nuswide21``.
    images_root : path, optional
        The folder that the paths are relative to; by default the folder of the list.

    Returns
    -------
    Dataset
        Classes are named by their column, ``"0"``, ``"1"`` and so on. With a test list there are parts: ``query``
        (the test list), ``train`` and ``database`` (the train list if there is no other). A path in several lists is
        one row that belongs to several parts.

    Raises
    ------
    DataError
        If a file is missing or malformed, or two lists label one path differently.
    """
    path = Path(path)
    parts: dict[str, NDArray[np.int64]] = {}
    if path.is_file():
        listed, folder = _read_list(path), path.parent
        pair = _PAIR.fullmatch(path.name)
        name = pair["stem"] if pair else path.stem
    else:
        prefix, files = _find_set(path)
        listed, rows = _merge({role: _read_list(file) for role, file in files.items()})
        folder = next(iter(files.values())).parent
        name = prefix.rstrip(_SEPARATORS) or folder.resolve().name
        if "test" in rows:
            roles = {"query": "test", "train": "train", "database": "database" if "database" in rows else "train"}
            parts = {part: rows[role] for part, role in roles.items() if role in rows}
    return Dataset(
        name=name,
        images=FileImages([Path(images_root or folder, image) for image in listed.paths]),
        labels=as_labels(sparse.csr_array(listed.table)),
        class_names=tuple(str(column) for column in range(listed.table.shape[1])),
        parts=parts,
        protocol="given" if {"query", "database"} <= parts.keys() else "own",
    )


def is_prefix(path: str | os.PathLike[str]) -> bool:
    """Return whether `path`, a folder or a prefix in one, names at least one set of lists."""
    return bool(_sets_of(Path(path)))


def read_text(path: Path) -> bytes:
    """Return the bytes of a text file without byte order mark and trailing blank lines.

    Parameters
    ----------
    path : Path
        A text file of at most `MAX_LIST_BYTES`.

    Returns
    -------
    bytes
        Lines, the last without its line end; never empty.

    Raises
    ------
    DataError
        If the file is missing, too large, empty or not text.
    """
    try:
        size = path.stat().st_size
        if size > MAX_LIST_BYTES:
            raise DataError(f"{path} has {size:,} bytes; the limit for a list is {MAX_LIST_BYTES:,}.")
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf").rstrip()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}); expected a text file.") from error
    if b"\0" in data:
        raise DataError(f"{path} is not a text file (it contains NUL bytes); expected UTF-8 lines.")
    if not data:
        raise DataError(f"{path} is empty; expected one line per image.")
    return data


def read_names(path: Path) -> list[str]:
    """Return the stripped lines of a UTF-8 text file; a blank line is an error."""
    names = [line.strip() for line in read_text(path).split(b"\n")]
    if b"" in names:
        raise DataError(f"{path}, line {names.index(b'') + 1}: is blank; expected a name.")
    return _decode(names, path)


def parse_rows(data: bytes, n_columns: int, source: Path, first_line: int = 1) -> NDArray[np.bool_]:
    """Parse lines of 0s and 1s separated by blanks or tabs.

    Parameters
    ----------
    data : bytes
        The lines; the last one may lack its line end.
    n_columns : int
        Number of values of each line.
    source : Path
        The file they come from, for messages.
    first_line : int
        Number of the first line in that file, for messages.

    Returns
    -------
    ndarray of bool, shape (lines, n_columns)
        The values.

    Raises
    ------
    DataError
        If a line has another number of values, or one that is not 0 or 1.
    """
    solid = np.frombuffer(data, np.uint8) > ord(" ")
    line_end = b"" if data.endswith(b"\n") or not data else b"\n"
    compact = np.frombuffer(data.translate(None, _BLANKS) + line_end, np.uint8)
    if not (solid[1:] & solid[:-1]).any() and len(compact) % (n_columns + 1) == 0:
        lines = compact.reshape(-1, n_columns + 1)
        values, ends = lines[:, :-1], lines[:, -1]
        if ((values | 1) == ord("1")).all() and (ends == ord("\n")).all():
            ones: NDArray[np.bool_] = values == ord("1")
            return ones
    faults = ((number, _fault(line, n_columns)) for number, line in enumerate(data.split(b"\n"), first_line))
    number, fault = next((number, fault) for number, fault in faults if fault)
    raise DataError(f"{source}, line {number}: {fault}.")


def _fault(line: bytes, n_columns: int) -> str | None:
    """Return what is wrong with a line of 0s and 1s, or None."""
    values = re.split(rb"[ \t\r]+", line.strip(_BLANKS))
    if values == [b""]:
        return "is blank; expected values of 0 or 1"
    wrong = next((value for value in values if value not in (b"0", b"1")), None)
    if wrong is not None:
        return f"expected 0 or 1, found {wrong[:20].decode('ascii', 'backslashreplace')!r}"
    if len(values) == n_columns:
        return None
    found = len(values) if len(values) < n_columns else "more"
    return f"expected {n_columns} values of 0 or 1, found {found}"


def _read_list(path: Path) -> _List:
    """Read lines ``path 0 1 0 ...``, or a pair of ``*_img.txt`` and ``*_label.txt``."""
    pair = _PAIR.fullmatch(path.name)
    if pair:
        path, labels = path.with_name(f"{pair['stem']}_img.txt"), path.with_name(f"{pair['stem']}_label.txt")
        paths, data = read_names(path), read_text(labels)
        table = parse_rows(data, len(data.partition(b"\n")[0].split()), labels)
        if len(paths) != len(table):
            raise DataError(f"{path} has {len(paths):,} lines but {labels} has {len(table):,}; they must match.")
    else:
        lines = [line.split(None, 1) for line in read_text(path).split(b"\n")]
        short = next((number for number, line in enumerate(lines, 1) if len(line) < 2), None)
        if short is not None:
            raise DataError(f"{path}, line {short}: expected a path and a row of 0s and 1s.")
        table = parse_rows(b"\n".join(line[1] for line in lines), len(lines[0][1].split()), path)
        paths = _decode([line[0] for line in lines], path)
    if len(set(paths)) < len(paths):
        first: dict[str, int] = {}
        number, image = next((n, image) for n, image in enumerate(paths, 1) if first.setdefault(image, n) != n)
        raise DataError(f"{path}, line {number}: {image} is already on line {first[image]}; list every image once.")
    return _List(path, paths, table)


def _decode(names: Sequence[bytes], source: Path) -> list[str]:
    """Decode UTF-8 names, one per line."""
    try:
        return [name.decode() for name in names]
    except UnicodeDecodeError as error:
        number = names.index(error.object) + 1
        raise DataError(f"{source}, line {number}: {error.object[:60]!r} is not UTF-8; convert the file.") from error


def _sets_of(path: Path, *, every: bool = False) -> dict[str, dict[str, Path]]:
    """Return the lists by prefix and role: of a folder, or those whose prefix `path` ends in.

    Roles come in the order test, database, train. Separators at the end of a prefix do not count.
    """
    every = every or path.is_dir()
    folder = path if path.is_dir() else path.parent
    matches = [(_ROLE.fullmatch(file.name), file) for file in folder.glob("*.txt") if file.is_file()]
    sets: dict[str, dict[str, Path]] = {}
    for role in ("test", "database", "train"):
        for match, file in matches:
            if match and match["role"] == role:
                sets.setdefault(match["prefix"], {})[role] = file
    wanted = path.name.rstrip(_SEPARATORS)
    return {prefix: files for prefix, files in sets.items() if every or prefix.rstrip(_SEPARATORS) == wanted}


def _find_set(path: Path) -> tuple[str, dict[str, Path]]:
    """Return the prefix and the files of the one set that a folder or a prefix stands for."""
    chosen = _sets_of(path)
    if len(chosen) == 1:
        return next(iter(chosen.items()))
    folder = path if path.is_dir() else path.parent
    found = ", ".join(repr(prefix.rstrip(_SEPARATORS)) for prefix in sorted(chosen or _sets_of(path, every=True)))
    if chosen:
        raise DataError(f"{path} stands for several sets of lists: {found}; give the folder and one of these prefixes.")
    raise DataError(
        f"{path} is no list and no set of *train.txt, *test.txt, *database.txt; "
        + (f"prefixes in {folder}: {found}." if found else f"there are no such files in {folder}.")
    )


def _merge(lists: Mapping[str, _List]) -> tuple[_List, dict[str, NDArray[np.int64]]]:
    """Join lists so that each path is one row; also return the rows of each list."""
    first = next(iter(lists.values()))
    for listed in lists.values():
        if listed.table.shape[1] != first.table.shape[1]:
            raise DataError(
                f"{listed.source} has {listed.table.shape[1]} classes but {first.source.name} "
                f"has {first.table.shape[1]}; the lists of a set must agree."
            )
    known: dict[str, int] = {}
    rows = {
        role: np.array([known.setdefault(path, len(known)) for path in listed.paths], np.int64)
        for role, listed in lists.items()
    }
    table = np.zeros((len(known), first.table.shape[1]), np.bool_)
    for role, listed in lists.items():
        table[rows[role]] = listed.table
    for role, listed in lists.items():
        differs = np.flatnonzero((listed.table != table[rows[role]]).any(axis=1))
        if len(differs):
            path = listed.paths[differs[0]]
            found = [other for other in lists.values() if path in other.paths]
            places = " and ".join(f"{other.source}, line {other.paths.index(path) + 1}" for other in found)
            raise DataError(f"{path} is labelled differently in {places}; correct one of them.")
    return _List(first.source, list(known), table), rows
