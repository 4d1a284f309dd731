"""Catalogue of indexed images in one SQLite database.

The database is the only source of truth. The entry of an image and its code are written in one transaction, so there is
never one without the other, whenever the process ends; index files are derived from it
(:mod:`ddsh.search.live_index`). Every transaction has a generation and a random token: a reader that knows an earlier
state asks only for the changes since then, and a state of another history, such as one of a backup, is recognised.
"""

import functools
import json
import logging
import os
import secrets
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError
from ddsh.search.store import Content, Entry, Filter, Ids, StoredFile, check_metadata

__all__ = ["FORMAT_VERSION", "Catalogue", "Changes", "State"]

FORMAT_VERSION = 3
_APPLICATION = 0x64647368  # "ddsh"
_TIMEOUT_SECONDS = 60.0
_BATCH = 10_000
_LOG = logging.getLogger(__name__)

Packed: TypeAlias = NDArray[np.uint8]

# How many images have a label, and the sum of their ids, which tells whether all of them are found.
_LABEL_TOTALS = """
CREATE TABLE label_totals (
    label TEXT PRIMARY KEY,
    n_images INTEGER NOT NULL,
    id_sum INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
"""

# The column look is the tiny copy; earlier versions also had a column of outputs, which is not read.
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (generation INTEGER PRIMARY KEY, token TEXT NOT NULL);
CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    n_bytes INTEGER NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    code BLOB NOT NULL,
    look BLOB NOT NULL,
    checksum INTEGER
);
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    content INTEGER NOT NULL REFERENCES contents (id),
    mtime_ns INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    generation INTEGER NOT NULL,
    checksum INTEGER,
    label_sum INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX images_by_content ON images (content);
