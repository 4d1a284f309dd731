"""Tables of image files: their paths, their labels and the part they belong to, from CSV, TSV or JSONL."""

import csv
import json
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from ddsh.errors import DataError

MAX_TABLE_BYTES = 1_000_000_000
"""Tables with more bytes are refused before they are read."""

PARTS = ("query", "train", "database")
"""What a table may say an image is for."""

_COLUMNS = frozenset({"path", "label", "labels", "part"})


@dataclass(frozen=True)
class Item:
    """One labelled image file, not yet known to be readable."""

    path: Path
    labels: tuple[str, ...]
    part: str = ""


def read_table(table: Path) -> tuple[bool, list[Item]]:
    """Return whether the table gives many labels, and its rows."""
    _check_table(table)
    items: list[Item] = []
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


def _item(record: Mapping[str, object], where: str, folder: Path) -> Item:
    """Check one row."""
    path = checked_text(record["path"], "the path", where)
    if not path.strip():
        raise DataError(f"{where}: the path is empty; give the path of an image.")
    values = record["labels"] if "labels" in record else [record["label"]]
    if not isinstance(values, list):
        raise DataError(f"{where}: labels must be a list of strings, got {reprlib.repr(values)}.")
    labels = [name for name in (_label(value, where) for value in values) if name]
    if not labels:
        raise DataError(f"{where}: no label; every image needs at least one.")
    part = _part(record["part"], where) if "part" in record else ""
    return Item(folder / path, tuple(labels), part)


def _label(value: object, where: str) -> str:
    """Return a label without the blanks around it; a number is turned to a string."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return checked_text(str(value) if is_number else value, "a label", where).strip()


def _part(value: object, where: str) -> str:
    part = checked_text(value, "the part", where).strip()
    if part not in PARTS:
        raise DataError(f"{where}: unknown part {reprlib.repr(part)}; expected {', '.join(PARTS)}.")
    return part


def checked_text(value: object, what: str, where: str) -> str:
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
