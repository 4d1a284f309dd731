"""Tables of image paths and labels: CSV, TSV and JSONL."""

import csv
import json
import logging
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeAlias

from ddsh.datasets._labelled_files import PARTS, LabelledFile, build_dataset, check_text, find_readable, reading
from ddsh.datasets.base import Dataset, ProgressCallback, Skipped
from ddsh.errors import DataError

__all__ = ["MAX_TABLE_BYTES", "TABLES", "load_table", "read_rows"]

TABLES = frozenset({".csv", ".tsv", ".jsonl"})
"""File extensions of tables."""

MAX_TABLE_BYTES = 1_000_000_000
"""Tables with more bytes are refused before they are read."""

_LOGGER = logging.getLogger(__name__)

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "path": ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img"),
    "label": ("label", "class", "category"),
    "labels": ("labels", "tags", "classes", "categories", "tag"),
    "part": ("part",),
}
"""Names of each column, compared without case; the first one that a table has is used."""

_SEPARATORS = (",", ";", "\t")
_LABEL_SEPARATORS = (";", "|", ",")
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
    ``labels`` for several (separated by ``;``, ``|`` or ``,``, in JSONL a list); and optionally ``part``: query, train
    or database. Common other names, such as ``file`` and ``class``, are recognised, in any case; other columns are
    ignored. An image without a label is unlabelled. Rows of the same path are merged: the image has all their labels.
    The columns of CSV and TSV files are separated by commas, semicolons or tabs.

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


def read_rows(path: str | os.PathLike[str]) -> list[LabelledFile]:
    """Return the images that a table lists, without looking for their files; see :func:`load_table`."""
    table = Path(path)
    with reading(table):
        return _read_table(table)[1]


def _read_table(table: Path) -> tuple[bool, list[LabelledFile]]:
    """Return whether the table has several labels per image, and its images."""
    records = list(_open_records(table))
    if not records:
        raise DataError(f"{table} has no rows; expected one row per image, with its path and its label.")
    _split_labels(records, table)
    folder = os.path.abspath(table.parent)  # noqa: PTH100 -- once for all rows, which is faster than Path.absolute
    files: dict[str, LabelledFile] = {}
    lines: dict[str, int] = {}
    for line, record in records:
        where = f"{table}, line {line}"
        path = check_text(record["path"], "the path", where)
        if not path.strip():
            raise DataError(f"{where}: the path is empty; give the path of an image.")
        part = check_text(record["part"], "the part", where).strip() if "part" in record else ""
        if "part" in record and part not in PARTS:
            raise DataError(f"{where}: unknown part {reprlib.repr(part)}; expected {', '.join(PARTS)}.")
        file = LabelledFile(table.parent / path, _labels_of(record, where), part)
        key = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118
        first = lines.setdefault(key, line)
        known = files.setdefault(key, file)
        if known.part != part:
            raise DataError(f"{table}, lines {first} and {line}: {path!r} is in the parts {known.part} and {part}.")
        files[key] = replace(known, labels=tuple(dict.fromkeys(known.labels + file.labels)))
    if len(files) < len(records):
        n_repeated = len(records) - len(files)
        _LOGGER.warning("%s: %d rows repeat an image; their labels were united.", table, n_repeated)
    return "labels" in records[0][1] or any(len(file.labels) > 1 for file in files.values()), list(files.values())


def _open_records(table: Path) -> _Records:
    """Check that the file is a table, and return its records."""
    suffix = table.suffix.lower()
    if suffix not in TABLES:
        raise DataError(f"{table}: expected a table whose name ends in .csv, .tsv, .jsonl.")
    if not table.exists():
        raise DataError(f"{table} does not exist; give a table with the columns path and label.")
    if not table.is_file():
        raise DataError(f"{table} is not a file; give a table with the columns path and label.")
    if table.stat().st_size > MAX_TABLE_BYTES:
        raise DataError(f"{table}: {table.stat().st_size:,} bytes; the limit is {MAX_TABLE_BYTES:,}.")
    return _jsonl_records(table) if suffix == ".jsonl" else _csv_records(table)


