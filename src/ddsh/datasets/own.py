"""Loaders for your own images: a folder with one subfolder per class, or a table of paths and labels."""

import csv
import json
import os
import reprlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.datasets.dataset import Dataset, Skipped
from ddsh.datasets.images import EXTENSIONS, FileImages, check_file, read_image
from ddsh.errors import BrokenImage, DataError
from ddsh.labels import Labels, as_labels

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many files are done, and how many there are."""

MAX_TABLE_BYTES = 1_000_000_000
"""Tables with more bytes are refused before they are read."""

_PARTS = ("query", "train", "database")
_COLUMNS = frozenset({"path", "label", "labels", "part"})
_BATCH = 1024
_N_NAMED = 5


@dataclass(frozen=True)
class _Item:
    """One labelled image file, not yet known to be readable."""

    path: Path
    labels: tuple[str, ...]
    part: str = ""


def load_folder(
    root: Path, *, strict: bool = False, verify: bool = True, on_progress: Progress | None = None
) -> Dataset:
    """Load a folder that has one subfolder per class.

    Images are searched at any depth below a class folder, in the order of their names; hidden files
    and folders, files that are no images and linked folders inside a class folder are passed over.

    Parameters
    ----------
    root : path
        The folder.
    strict : bool
        Raise if anything would be left out, rather than list it in ``skipped``.
    verify : bool
        Decode every image once to find the broken ones; otherwise only their existence is checked.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    Dataset
        With one label per image.

    Raises
    ------
    DataError
        If it is no such folder, if no image can be read, or if `strict` and anything would be left out.
    """
    root = Path(root)
    with _problems_of(root):
        folders, loose = _class_folders(root)
        items = [_Item(path, (folder.name,)) for folder in folders for path in _image_files(folder)]
    if not items:
        raise DataError(f"{root}: its {len(folders)} subfolders hold no images; put each class's images into one.")
    kept, broken = _divide(items, verify, on_progress)
    present = _class_names(kept)
    lost = [Skipped(str(path), "class left out: no readable image") for path in folders if path.name not in present]
    skipped = (*loose, *broken, *lost)
    _insist(root, kept, skipped, strict)
    return Dataset(_name_of(root), _files(kept), _single_labels(kept), present, skipped=skipped)


def load_table(
    path: Path, *, strict: bool = False, verify: bool = True, on_progress: Progress | None = None
) -> Dataset:
    """Load the images that a table lists with their labels.

    The columns (in JSONL: keys) are ``path``, relative to the table's folder; ``label`` for one label,
    or ``labels`` for many (separated by ``;``, in JSONL a list); and, if you like, ``part``:
    query, train or database. Other columns are passed over.

    Parameters
    ----------
    path : path
        A ``.csv``, ``.tsv`` or ``.jsonl`` file in UTF-8.
    strict : bool
        Raise if any image would be left out, rather than list it in ``skipped``.
    verify : bool
        Decode every image once to find the broken ones; otherwise only their existence is checked.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    Dataset
        Its protocol is ``given`` if the table says which images are queries and which the database.

    Raises
    ------
    DataError
        If the table has a mistake, if no image can be read, or if `strict` and any would be left out.
    """
    table = Path(path)
    with _problems_of(table):
        many, items = _read_table(table)
    kept, broken = _divide(items, verify, on_progress)
    present = _class_names(kept)
    lost = sorted(set(_class_names(items)).difference(present))
    skipped = (
        *broken,
        *(Skipped(str(table), f"class {name!r} left out: no readable image") for name in lost),
    )
    _insist(table, kept, skipped, strict)
    labels = _multi_labels(kept) if many else _single_labels(kept)
    parts = _parts(table, items, kept)
    protocol = "given" if {"query", "database"} <= parts.keys() else "own"
    return Dataset(table.stem, _files(kept), labels, present, parts, protocol, skipped)


def load_unlabelled(path: Path, on_progress: Progress | None = None) -> tuple[FileImages, tuple[Skipped, ...]]:
    """Return one image, or the images at any depth below a folder, and those that are broken.

    Parameters
    ----------
    path : path
        An image file or a folder.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    FileImages
        The images that can be read.
    tuple of Skipped
        The others.
    """
    with _problems_of(path):
        files = _image_files(path) if path.is_dir() else [path]
    kept, skipped = _divide([_Item(file, ()) for file in files], True, on_progress)
    if not kept:
        raise DataError(f"{path}: no image can be read ({len(skipped)} broken); give an image or a folder of images.")
    return _files(kept), tuple(skipped)


def is_unlabelled(path: Path) -> bool:
    """Return whether `path` is an image, or a folder in which images lie without a class folder."""
    if path.is_dir():
        return any(_is_image(child.name) for child in path.iterdir() if child.is_file())
    return path.is_file() and _is_image(path.name)


@contextmanager
def _problems_of(source: Path) -> Iterator[None]:
    """Turn an error of the file system into one line that names the source."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror or error}).") from error


