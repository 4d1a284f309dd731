"""Tables of image paths and labels: CSV, TSV and JSONL."""

import csv
import json
import os
import reprlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn, TypeAlias

from ddsh.datasets._labelled_files import PARTS, LabelledFile, build_dataset, check_text, find_readable, reading
from ddsh.datasets.base import Dataset, ProgressCallback, Skipped
from ddsh.errors import DataError

__all__ = ["MAX_TABLE_BYTES", "TABLES", "load_table"]

TABLES = frozenset({".csv", ".tsv", ".jsonl"})
"""File extensions of tables."""

MAX_TABLE_BYTES = 1_000_000_000
"""Tables with more bytes are refused before they are read."""

_COLUMNS = frozenset({"path", "label", "labels", "part"})
_Records: TypeAlias = Iterator[tuple[int, dict[str, object]]]


def load_table(
    path: str | os.PathLike[str],
    *,
    strict: bool = False,
    verify: bool = True,
    on_progress: ProgressCallback | None = None,
) -> Dataset:
    """Load the images that a table lists with their labels.

    The columns (in JSONL: keys) are ``path``, relative to the folder of the table; ``label`` for one label, or
    ``labels`` for several (separated by ``;``, in JSONL a list); and optionally ``part``: query, train or database.
    Other columns are ignored.

    Parameters
    ----------
    path : path
        A ``.csv``, ``.tsv`` or ``.jsonl`` file in UTF-8.
    strict : bool
        Raise if any image would be left out, instead of listing it in ``skipped``.
    verify : bool
        Decode every image once to find broken ones; otherwise only check that the files exist.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    Dataset
        Its protocol is ``given`` if the table assigns images to query and database.

    Raises
    ------
    DataError
        If the table has a mistake, if no image can be read, or if `strict` and any would be left out.
    """
    table = Path(path)
    with reading(table):
        many, files = _read_table(table)
    readable, broken = find_readable(files, verify, on_progress)
    all_names, present = ({label for file in group for label in file.labels} for group in (files, readable))
    lost = [Skipped(str(table), f"class {name!r} left out: no readable image") for name in sorted(all_names - present)]
    used = {file.part for file in files}
    parts = [part for part in PARTS if part in used]
    return build_dataset(table.stem, table, readable, [*broken, *lost], many=many, parts=parts, strict=strict)


def _read_table(table: Path) -> tuple[bool, list[LabelledFile]]:
    """Return whether the table has several labels per image, and its rows."""
    suffix = table.suffix.lower()
    if suffix not in TABLES:
        raise DataError(f"{table}: expected a table whose name ends in .csv, .tsv, .jsonl.")
    if not table.exists():
        raise DataError(f"{table} does not exist; give a table with the columns path and label.")
    if not table.is_file():
        raise DataError(f"{table} is not a file; give a table with the columns path and label.")
    if table.stat().st_size > MAX_TABLE_BYTES:
        raise DataError(f"{table}: {table.stat().st_size:,} bytes; the limit is {MAX_TABLE_BYTES:,}.")
    records = _jsonl_records(table) if suffix == ".jsonl" else _csv_records(table, "\t" if suffix == ".tsv" else ",")
    folder = os.path.abspath(table.parent)  # noqa: PTH100 -- once for all rows, which is faster than Path.absolute
    files: list[LabelledFile] = []
    lines: dict[str, int] = {}
    many = False
    for line, record in records:
        where = f"{table}, line {line}"
        path = check_text(record["path"], "the path", where)
        if not path.strip():
            raise DataError(f"{where}: the path is empty; give the path of an image.")
        first = lines.setdefault(os.path.normpath(os.path.join(folder, path)), line)  # noqa: PTH118
        if first != line:
            raise DataError(f"{table}, lines {first} and {line}: the path {path!r} twice; keep one.")
        part = check_text(record["part"], "the part", where).strip() if "part" in record else None
        if part not in (None, *PARTS):
            raise DataError(f"{where}: unknown part {reprlib.repr(part)}; expected {', '.join(PARTS)}.")
        many = "labels" in record
        files.append(LabelledFile(table.parent / path, _labels_of(record, where), part or ""))
    if not files:
        raise DataError(f"{table} has no rows; expected one row per image, with its path and its label.")
    return many, files


def _labels_of(record: dict[str, object], where: str) -> tuple[str, ...]:
    """Return the labels of a row, stripped; numbers become strings."""
    values = record["labels"] if "labels" in record else [record["label"]]
    if not isinstance(values, list):
        raise DataError(f"{where}: labels must be a list of strings, got {reprlib.repr(values)}.")
    labels = []
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        labels.append(check_text(str(value) if is_number else value, "a label", where).strip())
    if not any(labels):
        raise DataError(f"{where}: no label; every image needs at least one.")
    return tuple(filter(None, labels))


def _text_lines(table: Path) -> Iterator[str]:
    """Decode line by line, so that an error can name the line."""
    with table.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if b"\0" in raw:
                raise DataError(f"{table}, line {line}: a NUL byte; expected text in UTF-8.")
            try:
                yield raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{table}, line {line}: not UTF-8; save the table as UTF-8 text.") from None


def _csv_records(table: Path, delimiter: str) -> _Records:
    """Yield each row with the number of its first line; the field ``labels`` is split."""
    reader = csv.reader(_text_lines(table), delimiter=delimiter, strict=True)
    names: list[str] = []
    line = 1
    try:
        for fields in reader:
            if fields and not names:
                names = [name.strip() for name in fields]
                _check_columns(names, f"{table}, line {line}")
            elif fields:
                if len(fields) != len(names):
                    raise DataError(
                        f"{table}, line {line}: {len(fields)} fields, but the header has {len(names)}; "
                        "put a field that contains the separator in double quotes."
                    )
                record: dict[str, object] = dict(zip(names, fields, strict=True))
                if "labels" in record:
                    record["labels"] = str(record["labels"]).split(";")
                yield line, record
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{table}, line {line}: malformed ({error}); check its quotes.") from error
    if not names:
        _check_columns(names, f"{table}, line 1")


def _jsonl_records(table: Path) -> _Records:
    """Yield each object with its line number; all must have the same columns."""

    def refuse_constant(name: str) -> NoReturn:
        """Refuse NaN and Infinity, which Python accepts."""
        raise ValueError(f"{name} is not JSON")

    expected: frozenset[str] = frozenset()
    for line, text in enumerate(_text_lines(table), 1):
        if not text.strip():
            continue
        where = f"{table}, line {line}"
        try:
            record = json.loads(text, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: malformed JSON ({getattr(error, 'msg', error)}).") from error
        if not isinstance(record, dict):
            raise DataError(
                f'{where}: not an object; expected {{"path": ..., "label": ...}}, got {reprlib.repr(record)}.'
            )
        columns = _check_columns(record, where)
        expected = expected or columns
        if columns != expected:
            found, before = (", ".join(sorted(names)) for names in (columns, expected))
            raise DataError(
                f"{where}: it has {found}, but the lines before have {before}; use the same keys throughout."
            )
        yield line, record


def _check_columns(names: Iterable[str], where: str) -> frozenset[str]:
    """Return the known columns, or raise if they do not make a table."""
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