def _split_labels(records: list[tuple[int, dict[str, object]]], table: Path) -> None:
    """Split the text of the column ``labels`` of a CSV table; warn where the separator may be meant otherwise."""
    name = "labels" if "labels" in records[0][1] else "label"
    texts = [text for _, record in records if isinstance(text := record[name], str)]
    used = [one for one in _LABEL_SEPARATORS if any(one in text for text in texts)]
    if used and (name == "label" or used[0] == ","):
        example = next(text for text in texts if used[0] in text)
        if name == "label":
            meaning = "one label; name the column 'labels' if they are several"
        else:
            meaning = "several labels; separate labels by ';' if this is one"
        _LOGGER.warning("%s: %r is read as %s.", table, reprlib.repr(example)[1:-1], meaning)
    if name == "labels" and table.suffix.lower() != ".jsonl":
        for _, record in records:
            record[name] = str(record[name]).split(used[0]) if used else [record[name]]


def _labels_of(record: dict[str, object], where: str) -> tuple[str, ...]:
    """Return the labels of a row, stripped; numbers become strings. An unlabelled row has none."""
    values = record["labels"] if "labels" in record else [record["label"]]
    if values is None:
        return ()
    if not isinstance(values, list):
        raise DataError(f"{where}: labels must be a list of strings, got {reprlib.repr(values)}.")
    labels = []
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None:
            labels.append(check_text(str(value) if is_number else value, "a label", where).strip())
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


def _csv_records(table: Path) -> _Records:
    """Yield the known columns of each row, with the number of its first line."""
    own = "\t" if table.suffix.lower() == ".tsv" else ","
    header = next((line for line in _text_lines(table) if line.strip()), "")
    fitting = [one for one in (own, *_SEPARATORS) if _is_header(header, one)]
    reader = csv.reader(_text_lines(table), delimiter=fitting[0] if fitting else own, strict=True)
    names: list[str] = []
    columns: dict[str, str] = {}
    line = 1
    try:
        for fields in reader:
            if fields and not names:
                names = fields
                columns = _find_columns(names, f"{table}, line {line}")
            elif fields:
                if len(fields) != len(names):
                    raise DataError(
                        f"{table}, line {line}: {len(fields)} fields, but the header has {len(names)}; "
                        "put a field that contains the separator in double quotes."
                    )
                record = dict(zip(names, fields, strict=True))
                yield line, {column: record[name] for column, name in columns.items()}
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{table}, line {line}: malformed ({error}); check its quotes.") from error
    if not names:
        _find_columns(names, f"{table}, line 1")


def _is_header(line: str, separator: str) -> bool:
    """Return whether a line, split by this separator, has the columns of a table."""
    try:
        return bool(_find_columns(next(csv.reader([line], delimiter=separator)), ""))
    except (csv.Error, DataError):
        return False


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
        columns = _find_columns(record, where)
        expected = expected or frozenset(columns)
        if columns.keys() != expected:
            found, before = (", ".join(sorted(names)) for names in (columns, expected))
            raise DataError(
                f"{where}: it has {found}, but the lines before have {before}; use the same keys throughout."
            )
        yield line, {column: record[name] for column, name in columns.items()}


def _find_columns(names: Iterable[str], where: str) -> dict[str, str]:
    """Return the name that a table has for each known column, or raise if they do not make a table."""
    given = list(names)
    plain = [name.strip().casefold().replace(" ", "_") for name in given]
    found: dict[str, str] = {}
    for column, synonyms in _COLUMNS.items():
        used = next((synonym for synonym in synonyms if synonym in plain), None)
        if used is not None:
            if plain.count(used) > 1:
                raise DataError(f"{where}: a column occurs twice ({used}); keep one.")
            found[column] = given[plain.index(used)]
    if "path" not in found or not found.keys() & {"label", "labels"}:
        raise DataError(
            f"{where}: expected the columns path and label (or labels), found {reprlib.repr(given)}. Other names:"
            " file, filename, image; class, category, tags."
        )
    if {"label", "labels"} <= found.keys():
        exact = [column for column in ("label", "labels") if column in plain]
        if len(exact) != 1:
            both = f"both {found['label']} and {found['labels']}"
            raise DataError(f"{where}: {both}; keep the one that is meant, or name it label or labels.")
        del found["labels" if exact == ["label"] else "label"]
    return found
