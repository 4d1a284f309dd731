"""The text lists common in the field: one image per line, with its classes as a row of 0s and 1s."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.datasets.dataset import Dataset
from ddsh.errors import DataError
from ddsh.images import FileImages
from ddsh.labels import as_labels

MAX_BYTES = 1 << 30
"""Larger text files are refused before they are read."""

_BLANKS = b" \t\r"
_PAIR = re.compile(r"(?P<stem>.+)_(?:img|label)\.txt")
_ROLE = re.compile(r"(?P<prefix>.*)(?P<role>train|test|database)\.txt")
_SEPARATORS = "_-."


@dataclass(frozen=True)
class _List:
    """The lines of one list: `paths` as they are written, `table` of shape (n, classes)."""

    source: Path
    paths: Sequence[str]
    table: NDArray[np.bool_]


def load(path: Path, *, images_root: Path | None = None) -> Dataset:
    """Read images and labels from text lists.

    Parameters
    ----------
    path : Path
        One of

        - a file with lines ``path 0 1 0 ...``;
        - either file of a pair ``*_img.txt`` (paths) and ``*_label.txt`` (rows of 0 and 1);
        - a folder with ``*train.txt``, ``*test.txt`` and ``*database.txt`` (any of them), or, where a folder
          holds several such sets, that folder and the prefix of one, such as ``lists/nuswide21``.
    images_root : Path, optional
        The folder the paths start from; by default the folder of the list.

    Returns
    -------
    Dataset
        Classes are named by their column, ``"0"``, ``"1"`` and so on. With a test list there are parts:
        ``query`` (the test list), ``train`` and ``database`` (the train list where there is no other).
        A path in several lists is one row that belongs to several parts.

    Raises
    ------
    DataError
        If a file is missing or malformed, or two lists label one path differently.
    """
    if path.is_file():
        listed = _read_list(path)
        return _dataset(_list_name(path), listed, {}, images_root or path.parent)
    prefix, files = _find_set(path)
    merged, rows = _merge({role: _read_list(file) for role, file in files.items()})
    folder = next(iter(files.values())).parent
    return _dataset(prefix.rstrip(_SEPARATORS) or folder.resolve().name, merged, _parts(rows), images_root or folder)


def is_prefix(path: Path) -> bool:
    """Return whether `path`, a folder or a prefix within one, names at least one set of lists."""
    folder = path if path.is_dir() else path.parent
    return any(path.is_dir() or _names(path, prefix) for prefix in _sets_in(folder))


def read_text(path: Path) -> bytes:
    """Return the bytes of a text file, without byte order mark and without blank lines at its end.

    Parameters
    ----------
    path : Path
        A text file of at most `MAX_BYTES`.

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
        if size > MAX_BYTES:
            raise DataError(f"{path} has {size:,} bytes; the limit for a list is {MAX_BYTES:,}.")
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf").rstrip()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}); expected a text file.") from error
    if b"\0" in data:
        raise DataError(f"{path} is not a text file (it contains NUL bytes); expected UTF-8 lines.")
    if not data:
        raise DataError(f"{path} is empty; expected one line per image.")
    return data