def _class_folders(root: Path) -> tuple[list[Path], list[Skipped]]:
    """Return the class folders, and the images that lie beside them."""
    if not root.exists():
        raise DataError(f"{root} does not exist; give a folder that has one subfolder per class.")
    if not root.is_dir():
        raise DataError(f"{root} is a file; give a folder that has one subfolder per class, or load it as a table.")
    visible = sorted((path for path in root.iterdir() if not _is_hidden(path.name)), key=lambda path: path.name)
    folders = [path for path in visible if path.is_dir()]
    loose = [path for path in visible if not path.is_dir() and _is_image(path.name)]
    if not folders:
        _refuse_unlabelled(root, len(loose))
    for folder in folders:
        _text(folder.name, "the folder name", str(root))
    return folders, [Skipped(str(path), "not in a class folder") for path in loose]


def _refuse_unlabelled(root: Path, n_images: int) -> NoReturn:
    if not n_images:
        raise DataError(f"{root} has no images and no subfolders; give a folder that has one subfolder per class.")
    raise DataError(
        f"{root} is unlabelled: {n_images} images but no subfolders; move them into one subfolder per class, "
        "or list them with their labels in a CSV or JSONL table."
    )


def _image_files(folder: Path) -> list[Path]:
    """Return the images at any depth, in an order that does not depend on the machine."""
    found: list[Path] = []
    for parent, subfolders, names in os.walk(folder, onerror=_raise):
        subfolders[:] = [name for name in subfolders if not _is_hidden(name)]
        found += [Path(parent, name) for name in names if _is_image(name) and not _is_hidden(name)]
    return sorted(found, key=lambda path: path.parts)


def _raise(error: OSError) -> NoReturn:
    raise error


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in EXTENSIONS


def _name_of(root: Path) -> str:
    """Return the folder's own name, also where it is given as ``.`` or ``..``."""
    return root.name if root.name not in ("", "..") else root.resolve().name or str(root)


def _read_table(table: Path) -> tuple[bool, list[_Item]]:
    """Return whether the table gives many labels, and its rows."""
    _check_table(table)
    items: list[_Item] = []
    lines: dict[str, int] = {}
    many = False
    for line, record in _READERS[table.suffix.lower()](table):
        item = _item(record, f"{table}, line {line}", table.parent)
        first = lines.setdefault(os.path.normpath(item.path.absolute()), line)
        if first != line:
            raise DataError(f"{table}, lines {first} and {line}: the path {record['path']!r} twice; keep one.")
        many = "labels" in record
        items.append(item)
    if not items:
        raise DataError(f"{table} has no rows; expected one row per image, with its path and its label.")
    return many, items


def _check_table(table: Path) -> None:
    if table.suffix.lower() not in _READERS:
        raise DataError(f"{table}: expected a table whose name ends in {', '.join(_READERS)}.")
    if not table.exists():
        raise DataError(f"{table} does not exist; give a table with the columns path and label.")
    if not table.is_file():
        raise DataError(f"{table} is not a file; give a table with the columns path and label.")
    if table.stat().st_size > MAX_TABLE_BYTES:
        raise DataError(f"{table}: {table.stat().st_size:,} bytes; the limit is {MAX_TABLE_BYTES:,}.")