CREATE INDEX images_by_generation ON images (generation);
CREATE TABLE labels (
    image INTEGER NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    PRIMARY KEY (image, label)
) WITHOUT ROWID;
CREATE INDEX labels_by_label ON labels (label, image);
{_LABEL_TOTALS}
CREATE TABLE removed (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
CREATE TABLE roots (path TEXT PRIMARY KEY) WITHOUT ROWID;
"""

# SQLite notices damage of its own structures, but not of the values in them. So every row has a checksum, which
# triggers keep up to date; the function is registered by each connection.
_CONTENT_SUM = "checksum(contents.sha256, n_bytes, width, height, code, look)"
_IMAGE_SUM = "checksum(images.id, path, content, mtime_ns, metadata)"
_TRIGGERS = "".join(
    f"""
CREATE TRIGGER {table}_{event.split()[0].lower()} AFTER {event} ON {table} BEGIN
    UPDATE {table} SET checksum = {value} WHERE id = NEW.id;
END;
"""  # noqa: S608
    for table, value, columns in (
        ("contents", _CONTENT_SUM, "sha256, n_bytes, width, height, code, look"),
        ("images", _IMAGE_SUM, "path, content, mtime_ns, metadata"),
    )
    for event in ("INSERT", f"UPDATE OF {columns}")
)
# The labels of an image fit the sum of their checksums; those of all images fit the totals of each label.
_LABEL_TRIGGERS = """
CREATE TRIGGER labels_insert AFTER INSERT ON labels BEGIN
    UPDATE images SET label_sum = label_sum + checksum(NEW.label) WHERE id = NEW.image;
    INSERT INTO label_totals VALUES (NEW.label, 1, NEW.image, checksum(NEW.label, 1, NEW.image))
    ON CONFLICT (label) DO UPDATE SET n_images = n_images + 1, id_sum = id_sum + NEW.image,
        checksum = checksum(label, n_images + 1, id_sum + NEW.image);
END;
CREATE TRIGGER labels_delete AFTER DELETE ON labels BEGIN
    UPDATE images SET label_sum = label_sum - checksum(OLD.label) WHERE id = OLD.image;
    UPDATE label_totals SET n_images = n_images - 1, id_sum = id_sum - OLD.image,
        checksum = checksum(label, n_images - 1, id_sum - OLD.image) WHERE label = OLD.label;
    DELETE FROM label_totals WHERE label = OLD.label AND n_images = 0;
END;
"""
_TOTALS_INTACT = "checksum IS checksum(label, n_images, id_sum)"
_CONTENT_INTACT = f"contents.checksum IS {_CONTENT_SUM}"
_IMAGE_INTACT = f"images.checksum IS {_IMAGE_SUM}"

_FILES = "SELECT images.id, path, sha256, n_bytes, mtime_ns FROM images JOIN contents ON contents.id = content"
_INTACT = f"{_CONTENT_INTACT} AND {_IMAGE_INTACT}"
_CODES = f"SELECT images.id, code, {_INTACT} FROM images JOIN contents ON contents.id = content"  # noqa: S608
_CODES_OF = f"{_CODES} WHERE images.id IN (SELECT value FROM json_each(?))"  # noqa: S608
# Everything that belongs to some entries, with a row for each label. Checksums are compared in Python, because calling
# a Python function from SQL for each row takes longer.
_ENTRIES = """
SELECT images.id, images.path, content, mtime_ns, metadata, images.checksum, label_sum,
    sha256, n_bytes, width, height, code, look, contents.checksum, label
FROM json_each(?) AS wanted CROSS JOIN images ON images.id = wanted.value JOIN contents ON contents.id = content
LEFT JOIN labels ON image = images.id
"""
# The other files with the content of an image, and that content.
_COPIES = """
SELECT own.id, own.path, own.content, own.mtime_ns, own.metadata, own.checksum,
    sha256, n_bytes, width, height, code, look, contents.checksum, other.id
FROM images AS own JOIN contents ON contents.id = own.content JOIN images AS other ON other.content = own.content
WHERE own.id = ?
"""
# Each draw from [0, 1) selects the next id at or after its place; the first ids fill up what was drawn twice.
_SAMPLE = """
WITH drawn AS (
    SELECT 0 AS rest, draw.key AS place, (
        SELECT id FROM images WHERE id > CAST(draw.value * (SELECT max(id) FROM images) AS INTEGER) ORDER BY id LIMIT 1
    ) AS id FROM json_each(?1) AS draw
    UNION ALL
    SELECT 1, id, id FROM (SELECT id FROM images ORDER BY id LIMIT ?2)
)
SELECT id FROM drawn WHERE id IS NOT NULL GROUP BY id ORDER BY min(rest), min(place) LIMIT ?2
"""

# A word in the file name or in a value of the metadata. Folders are not searched, because the service never shows
# them.
_WITH_WORD = """
SELECT id FROM images WHERE name_has_word(path, ?1)
UNION
SELECT images.id FROM images, json_tree(metadata) WHERE metadata <> '{}' AND has_word(atom, ?1)
"""
# Labels whose images are not those of their total.
_LOST_IMAGES = """
SELECT label FROM label_totals LEFT JOIN labels USING (label) WHERE label IN (SELECT value FROM json_each(?))
GROUP BY label HAVING count(image) <> n_images OR sum(image) <> id_sum
"""


@dataclass(frozen=True)
class State:
    """One state of a catalogue.

    Parameters
    ----------
    generation : int
        Number of transactions that led to it.
    token : str
        Random and unique.
    """

    generation: int
    token: str


@dataclass(frozen=True, eq=False)
class Changes:
    """Difference between two states: ids that are gone or have a new code, and changed ids with their codes."""

    gone: Ids
    ids: Ids
    packed: Packed


class Catalogue:
    """An open catalogue. One thread at a time may use it; it can be open any number of times.

    Parameters
    ----------
    path : path
        The database. Files in the same folder are stored by relative paths, so that the folder can be moved.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._folder = self._path.absolute().parent
        self._replaced = False
        self._words_intact = False
        try:
            self._connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=_TIMEOUT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            _register(self._connection)
        except sqlite3.Error as error:
            raise self._named(error) from error
        try:
            application, version = self._one("PRAGMA application_id")[0], self._one("PRAGMA user_version")[0]
            if application != _APPLICATION:
                raise ArtefactError(f"{path} is not a catalogue of ddsh.")
            if version in (1, 2):
                self._add_checksums()
            elif version != FORMAT_VERSION:
                raise ArtefactError(f"{path} has version {version}; this ddsh reads version {FORMAT_VERSION}.")
            self._all("PRAGMA foreign_keys = ON")
            self._connection.create_function("has_word", 2, _has_word, deterministic=True)
            self._connection.create_function("name_has_word", 2, _name_has_word, deterministic=True)
            self._all("PRAGMA synchronous = FULL")
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: str | os.PathLike[str], fingerprint: str) -> None:
        """Create an empty catalogue for the codes of one model."""
        try:
            connection = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            raise ArtefactError(f"{path} cannot be written ({error}).") from error
        try:
            # Readers see the last state while a writer prepares the next one.
            connection.execute("PRAGMA journal_mode = WAL")
            _register(connection)
            connection.executescript(f"BEGIN; {_SCHEMA} {_TRIGGERS} {_LABEL_TRIGGERS} COMMIT;")
            connection.execute("INSERT INTO facts VALUES ('fingerprint', ?)", (fingerprint,))
            connection.execute("INSERT INTO commits VALUES (0, ?)", (secrets.token_hex(8),))
        except sqlite3.Error as error:
            raise ArtefactError(f"{path} cannot be written ({error}).") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close the database."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Folder of the database."""
        return self._folder

    @property
    def has_replaced(self) -> bool:
        """Whether :meth:`replace` was called, so that contents may be unused."""
        return self._replaced

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state in the block, regardless of concurrent writers."""
        self._all("BEGIN")
        try:
            yield
        finally:
            self._all("COMMIT")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes of the block one new state, or none of them."""
        with self._atomic():
            before = self._connection.total_changes
            yield
            if self._connection.total_changes > before:
                self._all("INSERT INTO commits VALUES (?, ?)", self._next_generation(), secrets.token_hex(8))

    def fingerprint(self) -> str:
        """Return the fingerprint of the model that computed the codes."""
        return str(self._one("SELECT value FROM facts WHERE name = 'fingerprint'")[0])

    def state(self) -> State:
        """Return the newest state."""
        return State(*self._one("SELECT generation, token FROM commits ORDER BY generation DESC LIMIT 1"))

    def has_state(self, state: State) -> bool:
        """Return whether a state belongs to this catalogue and has not been forgotten."""
        return bool(
            self._all("SELECT 1 FROM commits WHERE generation = ? AND token = ?", state.generation, state.token)
        )

    def count(self) -> int:
        """Return the number of images."""
        return int(self._one("SELECT count(*) FROM images")[0])

    def count_contents(self) -> tuple[int, int]:
        """Return the number of different contents and of different codes."""
        sql = "SELECT count(*), count(DISTINCT code) FROM contents WHERE id IN (SELECT content FROM images)"
        n_contents, n_codes = self._one(sql)
        return int(n_contents), int(n_codes)

    def codes(self) -> Changes:
        """Return all ids and codes."""
        return self._codes(f"{_CODES} ORDER BY images.id")

    def changes(self, since: State) -> Changes:
        """Return the changes since an earlier state."""
        gone = self._all("SELECT id FROM removed WHERE generation > ?", since.generation)
        now = self._codes(f"{_CODES} WHERE generation > ? ORDER BY 1", since.generation)
        return Changes(np.union1d(np.array(gone, np.int64).reshape(-1), now.ids), now.ids, now.packed)

    def count_changes(self, since: State) -> int:
        """Return the number of images that changed since an earlier state."""
        return sum(
            int(self._one(f"SELECT count(*) FROM {table} WHERE generation > ?", since.generation)[0])  # noqa: S608
            for table in ("images", "removed")
        )

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return entries in the order of the ids; unknown ids are skipped."""
        wanted = [int(number) for number in ids]
        rows: dict[int, Any] = {}
        labels: dict[int, list[str]] = {}
        for row in self._all(_ENTRIES, json.dumps(list(dict.fromkeys(wanted)))):
            rows[row[0]] = row
            if row[-1] is not None:
                labels.setdefault(row[0], []).append(row[-1])
        found, folder = {}, f"{self._folder}{os.sep}"
        for row in rows.values():
            number, path, content, mtime_ns, metadata, image_sum, label_sum = row[:7]
            sha256, n_bytes, width, height, code, look, content_sum = row[7:14]
            intact = image_sum == _image_sum(number, path, content, mtime_ns, metadata)
            if not intact or content_sum != _content_sum(sha256, n_bytes, width, height, code, look):
                raise self._damaged(f"image {number} does not fit its checksum")
            own = labels.get(number, ())
            if label_sum != (_label_sum(own[0]) if len(own) == 1 else sum(map(_label_sum, own))):
                raise self._damaged(f"the labels of image {number} do not fit their checksum")
            found[number] = Entry(
                number,
                path if path.startswith(os.sep) else folder + path,  # pathlib takes twenty times as long
                sha256.hex(),
                n_bytes,
                width,
                height,
                mtime_ns,
                tuple(sorted(own)),
                _shown(metadata, number),
            )
        return [found[number] for number in wanted if number in found]

    def ids(self, after: int, limit: int) -> list[int]:
        """Return the next ids after one, ascending."""
        rows = self._all("SELECT id FROM images WHERE id > ? ORDER BY id LIMIT ?", after, limit)
        return [row[0] for row in rows]

    def sample(self, n: int, seed: int | None) -> list[int]:
        """Return `n` random ids, or all if there are fewer."""
        draws = np.random.default_rng(seed).random(3 * n).tolist()
        return [row[0] for row in self._all(_SAMPLE, json.dumps(draws), n)]

    def files(self) -> list[StoredFile]:
        """Return all files, by id."""
        return self._files(f"{_FILES} ORDER BY images.id")

    def file_at(self, path: Path) -> StoredFile | None:
        """Return the file with a path, if it is indexed."""
        with suppress(UnicodeEncodeError):  # no indexed path is invalid text
            return next(iter(self._files(f"{_FILES} WHERE path = ?", self._stored(path))), None)
        return None

    def ids_with(self, sha256: bytes) -> list[int]:
        """Return the ids of the images with some content, ascending."""
        sql = "SELECT id FROM images WHERE content = (SELECT id FROM contents WHERE sha256 = ?) ORDER BY id"
        return [row[0] for row in self._all(sql, sha256)]

    def files_with(self, sha256: bytes) -> list[StoredFile]:
        """Return the files with some content, by id."""
        return self._files(f"{_FILES} WHERE sha256 = ? ORDER BY images.id", sha256)

    def has_content(self, sha256: bytes) -> bool:
        """Return whether some content is stored."""
        return bool(self._all("SELECT 1 FROM contents WHERE sha256 = ?", sha256))

    def copies_of(self, image: int) -> tuple[bytes, bytes, list[int]] | None:
        """Return the checksum of an image's file, its code, and the ids of all images with this content, ascending."""
        rows = self._all(_COPIES, image)
        if not rows:
            return None
        *own, image_sum = rows[0][:6]
        *content, content_sum = rows[0][6:13]
        if image_sum != _image_sum(*own) or content_sum != _content_sum(*content):
            raise self._damaged(f"image {image} does not fit its checksum")
        return content[0], content[4], sorted(row[-1] for row in rows)

    def code_of(self, image: int) -> bytes | None:
        """Return the code of an image."""
        rows = self._intact(self._all(f"{_CODES} WHERE images.id = ?", image))
        return rows[0][1] if rows else None

    def codes_of(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the codes of the images that are known."""
        return dict(self._intact(self._all(_CODES_OF, json.dumps(list(ids)))))

    def content_of(self, image: int) -> Content | None:
        """Return the content of an image."""
        columns = f"images.id, sha256, n_bytes, width, height, code, look, {_INTACT}"
        rows = self._all(
            f"SELECT {columns} FROM images JOIN contents ON contents.id = content WHERE images.id = ?",  # noqa: S608
            image,
        )
        return Content(*self._intact(rows)[0][1:]) if rows else None

    def tiny_copies(self) -> list[tuple[int, bytes, bytes]]:
        """Return the id, the code and the tiny copy of every image, by id."""
        columns = f"images.id, code, look, {_INTACT}"
        rows = self._all(
            f"SELECT {columns} FROM images JOIN contents ON contents.id = content ORDER BY 1"  # noqa: S608
        )
        return self._intact(rows)

    def ids_labelled(self, label: str) -> Ids:
        """Return the ids of the images with a label."""
        ids = self._ids("SELECT image FROM labels WHERE label = ?", label)
        total = self._all("SELECT n_images, id_sum FROM label_totals WHERE label = ?", label) or [(0, 0)]
        if total[0] != (len(ids), int(ids.sum())):
            raise self._damaged(f"label {label!r} has lost images")
        return ids

    def ids_matching(self, where: Filter) -> Ids:
        """Return the ids of the images that a filter allows, ascending."""
        sets = [self._ids_with_word(word) for word in where.text.casefold().split()]
        labelled = [self.ids_labelled(label) for label in where.labels]
        sets += labelled if where.all_labels or not labelled else [functools.reduce(np.union1d, labelled)]
        return np.sort(functools.reduce(np.intersect1d, sets) if sets else self._ids("SELECT id FROM images"))

    def _ids_with_word(self, word: str) -> Ids:
        """Return the ids of the images with a word in their name, a value of their metadata, or a label."""
        if not self._words_intact:  # once: for each search it would take as long as the search itself
            for row in self._all(f"SELECT id FROM images WHERE NOT ({_IMAGE_INTACT})"):  # noqa: S608
                raise self._damaged(f"image {row[0]} does not fit its checksum")
            self._words_intact = True
        labels = json.dumps([label for label in self.label_counts() if word in label.casefold()])
        for row in self._all(_LOST_IMAGES, labels):
            raise self._damaged(f"label {row[0]!r} has lost images")
        labelled = self._ids("SELECT image FROM labels WHERE label IN (SELECT value FROM json_each(?))", labels)
        return np.union1d(self._ids(_WITH_WORD, word), labelled)

    def label_counts(self) -> dict[str, int]:
        """Return the number of images with each label, by label."""
        rows = self._all(f"SELECT label, n_images, {_TOTALS_INTACT} FROM label_totals ORDER BY label")  # noqa: S608
        for label, _, is_intact in rows:
            if not is_intact:
                raise self._damaged(f"the number of images with label {label!r} does not fit its checksum")
        return {label: n_images for label, n_images, _ in rows}

    def roots(self) -> list[Path]:
        """Return the folders that were added."""
        return [Path(row[0]) for row in self._all("SELECT path FROM roots ORDER BY path")]

    def put_content(self, content: Content) -> None:
        """Store new content."""
        self._all(
            "INSERT INTO contents (sha256, n_bytes, width, height, code, look) VALUES (?, ?, ?, ?, ?, ?)",
            content.sha256,
            content.n_bytes,
            content.width,
            content.height,
            content.code,
            content.tiny,
        )

    def add(self, path: Path, sha256: bytes, mtime_ns: int) -> int:
        """Add an image with stored content and return its id."""
        self._all(
            "INSERT INTO images (path, content, mtime_ns, metadata, generation)"
            " VALUES (?, (SELECT id FROM contents WHERE sha256 = ?), ?, '{}', ?)",
            self._stored(path),
            sha256,
            mtime_ns,
            self._next_generation(),
        )
        return int(self._one("SELECT last_insert_rowid()")[0])

    def restore(self, entry: Entry) -> None:
        """Add a removed image with stored content again, with its id, labels and metadata."""
        self._all("DELETE FROM removed WHERE id = ?", entry.id)
        self._all(
            "INSERT INTO images (id, path, content, mtime_ns, metadata, generation)"
            " VALUES (?, ?, (SELECT id FROM contents WHERE sha256 = ?), ?, ?, ?)",
            entry.id,
            self._stored(Path(entry.path)),
            bytes.fromhex(entry.sha256),
            entry.mtime_ns,
            json.dumps(dict(entry.metadata)),
            self._next_generation(),
        )
        self.set_labels(entry.id, entry.labels)

    def restore_all(self, entries: Sequence[Entry], contents: Mapping[int, Content]) -> None:
        """Add many images with their ids, labels and metadata, and their contents by id, with a few statements."""
        generation, inside = self._next_generation(), f"{self._folder}{os.sep}"
        self._many(
            "INSERT INTO contents (sha256, n_bytes, width, height, code, look) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (sha256) DO NOTHING",
            (
                (each.sha256, each.n_bytes, each.width, each.height, each.code, each.tiny)
                for each in (contents[entry.id] for entry in entries)
            ),
        )
        self._many("DELETE FROM removed WHERE id = ?", ((entry.id,) for entry in entries))
        self._many(
            "INSERT INTO images (id, path, content, mtime_ns, metadata, generation)"
            " VALUES (?, ?, (SELECT id FROM contents WHERE sha256 = ?), ?, ?, ?)",
            (
                (
                    entry.id,
                    str(Path(entry.path)).removeprefix(inside),
                    bytes.fromhex(entry.sha256),
                    entry.mtime_ns,
                    json.dumps(dict(entry.metadata)),
                    generation,
                )
                for entry in entries
            ),
        )
        self._many(
            "INSERT INTO labels VALUES (?, ?)", ((entry.id, label) for entry in entries for label in set(entry.labels))
        )

    def recode(self, codes: Mapping[bytes, bytes], fingerprint: str) -> None:
        """Replace all codes by those of another model, by the checksum of the content.

        Raises
        ------
        KeyError
            If the code of an image is missing.
        """
        self.drop_unused_contents()
        for number, sha256 in self._all("SELECT id, sha256 FROM contents"):
            self._all("UPDATE contents SET code = ? WHERE id = ?", codes[sha256], number)
        self._all("UPDATE facts SET value = ? WHERE name = 'fingerprint'", fingerprint)
        # No earlier state can be followed from here: index files and readers start anew.
        generation = self._next_generation()
        self._all("UPDATE images SET generation = ?", generation)
        self._all("DELETE FROM removed")
        self._all("DELETE FROM commits WHERE generation < ?", generation - 1)
        self._all("UPDATE commits SET token = ?", secrets.token_hex(8))

    def replace(self, image: int, sha256: bytes, mtime_ns: int) -> None:
        """Set the content of an image; the old content stays until :meth:`drop_unused_contents`."""
        self._replaced = True
        self._all(
            "UPDATE images SET content = (SELECT id FROM contents WHERE sha256 = ?), mtime_ns = ?, generation = ?"
            " WHERE id = ?",
            sha256,
            mtime_ns,
            self._next_generation(),
            image,
        )

    def move(self, image: int, path: Path, mtime_ns: int) -> None:
        """Set the path and the modification time of an image."""
        self._all("UPDATE images SET path = ?, mtime_ns = ? WHERE id = ?", self._stored(path), mtime_ns, image)

    def labels_of(self, image: int) -> tuple[str, ...] | None:
        """Return the labels of an image; None if the id is unknown."""
        if not self._all("SELECT 1 FROM images WHERE id = ?", image):
            return None
        return self._labels_of([image]).get(image, ())

    def set_labels(self, image: int, labels: Sequence[str]) -> None:
        """Replace the labels of an image."""
        wanted, found = set(labels), set(self._labels_of([image]).get(image, ()))
        for label in found - wanted:
            self._all("DELETE FROM labels WHERE image = ? AND label = ?", image, label)
        for label in wanted - found:
            self._all("INSERT INTO labels VALUES (?, ?)", image, label)

    def set_metadata(self, image: int, metadata: str) -> None:
        """Replace the metadata of an image, given as JSON."""
        self._all("UPDATE images SET metadata = ? WHERE id = ? AND metadata <> ?", metadata, image, metadata)

    def add_root(self, folder: Path) -> None:
        """Record a folder whose images were added."""
        with suppress(UnicodeEncodeError):  # files below a path that is not valid text cannot be added
            self._all("INSERT OR IGNORE INTO roots VALUES (?)", str(folder))

    def remove(self, ids: Iterable[int]) -> None:
        """Remove images."""
        chosen = json.dumps(list(ids))
        rows = self._all("SELECT DISTINCT content FROM images WHERE id IN (SELECT value FROM json_each(?))", chosen)
        self._all(
            "INSERT INTO removed SELECT id, ? FROM images WHERE id IN (SELECT value FROM json_each(?))",
            self._next_generation(),
            chosen,
        )
        self._all("DELETE FROM images WHERE id IN (SELECT value FROM json_each(?))", chosen)
        self._all(  # of these images only: looking at all contents takes most of the time of a removal
            "DELETE FROM contents WHERE id IN (SELECT value FROM json_each(?))"
            " AND NOT EXISTS (SELECT 1 FROM images WHERE content = contents.id)",
            json.dumps([row[0] for row in rows]),
        )

    def drop_unused_contents(self) -> None:
        """Remove contents that no image has."""
        self._all("DELETE FROM contents WHERE id NOT IN (SELECT content FROM images)")

    def forget_before(self, state: State) -> None:
        """Forget the states before one; changes since an older state can no longer be listed."""
        with self._atomic():
            self._all("DELETE FROM commits WHERE generation < ?", state.generation)
            self._all("DELETE FROM removed WHERE generation <= ?", state.generation)

    def _codes(self, sql: str, *values: object) -> Changes:
        ids, codes = array("q"), bytearray()
        for rows in self._batches(sql, *values):  # all rows as tuples would take ten times the memory of the codes
            for number, code in self._intact(rows):
                ids.append(number)
                codes += code
        packed = np.frombuffer(bytes(codes), np.uint8)
        return Changes(np.empty(0, np.int64), np.array(ids, np.int64), packed.reshape(len(ids), -1 if len(ids) else 0))

    def _ids(self, sql: str, *values: object) -> Ids:
        return np.array(self._all(sql, *values), np.int64).reshape(-1)

    def problems(self) -> list[str]:
        """Return what is wrong with the database, after reading all of it."""
        found = [f"{self._path}: {row[0]}" for row in self._all("PRAGMA integrity_check") if row[0] != "ok"]
        found += [
            f"{self._path}: a row of {row[0]} has lost its image or content"
            for row in self._all("PRAGMA foreign_key_check")
        ]
        for table, intact in (("images", _IMAGE_INTACT), ("contents", _CONTENT_INTACT)):
            rows = self._all(f"SELECT id FROM {table} WHERE NOT ({intact})")  # noqa: S608
            found += [f"{self._path}: row {row[0]} of {table} does not fit its checksum" for row in rows]
        rows = self._all(
            "SELECT id FROM images LEFT JOIN (SELECT image, sum(checksum(label)) AS found FROM labels GROUP BY image)"
            " ON image = id WHERE label_sum <> coalesce(found, 0)"
        )
        found += [f"{self._path}: the labels of image {row[0]} do not fit their checksum" for row in rows]
        rows = self._all(
            "SELECT label FROM (SELECT label, n_images, id_sum FROM label_totals UNION ALL"
            " SELECT label, -count(*), -sum(image) FROM labels GROUP BY label)"
            " GROUP BY label HAVING sum(n_images) <> 0 OR sum(id_sum) <> 0"
        )
        rows += self._all(f"SELECT label FROM label_totals WHERE NOT ({_TOTALS_INTACT})")  # noqa: S608
        return found + [f"{self._path}: the images with label {row[0]!r} do not fit their total" for row in rows]

    def _add_checksums(self) -> None:
        """Upgrade a catalogue of version 1, which had no checksums, or 2, which had none of labels."""
        with self._atomic():
            version = self._one("PRAGMA user_version")[0]
            if version == FORMAT_VERSION:  # another process was faster
                return
            _LOG.warning("%s gets checksums, once; earlier versions of ddsh cannot open it any more.", self._path)
            triggers = _LABEL_TRIGGERS
            if version == 1:
                triggers += _TRIGGERS
                for table, value in (("contents", _CONTENT_SUM), ("images", _IMAGE_SUM)):
                    self._all(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
                    self._all(f"UPDATE {table} SET checksum = {value}")  # noqa: S608
            self._all("ALTER TABLE images ADD COLUMN label_sum INTEGER NOT NULL DEFAULT 0")
            self._all(
                "UPDATE images SET label_sum = (SELECT sum(checksum(label)) FROM labels WHERE image = images.id)"
                " WHERE id IN (SELECT image FROM labels)"
            )
            self._all(_LABEL_TOTALS)
            self._all(
                "INSERT INTO label_totals SELECT label, count(*), sum(image), checksum(label, count(*), sum(image))"
                " FROM labels GROUP BY label"
            )
            for trigger in triggers.split("END;")[:-1]:
                self._all(f"{trigger} END")
            self._all(f"PRAGMA user_version = {FORMAT_VERSION}")

    def _intact(self, rows: list[Any]) -> list[Any]:
        """Return rows without their last column, which says whether they fit their checksums."""
        for row in rows:
            if not row[-1]:
                raise self._damaged(f"image {row[0]} does not fit its checksum")
        return [row[:-1] for row in rows]

    def _damaged(self, what: str) -> ArtefactError:
        return ArtefactError(f"{self._path} is damaged ({what}); see: ddsh index verify")

    def _labels_of(self, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return the labels of the images that have some, after comparing their checksums."""
        rows = self._all(
            "SELECT id, label, label_sum FROM images LEFT JOIN labels ON image = id"
            " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id, label",
            json.dumps(list(ids)),
        )
        labels: dict[int, list[str]] = {}
        sums: dict[int, int] = {}
        for image, label, label_sum in rows:
            sums[image] = sums.get(image, label_sum)
            if label is not None:
                labels.setdefault(image, []).append(label)
                sums[image] -= _checksum(label)
        for image, rest in sums.items():
            if rest:
                raise self._damaged(f"the labels of image {image} do not fit their checksum")
        return {image: tuple(names) for image, names in labels.items()}

    def _files(self, sql: str, *values: object) -> list[StoredFile]:
        return [StoredFile(number, self._folder / path, *rest) for number, path, *rest in self._all(sql, *values)]

    def _stored(self, path: Path) -> str:
        return str(path.relative_to(self._folder) if path.is_relative_to(self._folder) else path)

    def _next_generation(self) -> int:
        return self.state().generation + 1

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        self._all("BEGIN IMMEDIATE")
        try:
            yield
            self._all("COMMIT")
        except BaseException:
            with suppress(ArtefactError):
                self._all("ROLLBACK")
            raise

    def _one(self, sql: str, *values: object) -> Any:  # noqa: ANN401 -- a row of anything
        return self._all(sql, *values)[0]

    def _all(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._named(error) from error

    def _batches(self, sql: str, *values: object) -> Iterator[list[Any]]:
        try:
            cursor = self._connection.execute(sql, values)
            while rows := cursor.fetchmany(_BATCH):
                yield rows
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._named(error) from error

    def _many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.Error as error:
            raise self._named(error) from error

    def _named(self, error: sqlite3.Error | UnicodeDecodeError) -> ArtefactError:
        """Return an error of the database as one line that names the file and says what to do."""
        if isinstance(error, UnicodeDecodeError):
            return ArtefactError(f"{self._path} is damaged ({error.reason}); {_ADVICE[sqlite3.SQLITE_CORRUPT]}")
        code = getattr(error, "sqlite_errorcode", None)
        advice = _ADVICE.get(code & 0xFF, _COMPLETE) if code else _COMPLETE
        return ArtefactError(f"{self._path} cannot be used ({error}); {advice}")


_COMPLETE = "is the folder complete?"
_ADVICE = {
    sqlite3.SQLITE_FULL: "free some space.",
    sqlite3.SQLITE_IOERR: "check the disk and its free space.",
    sqlite3.SQLITE_PERM: "check the permissions of the folder.",
    sqlite3.SQLITE_READONLY: "the folder must be writable.",
    sqlite3.SQLITE_CANTOPEN: "check that the folder is complete and writable, and the free space.",
    sqlite3.SQLITE_CORRUPT: "restore a backup, or make the index again.",
    sqlite3.SQLITE_NOTADB: "restore a backup, or make the index again.",
}


def _register(connection: sqlite3.Connection) -> None:
    """Register the function that triggers and queries call."""
    connection.create_function("checksum", -1, _checksum, deterministic=True)


def _checksum(*values: object) -> int:
    return zlib.crc32(b"\0".join([value if isinstance(value, bytes) else str(value).encode() for value in values]))


def _image_sum(number: int, path: str, content: int, mtime_ns: int, metadata: str) -> int:
    """Return the checksum of a row of images; the same as :func:`_checksum`, in half of the time."""
    return zlib.crc32(f"{number}\0{path}\0{content}\0{mtime_ns}\0{metadata}".encode())


def _content_sum(sha256: bytes, n_bytes: int, width: int, height: int, code: bytes, look: bytes) -> int | None:
    """Return the checksum of a row of contents, None if a value has another type."""
    try:
        return zlib.crc32(b"".join((sha256, f"\0{n_bytes}\0{width}\0{height}\0".encode(), code, b"\0", look)))
    except TypeError:
        return None


@functools.lru_cache(10_000)
def _label_sum(label: str) -> int:
    return _checksum(label)


def _shown(metadata: str, image: int) -> Any:  # noqa: ANN401 -- JSON of the user
    """Return metadata; what earlier versions accepted and JSON cannot express is left out."""
    if metadata == "{}":
        return {}
    try:
        content = json.loads(metadata)
        check_metadata(content)
    except (ValueError, RecursionError) as error:  # InvalidInput is a ValueError
        _LOG.warning("The metadata of image %d is left out: %s", image, error)
        return {}
    return content


def _has_word(text: object, word: str) -> bool:
    """Return whether a text contains a word that is casefolded already."""
    return text is not None and word in str(text).casefold()


def _name_has_word(path: str, word: str) -> bool:
    """Return whether the last part of a path contains a word; called once for every image, so without pathlib."""
    return word in path[path.rfind(os.sep) + 1 :].casefold()