def read_names(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file, without the blanks around them; a blank line is an error."""
    names = [line.strip() for line in read_text(path).split(b"\n")]
    if b"" in names:
        raise DataError(f"{path}, line {names.index(b'') + 1}: is blank; expected a name.")
    return _decode(names, path)


def parse_rows(data: bytes, n_columns: int, source: Path, first_line: int = 1) -> NDArray[np.bool_]:
    """Read lines of 0s and 1s separated by blanks or tabs.

    Parameters
    ----------
    data : bytes
        The lines; the last one may lack its line end.
    n_columns : int
        How many values each line must have.
    source : Path
        The file they come from, for messages.
    first_line : int
        The number of the first line in that file, for messages.

    Returns
    -------
    ndarray of bool, shape (lines, n_columns)
        The values.

    Raises
    ------
    DataError
        If a line has another number of values, or one that is not 0 or 1.
    """
    table = _table(data, n_columns)
    if table is None:
        faults = ((number, _fault(line, n_columns)) for number, line in enumerate(data.split(b"\n"), first_line))
        number, fault = next((number, fault) for number, fault in faults if fault)
        raise DataError(f"{source}, line {number}: {fault}.")
    return table


def _table(data: bytes, n_columns: int) -> NDArray[np.bool_] | None:
    """Return the values if every line has `n_columns` lone 0s and 1s, else nothing."""
    solid = np.frombuffer(data, np.uint8) > ord(" ")
    line_end = b"" if data.endswith(b"\n") or not data else b"\n"
    compact = np.frombuffer(data.translate(None, _BLANKS) + line_end, np.uint8)
    if (solid[1:] & solid[:-1]).any() or len(compact) % (n_columns + 1):
        return None
    lines = compact.reshape(-1, n_columns + 1)
    values, ends = lines[:, :-1], lines[:, -1]
    regular = ((values | 1) == ord("1")).all() and (ends == ord("\n")).all()
    return values == ord("1") if regular else None


def _fault(line: bytes, n_columns: int) -> str | None:
    """Return what is wrong with a line of 0s and 1s, if anything."""
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
    """Read one list of either form; a path that occurs twice in it is an error."""
    pair = _PAIR.fullmatch(path.name)
    listed = _read_pair(path, pair["stem"]) if pair else _read_lines(path)
    if len(set(listed.paths)) < len(listed.paths):
        raise DataError(_repetition(listed))
    return listed


def _read_lines(path: Path) -> _List:
    """Read lines ``path 0 1 0 ...``."""
    lines = [line.split(None, 1) for line in read_text(path).split(b"\n")]
    short = next((number for number, line in enumerate(lines, 1) if len(line) < 2), None)
    if short is not None:
        raise DataError(f"{path}, line {short}: expected a path and a row of 0s and 1s.")
    n_columns = len(lines[0][1].split())
    table = parse_rows(b"\n".join(line[1] for line in lines), n_columns, path)
    return _List(path, _decode([line[0] for line in lines], path), table)


def _read_pair(path: Path, stem: str) -> _List:
    """Read the paths of ``*_img.txt`` and the rows of ``*_label.txt``."""
    images, labels = path.with_name(f"{stem}_img.txt"), path.with_name(f"{stem}_label.txt")
    paths, data = read_names(images), read_text(labels)
    table = parse_rows(data, len(data.partition(b"\n")[0].split()), labels)
    if len(paths) != len(table):
        raise DataError(f"{images} has {len(paths):,} lines but {labels} has {len(table):,}; they must match.")
    return _List(images, paths, table)


def _decode(names: Sequence[bytes], source: Path) -> list[str]:
    """Decode UTF-8 names, one per line."""
    try:
        return [name.decode() for name in names]
    except UnicodeDecodeError as error:
        number = names.index(error.object) + 1
        raise DataError(f"{source}, line {number}: {error.object[:60]!r} is not UTF-8; convert the file.") from error


def _repetition(listed: _List) -> str:
    """Describe the first path of a list that has occurred before."""
    first: dict[str, int] = {}
    lines = enumerate(listed.paths, 1)
    number, path = next((n, path) for n, path in lines if first.setdefault(path, n) != n)
    return f"{listed.source}, line {number}: {path} is already on line {first[path]}; list every image once."


def _find_set(path: Path) -> tuple[str, dict[str, Path]]:
    """Return the prefix and, by role, the files of the set that a folder holds or a prefix names."""
    folder = path if path.is_dir() else path.parent
    sets = _sets_in(folder)
    chosen = {prefix: files for prefix, files in sets.items() if path.is_dir() or _names(path, prefix)}
    if len(chosen) == 1:
        return next(iter(chosen.items()))
    found = ", ".join(repr(prefix.rstrip(_SEPARATORS)) for prefix in sorted(chosen or sets))
    if chosen:
        raise DataError(f"{path} stands for several sets of lists: {found}; give the folder and one of these prefixes.")
    raise DataError(
        f"{path} is no list and no set of *train.txt, *test.txt, *database.txt; "
        + (f"prefixes in {folder}: {found}." if found else f"there are no such files in {folder}.")
    )


def _names(path: Path, prefix: str) -> bool:
    """Return whether `path` ends in this prefix; separators at the end do not count."""
    return path.name.rstrip(_SEPARATORS) == prefix.rstrip(_SEPARATORS)


def _sets_in(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the lists of a folder by prefix and role; query first, then database, then train."""
    matches = [(_ROLE.fullmatch(file.name), file) for file in folder.glob("*.txt") if file.is_file()]
    sets: dict[str, dict[str, Path]] = {}
    for role in ("test", "database", "train"):
        for match, file in matches:
            if match and match["role"] == role:
                sets.setdefault(match["prefix"], {})[role] = file
    return sets


def _merge(lists: Mapping[str, _List]) -> tuple[_List, dict[str, NDArray[np.int64]]]:
    """Join lists so that each path is one row; also return the rows of each list."""
    first = next(iter(lists.values()))
    _check_columns(first, lists)
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
            raise DataError(_disagreement(listed.paths[differs[0]], lists))
    return _List(first.source, list(known), table), rows


def _check_columns(first: _List, lists: Mapping[str, _List]) -> None:
    """Raise unless all lists have the same number of classes."""
    for listed in lists.values():
        if listed.table.shape[1] != first.table.shape[1]:
            raise DataError(
                f"{listed.source} has {listed.table.shape[1]} classes but {first.source.name} "
                f"has {first.table.shape[1]}; the lists of a set must agree."
            )


def _disagreement(path: str, lists: Mapping[str, _List]) -> str:
    """Describe a path that has different labels in the lists that hold it."""
    places = [f"{found.source}, line {found.paths.index(path) + 1}" for found in lists.values() if path in found.paths]
    return f"{path} is labelled differently in {' and '.join(places)}; correct one of them."


def _parts(rows: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Name the parts: without a test list there are none, without a database list train is the database."""
    if "test" not in rows:
        return {}
    database = rows.get("database", rows.get("train"))
    parts = {"query": rows["test"], "train": rows.get("train"), "database": database}
    return {name: part for name, part in parts.items() if part is not None}


def _list_name(path: Path) -> str:
    """Return the file's name without its ending, and for a pair without what tells the two apart."""
    pair = _PAIR.fullmatch(path.name)
    return pair["stem"] if pair else path.stem


def _dataset(name: str, listed: _List, parts: Mapping[str, NDArray[np.int64]], root: Path) -> Dataset:
    """Make the dataset of a list."""
    return Dataset(
        name=name,
        images=FileImages([root / path for path in listed.paths]),
        labels=as_labels(sparse.csr_array(listed.table)),
        class_names=tuple(str(column) for column in range(listed.table.shape[1])),
        parts=parts,
        protocol="given" if {"query", "database"} <= parts.keys() else "own",
    )