def _text_lines(table: Path) -> Iterator[str]:
    """Decode line by line, so that a mistake has a line number."""
    with table.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if b"\0" in raw:
                raise DataError(f"{table}, line {line}: a NUL byte; expected text in UTF-8.")
            try:
                yield raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{table}, line {line}: not UTF-8; save the table as UTF-8 text.") from None


def _csv_records(table: Path, delimiter: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield each row with its line number; the cell ``labels`` is split."""
    rows = _csv_rows(table, delimiter)
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    _check_columns(names, f"{table}, line {line}")
    for line, fields in rows:
        if len(fields) != len(names):
            raise DataError(
                f"{table}, line {line}: {len(fields)} fields, but the header has {len(names)}; "
                "put a field that contains the separator in double quotes."
            )
        record: dict[str, object] = dict(zip(names, fields, strict=True))
        yield line, record | ({"labels": str(record["labels"]).split(";")} if "labels" in record else {})


def _csv_rows(table: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row with the number of the line it begins on; blank lines are passed over."""
    reader = csv.reader(_text_lines(table), delimiter=delimiter, strict=True)
    line = 1
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{table}, line {line}: malformed ({error}); check its quotes.") from error


def _jsonl_records(table: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield each object with its line number; all must have the same of our keys."""
    expected: frozenset[str] = frozenset()
    for line, text in enumerate(_text_lines(table), 1):
        if not text.strip():
            continue
        where = f"{table}, line {line}"
        record = _json_object(text, where)
        columns = _check_columns(record, where)
        expected = expected or columns
        if columns != expected:
            raise DataError(f"{where}: has {_listed(columns)}, but the lines before have {_listed(expected)}.")
        yield line, record


def _json_object(text: str, where: str) -> dict[str, object]:
    try:
        record = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: malformed JSON ({getattr(error, 'msg', error)}).") from error
    if not isinstance(record, dict):
        raise DataError(f'{where}: not an object; expected {{"path": ..., "label": ...}}, got {reprlib.repr(record)}.')
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_columns(names: Iterable[str], where: str) -> frozenset[str]:
    """Return those of the columns that are ours, or raise if they do not make a table."""
    given = [name for name in names if name in _COLUMNS]
    columns = frozenset(given)
    if len(given) > len(columns):
        raise DataError(f"{where}: a column occurs twice ({', '.join(given)}); keep one.")
    if "path" not in columns or not columns & {"label", "labels"}:
        found = reprlib.repr(list(names))
        raise DataError(f"{where}: expected the columns path and label (or labels), found {found}.")
    if {"label", "labels"} <= columns:
        raise DataError(f"{where}: both label and labels; keep the one that is meant.")
    return columns


def _listed(columns: frozenset[str]) -> str:
    return ", ".join(sorted(columns))


def _item(record: Mapping[str, object], where: str, folder: Path) -> _Item:
    """Check one row."""
    path = _text(record["path"], "the path", where)
    if not path.strip():
        raise DataError(f"{where}: the path is empty; give the path of an image.")
    values = record["labels"] if "labels" in record else [record["label"]]
    if not isinstance(values, list):
        raise DataError(f"{where}: labels must be a list of strings, got {reprlib.repr(values)}.")
    labels = [name for name in (_label(value, where) for value in values) if name]
    if not labels:
        raise DataError(f"{where}: no label; every image needs at least one.")
    part = _part(record["part"], where) if "part" in record else ""
    return _Item(folder / path, tuple(labels), part)


def _label(value: object, where: str) -> str:
    """Return a label without the blanks around it; a number is turned to a string."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return _text(str(value) if is_number else value, "a label", where).strip()


def _part(value: object, where: str) -> str:
    part = _text(value, "the part", where).strip()
    if part not in _PARTS:
        raise DataError(f"{where}: unknown part {reprlib.repr(part)}; expected {', '.join(_PARTS)}.")
    return part


def _text(value: object, what: str, where: str) -> str:
    """Return text of one line that can be written and used as a file name, or raise."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {what} must be a string, got {reprlib.repr(value)}.")
    # A line break means a quote that is not closed; JSON escapes can spell NUL and halves of characters.
    if any(character < " " or "\ud800" <= character <= "\udfff" for character in value):
        raise DataError(f"{where}: {what} {reprlib.repr(value)} holds characters that are no text.")
    return value


TABLES = frozenset({".csv", ".tsv", ".jsonl"})
"""What the name of a table ends in."""

_Reader: TypeAlias = Callable[[Path], Iterator[tuple[int, dict[str, object]]]]
_READERS: Mapping[str, _Reader] = MappingProxyType(
    {
        ".csv": partial(_csv_records, delimiter=","),
        ".tsv": partial(_csv_records, delimiter="\t"),
        ".jsonl": _jsonl_records,
    }
)


def _divide(items: Sequence[_Item], verify: bool, on_progress: Progress | None) -> tuple[list[_Item], list[Skipped]]:
    """Divide into the items whose file can be read, and the files that are skipped."""
    kept: list[_Item] = []
    skipped: list[Skipped] = []
    check = read_image if verify else check_file
    with closing(_problems([item.path for item in items], check)) as problems:
        for done, (item, problem) in enumerate(zip(items, problems, strict=True), 1):
            if problem is None:
                kept.append(item)
            else:
                skipped.append(Skipped(str(item.path), problem))
            if on_progress:
                on_progress(done, len(items))
    return kept, skipped


def _problems(paths: Sequence[Path], check: Callable[[Path], object]) -> Generator[str | None, None, None]:
    """Check the files in as many threads as there are processors, a bounded number of files ahead."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), _BATCH):
            yield from pool.map(partial(_problem, check=check), paths[start : start + _BATCH])


def _problem(path: Path, check: Callable[[Path], object]) -> str | None:
    """Return what is wrong with a file; the image itself is dropped at once."""
    try:
        check(path)
    except BrokenImage as error:
        return str(error).removeprefix(f"{path}: ").removesuffix(".")
    return None


def _insist(source: Path, kept: Sequence[_Item], skipped: Sequence[Skipped], strict: bool) -> None:
    """Raise if nothing is left, or if anything was left out and `strict`."""
    if kept and not (strict and skipped):
        return
    named = "; ".join(f"{_one_line(each.path)} ({each.reason})" for each in skipped[:_N_NAMED])
    more = f"; and {len(skipped) - _N_NAMED} more" if len(skipped) > _N_NAMED else ""
    problem = f"{len(skipped)} entries cannot be used" if kept else "no image can be read"
    raise DataError(f"{source}: {problem}: {named}{more}. Mend or remove them.")


def _one_line(path: str) -> str:
    return " ".join(path.splitlines())


def _class_names(items: Iterable[_Item]) -> tuple[str, ...]:
    return tuple(sorted({label for item in items for label in item.labels}))


def _files(items: Iterable[_Item]) -> FileImages:
    return FileImages([item.path for item in items])


def _single_labels(items: Sequence[_Item]) -> Labels:
    position = _positions(items)
    return as_labels(np.array([position[item.labels[0]] for item in items], np.int64))


def _multi_labels(items: Sequence[_Item]) -> Labels:
    position = _positions(items)
    columns = np.array([position[label] for item in items for label in item.labels], np.int64)
    starts = np.cumsum([0, *(len(item.labels) for item in items)])
    ones = np.ones(len(columns), np.int32)
    return as_labels(sparse.csr_array((ones, columns, starts), shape=(len(items), len(position))))


def _positions(items: Iterable[_Item]) -> dict[str, int]:
    return {name: position for position, name in enumerate(_class_names(items))}


def _parts(table: Path, items: Iterable[_Item], kept: Sequence[_Item]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each part; a part that lost all its images would change the experiment."""
    given = {item.part for item in items}
    of_row = np.array([item.part for item in kept])
    parts = {part: np.flatnonzero(of_row == part).astype(np.int64) for part in _PARTS if part in given}
    for part, rows in parts.items():
        if not rows.size:
            raise DataError(f"{table}: no image of the part {part} can be read; mend them or leave out the column.")
    return parts
