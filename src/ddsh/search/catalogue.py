"""The catalogue: which images there are, where they lie, and their codes, in one SQLite database.

The database is the only truth. An image's row and its code are written in one transaction, so that there is never one
without the other, whenever the process ends; the files of an index are made from it (:mod:`ddsh.search.live`). Every
transaction has a generation and a random token: whoever knows the state of an earlier one asks only for what changed
since then, and a state of another history, such as one of a backup, is recognised as such.
"""

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError

FORMAT_VERSION = 1
_APPLICATION = 0x64647368  # "ddsh"
_PATIENCE_SECONDS = 60.0

Ids: TypeAlias = NDArray[np.int64]
Packed: TypeAlias = NDArray[np.uint8]

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
    outputs BLOB
);
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    content INTEGER NOT NULL REFERENCES contents (id),
    mtime_ns INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    generation INTEGER NOT NULL
);
CREATE INDEX images_by_content ON images (content);
CREATE INDEX images_by_generation ON images (generation);
CREATE TABLE labels (
    image INTEGER NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    PRIMARY KEY (image, label)
) WITHOUT ROWID;
CREATE INDEX labels_by_label ON labels (label, image);
CREATE TABLE removed (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
CREATE TABLE roots (path TEXT PRIMARY KEY) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class State:
    """One state of a catalogue.

    Parameters
    ----------
    generation : int
        How many transactions led to it.
    token : str
        Random; no other state has it.
    """

    generation: int
    token: str


@dataclass(frozen=True)
class Entry:
    """What is known of one image.

    Parameters
    ----------
    id : int
        Its number; never given to another image, even after it was removed.
    path : str
        Its file.
    sha256 : str
        Checksum of the file's content.
    n_bytes, width, height : int
        Size of the file, and of the upright image in pixels.
    mtime_ns : int
        When the file was last changed, in nanoseconds since 1970.
    labels : tuple of str
        Its labels.
    metadata : dict
        Whatever the user keeps with it.
    """

    id: int
    path: str
    sha256: str
    n_bytes: int
    width: int
    height: int
    mtime_ns: int
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What to call it: its file's name, or its number where the index named the file by its checksum."""
        file = PurePath(self.path)
        return f"image {self.id}" if file.stem == self.sha256 else file.name


@dataclass(frozen=True)
class Content:
    """What an image file holds, and what the model makes of it.

    Parameters
    ----------
    sha256 : bytes
        Checksum of the file.
    n_bytes, width, height : int
        Size of the file, and of the image.
    code : bytes
        The packed code.
    look : bytes
        A tiny copy of the image; see :mod:`ddsh.search.looks`.
    outputs : bytes or None
        The real outputs as float16, where they are kept.
    """

    sha256: bytes
    n_bytes: int
    width: int
    height: int
    code: bytes
    look: bytes
    outputs: bytes | None = None


@dataclass(frozen=True)
class FileRow:
    """What the catalogue says of a file."""

    id: int
    path: Path
    sha256: bytes
    n_bytes: int
    mtime_ns: int


@dataclass(frozen=True, eq=False)
class Changes:
    """What differs between two states: ids that are gone or have another code, and ids with their codes now."""

    gone: Ids
    ids: Ids
    packed: Packed


class Catalogue:
    """An open catalogue; one thread at a time may use it, any number may be open.

    Parameters
    ----------
    path : path
        The database. Files that lie beside it are kept by relative paths, so that all can be moved together.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.absolute().parent
        with self._problems():
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=_PATIENCE_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, fingerprint: str) -> None:
        """Make an empty catalogue of codes that one model makes."""
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            # Readers see the last state while a writer prepares the next one.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            connection.execute("INSERT INTO facts VALUES ('fingerprint', ?)", (fingerprint,))
            connection.execute("INSERT INTO commits VALUES (0, ?)", (secrets.token_hex(8),))
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

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one state, whatever others write meanwhile."""
        self._all("BEGIN")
        try:
            yield
        finally:
            self._all("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make all changes of the block one new state, or none of them."""
        with self._transaction():
            before = self._connection.total_changes
            yield
            if self._connection.total_changes > before:
                self._all("INSERT INTO commits VALUES (?, ?)", self._next_generation(), secrets.token_hex(8))

    def fingerprint(self) -> str:
        """Return the fingerprint of the model whose codes these are."""
        return str(self._one("SELECT value FROM facts WHERE name = 'fingerprint'")[0])

    def state(self) -> State:
        """Return the newest state."""
        return State(*self._one("SELECT generation, token FROM commits ORDER BY generation DESC LIMIT 1"))

    def has_state(self, state: State) -> bool:
        """Return whether a state is one of this catalogue's, and not so old that it was forgotten."""
        found = self._all("SELECT 1 FROM commits WHERE generation = ? AND token = ?", state.generation, state.token)
        return bool(found)

    def count(self) -> int:
        """Return how many images there are."""
        return int(self._one("SELECT count(*) FROM images")[0])

    def count_contents(self) -> tuple[int, int]:
        """Return how many different images and how many different codes there are."""
        sql = "SELECT count(*), count(DISTINCT code) FROM contents WHERE id IN (SELECT content FROM images)"
        n_contents, n_codes = self._one(sql)
        return int(n_contents), int(n_codes)

    def codes(self) -> Changes:
        """Return all ids and codes."""
        return self._coded(
            "SELECT images.id, code FROM images JOIN contents ON contents.id = content ORDER BY images.id"
        )

    def changes(self, since: State) -> Changes:
        """Return what changed since an earlier state."""
        gone = self._all("SELECT id FROM removed WHERE generation > ?", since.generation)
        now = self._coded(
            "SELECT images.id, code FROM images JOIN contents ON contents.id = content WHERE generation > ? ORDER BY 1",
            since.generation,
        )
        return Changes(np.union1d(np.array(gone, np.int64).reshape(-1), now.ids), now.ids, now.packed)

    def count_changes(self, since: State) -> int:
        """Return how many images changed since an earlier state."""
        return sum(
            int(self._one(f"SELECT count(*) FROM {table} WHERE generation > ?", since.generation)[0])  # noqa: S608
            for table in ("images", "removed")
        )

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return what is known of images, in the order of the ids; ids that are not there are passed over."""
        wanted = [int(number) for number in ids]
        labels = self._labels_of(wanted)
        rows = self._all(
            "SELECT images.id, path, sha256, n_bytes, width, height, mtime_ns, metadata FROM images"
            " JOIN contents ON contents.id = content WHERE images.id IN (SELECT value FROM json_each(?))",
            json.dumps(wanted),
        )
        found = {row[0]: self._entry(row, labels.get(row[0], ())) for row in rows}
        return [found[number] for number in wanted if number in found]

    def ids(self, after: int, limit: int) -> list[int]:
        """Return the next ids after one, ascending."""
        rows = self._all("SELECT id FROM images WHERE id > ? ORDER BY id LIMIT ?", after, limit)
        return [row[0] for row in rows]

    def files(self) -> list[FileRow]:
        """Return all files."""
        return [self._file(row) for row in self._all(f"{_FILES} ORDER BY images.id")]

    def file_at(self, path: Path) -> FileRow | None:
        """Return what is known of the file at a path."""
        with suppress(UnicodeEncodeError):  # no image has a path that is no text
            rows = self._all(f"{_FILES} WHERE path = ?", self._stored(path))
            return self._file(rows[0]) if rows else None
        return None

    def files_with(self, content: int) -> list[FileRow]:
        """Return the files that hold some content."""
        return [self._file(row) for row in self._all(f"{_FILES} WHERE content = ? ORDER BY images.id", content)]

    def find_content(self, sha256: bytes) -> int | None:
        """Return the number of a content, if it is known."""
        rows = self._all("SELECT id FROM contents WHERE sha256 = ?", sha256)
        return int(rows[0][0]) if rows else None

    def code_of(self, image: int) -> tuple[bytes, bytes | None] | None:
        """Return the code and, if they are kept, the outputs of an image."""
        rows = self._all(
            "SELECT code, outputs FROM images JOIN contents ON contents.id = content WHERE images.id = ?", image
        )
        return rows[0] if rows else None

    def outputs(self, ids: Ids) -> dict[int, bytes]:
        """Return the kept outputs of images by id."""
        rows = self._all(
            "SELECT images.id, outputs FROM images JOIN contents ON contents.id = content"
            " WHERE outputs IS NOT NULL AND images.id IN (SELECT value FROM json_each(?))",
            json.dumps(ids.tolist()),
        )
        return dict(rows)

    def looks(self) -> list[tuple[int, bytes, bytes]]:
        """Return id, code and look of every image."""
        return self._all("SELECT images.id, code, look FROM images JOIN contents ON contents.id = content ORDER BY 1")

    def ids_labelled(self, label: str) -> Ids:
        """Return the ids of the images that carry a label."""
        return np.array(self._all("SELECT image FROM labels WHERE label = ?", label), np.int64).reshape(-1)

    def label_counts(self) -> dict[str, int]:
        """Return how many images carry each label."""
        return dict(self._all("SELECT label, count(*) FROM labels GROUP BY label ORDER BY label"))

    def roots(self) -> list[Path]:
        """Return the folders that were added."""
        return [Path(row[0]) for row in self._all("SELECT path FROM roots ORDER BY path")]

    def put_content(self, content: Content) -> int:
        """Add a content, and return its number."""
        values = (content.sha256, content.n_bytes, content.width, content.height)
        values += (content.code, content.look, content.outputs)  # type: ignore[assignment]
        return self._insert(
            "INSERT INTO contents (sha256, n_bytes, width, height, code, look, outputs) VALUES (?, ?, ?, ?, ?, ?, ?)",
            *values,
        )

    def put_image(self, path: Path, content: int, mtime_ns: int) -> int:
        """Add an image, and return its id."""
        return self._insert(
            "INSERT INTO images (path, content, mtime_ns, metadata, generation) VALUES (?, ?, ?, '{}', ?)",
            self._stored(path),
            content,
            mtime_ns,
            self._next_generation(),
        )

    def replace(self, image: int, content: int, mtime_ns: int) -> None:
        """Give an image another content; the one it had is not dropped."""
        values = (content, mtime_ns, self._next_generation(), image)
        self._all("UPDATE images SET content = ?, mtime_ns = ?, generation = ? WHERE id = ?", *values)

    def move(self, image: int, path: Path, mtime_ns: int) -> None:
        """Say where the file of an image lies now, and when it was last changed."""
        self._all("UPDATE images SET path = ?, mtime_ns = ? WHERE id = ?", self._stored(path), mtime_ns, image)

    def set_labels(self, image: int, labels: Sequence[str]) -> None:
        """Give an image these labels and no others."""
        if self._labels_of([image]).get(image, ()) == tuple(sorted(set(labels))):
            return
        self._all("DELETE FROM labels WHERE image = ?", image)
        for label in set(labels):
            self._all("INSERT INTO labels VALUES (?, ?)", image, label)

    def set_metadata(self, image: int, metadata: str) -> None:
        """Keep JSON with an image."""
        self._all("UPDATE images SET metadata = ? WHERE id = ? AND metadata <> ?", metadata, image, metadata)

    def add_root(self, folder: Path) -> None:
        """Remember a folder that was added."""
        with suppress(UnicodeEncodeError):  # files below a path that is no text cannot be added
            self._all("INSERT OR IGNORE INTO roots VALUES (?)", str(folder))

    def remove(self, ids: Sequence[int]) -> None:
        """Remove images."""
        chosen = json.dumps(list(ids))
        self._all(
            "INSERT INTO removed SELECT id, ? FROM images WHERE id IN (SELECT value FROM json_each(?))",
            self._next_generation(),
            chosen,
        )
        self._all("DELETE FROM images WHERE id IN (SELECT value FROM json_each(?))", chosen)
        self.drop_unused_contents()

    def drop_unused_contents(self) -> None:
        """Remove contents that no image has any more."""
        self._all("DELETE FROM contents WHERE id NOT IN (SELECT content FROM images)")

    def forget_before(self, state: State) -> None:
        """Forget the states before one: nobody who knows an older one can ask for changes any more."""
        with self._transaction():
            self._all("DELETE FROM commits WHERE generation < ?", state.generation)
            self._all("DELETE FROM removed WHERE generation <= ?", state.generation)

    def _coded(self, sql: str, *values: object) -> Changes:
        rows = self._all(sql, *values)
        ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        packed = np.frombuffer(b"".join(row[1] for row in rows), np.uint8)
        return Changes(np.empty(0, np.int64), ids, packed.reshape(len(rows), -1) if rows else packed.reshape(0, 0))

    def _labels_of(self, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        rows = self._all(
            "SELECT image, label FROM labels WHERE image IN (SELECT value FROM json_each(?)) ORDER BY image, label",
            json.dumps(list(ids)),
        )
        labels: dict[int, tuple[str, ...]] = {}
        for image, label in rows:
            labels[image] = (*labels.get(image, ()), label)
        return labels

    def _entry(self, row: Sequence[Any], labels: tuple[str, ...]) -> Entry:
        number, path, sha256, n_bytes, width, height, mtime_ns, metadata = row
        place = str(self._folder / path)
        return Entry(number, place, sha256.hex(), n_bytes, width, height, mtime_ns, labels, json.loads(metadata))

    def _file(self, row: Sequence[Any]) -> FileRow:
        number, path, sha256, n_bytes, mtime_ns = row
        return FileRow(number, self._folder / path, sha256, n_bytes, mtime_ns)

    def _stored(self, path: Path) -> str:
        return str(path.relative_to(self._folder) if path.is_relative_to(self._folder) else path)

    def _next_generation(self) -> int:
        return self.state().generation + 1

    def _check(self) -> None:
        """Refuse a file that is no catalogue, or one of another version."""
        application, version = self._one("PRAGMA application_id")[0], self._one("PRAGMA user_version")[0]
        if application != _APPLICATION:
            raise ArtefactError(f"{self._path} is not a catalogue of ddsh.")
        if version != FORMAT_VERSION:
            raise ArtefactError(f"{self._path} has version {version}; this ddsh reads version {FORMAT_VERSION}.")
        self._all("PRAGMA foreign_keys = ON")
        self._all("PRAGMA synchronous = FULL")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._all("BEGIN IMMEDIATE")
        try:
            yield
            self._all("COMMIT")
        except BaseException:
            with suppress(ArtefactError):
                self._all("ROLLBACK")
            raise

    def _insert(self, sql: str, *values: object) -> int:
        with self._problems():
            number = self._connection.execute(sql, values).lastrowid
        assert number is not None, "an INSERT has a row"
        return number

    def _one(self, sql: str, *values: object) -> Any:  # noqa: ANN401 -- a row of anything
        return self._all(sql, *values)[0]

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._problems():
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _problems(self) -> Iterator[None]:
        """Turn an error of the database into one line that names it."""
        try:
            yield
        except sqlite3.Error as error:
            raise ArtefactError(f"{self._path} cannot be used ({error}); is the folder whole?") from error


_FILES = "SELECT images.id, path, sha256, n_bytes, mtime_ns FROM images JOIN contents ON contents.id = content"
