"""Store in Milvus: a cluster, or a file of Milvus Lite.

Milvus orders by one vector at a time, so an image has three: its label bits, its look bits, and a vector whose Hamming
distance is the weighted sum of both. Each gives candidates that are sure to contain the nearest entries, and these are
ordered exactly as in every other store. Where that takes more candidates than Milvus returns, all codes are read.

Milvus has no transactions and no locks. Changes are collected and sent together, but an interruption may leave a part
of them; the rest is added by adding the same images again. Writers on one machine wait for each other; let only one
machine write. Milvus Lite 3 has no binary vectors, and so version 2.5.1 is needed for files.
"""

import base64
import hashlib
import importlib
import json
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, InvalidInput, MissingExtra, Unavailable, UnknownName
from ddsh.index import ExactIndex
from ddsh.index.pairs import By, PairDistance, PairIndex, check_by
from ddsh.search.local import LocalStagedCodes
from ddsh.search.remote import IMAGES, RemoteStore, model_files, searchable_text
from ddsh.search.store import (
    AUTO,
    Content,
    Entry,
    Filter,
    Ids,
    Neighbours,
    SearchManifest,
    StagedCodes,
    StoredFile,
    StoreWriter,
)
from ddsh.storage import atomic_write, locked

try:
    import grpc
    from pymilvus import DataType, MilvusClient, MilvusException
except ImportError as error:
    raise MissingExtra("A store in Milvus", "pymilvus", "milvus") from error

__all__ = ["SCHEMA_VERSION", "MilvusStore", "MilvusWriter"]

SCHEMA_VERSION = 1
_KINDS = {AUTO: "BIN_FLAT", "exact": "BIN_FLAT", "ivf": "BIN_IVF_FLAT"}
_STATE, _FILES = "ddsh_state", "ddsh_files"
_CONNECT_SECONDS, _ANSWER_SECONDS, _STATE_SECONDS = 10.0, 60.0, 2.0
_MAX_FOUND = 16_384  # the most that Milvus returns
_BATCH = 1000
_CHUNK = 48_000  # bytes of a file in one row: a field has 65,535 characters at most, base64 needs 4 for 3 bytes
_MAX_TEXT = 65_535
_FILE_NAME = re.compile(r"[a-zA-Z0-9._-]{1,35}")
_SEPARATOR = "\x1f"  # not printable, and so never part of a label
_FIELDS = ("id", "path", "sha256", "n_bytes", "width", "height", "mtime_ns", "labels", "metadata")

_Row = dict[str, Any]


class _Connections:
    """Clients by address; the server of a file runs until its last client is closed.

    A file has a lock of ours, because a second server of Milvus Lite removes the lock of the first one, and then
    neither sees what the other one writes.
    """

    _counts: ClassVar[Counter[str]] = Counter()
    _file_locks: ClassVar[dict[str, ExitStack]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def open(cls, address: str) -> tuple[MilvusClient, str, str | None]:
        """Return a client, the address without a password, and the path of the file if it is one."""
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs what it raises
        place = address.removeprefix("milvus://")
        if place.endswith(".db"):
            path = str(Path(place).absolute())
            if not Path(path).parent.is_dir():
                raise ArtefactError(f"{path} cannot be opened; its folder does not exist.")
            if not _FILE_NAME.fullmatch(Path(path).name):
                raise InvalidInput(
                    f"{Path(path).name} cannot be a file of Milvus Lite; use at most 35 letters, digits and . - _"
                )
            _import_milvus_lite()
            with cls._lock, ExitStack() as stack, _named_errors(f"milvus://{path}"):
                if not cls._counts[path]:
                    busy = f"milvus://{path} is open in another process; a file of Milvus Lite can be open in one only."
                    stack.enter_context(locked(f"{path}.lock", wait=_CONNECT_SECONDS, busy=busy))
                client = _connect_to_file(path)
                cls._file_locks.setdefault(path, stack.pop_all())
                cls._counts[path] += 1
            return client, f"milvus://{path}", path
        parts = urlsplit(address)
        if not parts.hostname:
            raise InvalidInput("The address of Milvus cannot be read; write milvus://host:port or milvus://file.db.")
        shown = f"milvus://{parts.hostname}:{parts.port or 19530}{parts.path}"
        token = os.environ.get("MILVUS_TOKEN", "")
        if parts.username and not token:
            token = f"{parts.username}:{parts.password or ''}"
        with _named_errors(shown):
            client = MilvusClient(
                f"http://{parts.hostname}:{parts.port or 19530}",
                token=token,
                db_name=parts.path.strip("/"),
                timeout=_CONNECT_SECONDS,
            )
        return client, shown, None

    @classmethod
    def close(cls, client: MilvusClient, path: str | None) -> None:
        """Close a client, and stop the server of a file if it was the last one."""
        client.close()
        if path is not None:
            from milvus_lite.server_manager import server_manager_instance

            with cls._lock:
                cls._counts[path] -= 1
                if not cls._counts[path]:
                    server_manager_instance.release_server(path)
                    cls._file_locks.pop(path).close()


class MilvusWriter(StoreWriter):
    """Write access to a :class:`MilvusStore`; a transaction is collected here and sent at its end."""

    def __init__(self, store: "MilvusStore") -> None:
        self._store = store
        self._contents: dict[bytes, Content] = {}  # without a file yet, or of a file that was replaced
        self._begin()

    def _begin(self) -> None:
        self._changed: dict[int, _Row] = {}
        self._removed: dict[int, _Row] = {}
        self._staged: LocalStagedCodes | None = None
        self._dropped: list[Path] = []
        self._state = self._store.state()
        self._before = json.dumps(self._state)

    @property
    def folder(self) -> Path:
        """Folder for local copies."""
        return self._store.folder

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Send all changes at the end of the block, or none if it fails."""
        self._begin()
        try:
            yield
            if self._changed or self._removed or json.dumps(self._state) != self._before:
                self._state["generation"] += 1
                self._store.apply(self._state, self._changed, list(self._removed), self._staged)
                for path in self._dropped:
                    path.unlink(missing_ok=True)
                self._store.remove_images([path.name for path in self._dropped])
        finally:
            self._begin()

    def files(self) -> list[StoredFile]:
        """Return all files, by id."""
        rows = {row["id"]: row for row in self._store.rows("", _FIELDS)} | self._changed
        return self._store.to_files([rows[number] for number in sorted(rows) if number not in self._removed])

    def file_at(self, path: Path) -> StoredFile | None:
        """Return the file with an absolute path, if it is indexed."""
        return next(iter(self._store.to_files(self._find("path_key", _key(self._store.stored(path))))), None)

    def files_with(self, sha256: bytes) -> list[StoredFile]:
        """Return the files with some content, by id."""
        return self._store.to_files(self._find("sha256", sha256.hex()))

    def has_content(self, sha256: bytes) -> bool:
        """Return whether the code of some content is stored."""
        return sha256 in self._contents or bool(self._find("sha256", sha256.hex()))

    def put_content(self, content: Content) -> None:
        """Keep content until an entry needs it."""
        self._contents[content.sha256] = content

    def add(self, path: Path, sha256: bytes, mtime_ns: int) -> int:
        """Add an entry for a file with stored content and return its id."""
        number = int(self._state["next_id"])
        self._put(number, self._store.stored(path), self._content(sha256), mtime_ns, (), "{}")
        return number

    def content_of(self, image: int) -> Content | None:
        """Return the content of an entry."""
        row = self._get(image)
        return None if row is None else _to_content(row)

    def restore(self, entry: Entry) -> None:
        """Add a removed entry with stored content again, with its id, labels and metadata."""
        content = self._content(bytes.fromhex(entry.sha256))
        stored, metadata = self._store.stored(Path(entry.path)), json.dumps(dict(entry.metadata))
        self._put(entry.id, stored, content, entry.mtime_ns, entry.labels, metadata)

    def restore_all(self, entries: Sequence[Entry], contents: Mapping[int, Content]) -> None:
        """Add many entries without looking anything up."""
        for entry in entries:
            stored, metadata = self._store.stored(Path(entry.path)), json.dumps(dict(entry.metadata))
            self._put(entry.id, stored, contents[entry.id], entry.mtime_ns, entry.labels, metadata)

    def replace(self, image: int, sha256: bytes, mtime_ns: int) -> None:
        """Set the content of an entry; others may get the old content before the writer is closed."""
        row = self._row(image)
        old = _to_content(row)
        self._contents[old.sha256] = old
        self._put(image, row["path"], self._content(sha256), mtime_ns, _labels(row), row["metadata"])

    def move(self, image: int, path: Path, mtime_ns: int) -> None:
        """Set the path and the modification time of an entry."""
        row, stored = self._row(image), self._store.stored(path)
        if (row["path"], row["mtime_ns"]) != (stored, mtime_ns):
            self._put(image, stored, _to_content(row), mtime_ns, _labels(row), row["metadata"])

    def labels_of(self, image: int) -> tuple[str, ...] | None:
        """Return the labels of an entry; None if the id is unknown."""
        row = self._get(image)
        return None if row is None else _labels(row)

    def set_labels(self, image: int, labels: Sequence[str]) -> None:
        """Replace the labels of an entry."""
        row = self._row(image)
        if _labels(row) != tuple(sorted(set(labels))):
            self._put(image, row["path"], _to_content(row), row["mtime_ns"], labels, row["metadata"])

    def set_metadata(self, image: int, metadata: str) -> None:
        """Replace the metadata of an entry, given as JSON."""
        row = self._row(image)
        if row["metadata"] != metadata:
            self._put(image, row["path"], _to_content(row), row["mtime_ns"], _labels(row), metadata)

    def remove(self, ids: Iterable[int], *, keep_images: bool = False) -> None:
        """Remove entries and, by default, the images that were kept for them."""
        chosen = sorted(set(ids))
        rows = {number: self._get(number) for number in chosen}
        unknown = [number for number, row in rows.items() if row is None]
        if unknown:
            raise InvalidInput(f"{len(unknown)} of {len(chosen)} ids are not in the index, such as {unknown[0]}.")
        for number, row in rows.items():
            assert row is not None, "unknown ids were refused"
            self._changed.pop(number, None)
            self._removed[number] = row
            if not keep_images and not Path(row["path"]).is_absolute():
                self._dropped.append(self.folder / row["path"])

    def roots(self) -> list[Path]:
        """Return the folders that were added."""
        return [Path(path) for path in self._state["roots"]]

    def add_root(self, folder: Path) -> None:
        """Record a folder whose images were added."""
        self._state["roots"] = sorted({*self._state["roots"], str(folder)})

    def keep_image(self, name: str, data: bytes) -> Path:
        """Write the image to the local folder; it is stored together with its entry."""
        path = self.folder / IMAGES / name
        if not path.exists():
            with atomic_write(path) as file:
                file.write(data)
        return path

    def remove_unused_images(self, keep: Collection[Path] = ()) -> None:
        """Delete kept images that no entry refers to, except those in `keep`."""
        used = {Path(row["path"]).name for row in self._store.rows("", ("id", "path"))} | {path.name for path in keep}
        self._store.remove_images([name for name in self._store.image_names() if name not in used])

    def switch(self, staged: StagedCodes) -> None:
        """Replace all codes and the model at the end of the transaction."""
        assert isinstance(staged, LocalStagedCodes), "staged by another store"
        rows = self._store.rows("", ("id", "sha256"))
        for row in rows:
            if row["id"] not in self._removed and bytes.fromhex(row["sha256"]) not in staged:
                raise KeyError(row["id"])
        self._staged = staged
        self._state["manifest"] = self._store.staged_manifest(staged.fingerprint).to_json()

    def _put(
        self, number: int, path: str, content: Content, mtime_ns: int, labels: Sequence[str], metadata: str
    ) -> None:
        names = sorted(set(labels))
        row: _Row = {
            "id": number,
            "path": path,
            "path_key": _key(path),
            "sha256": content.sha256.hex(),
            "n_bytes": content.n_bytes,
            "width": content.width,
            "height": content.height,
            "mtime_ns": mtime_ns,
            "tiny": base64.b64encode(content.tiny).decode(),
            "labels": _SEPARATOR.join(["", *names, ""]) if names else "",
            "metadata": metadata,
            "words": searchable_text(path, names, metadata),
            "code": base64.b64encode(content.code).decode(),
        }
        for name in ("path", "labels", "metadata", "words"):
            if len(row[name].encode()) > _MAX_TEXT:
                raise InvalidInput(f"Milvus stores at most {_MAX_TEXT:,} bytes in {name}; this image has more.")
        self._state["next_id"] = max(self._state["next_id"], number + 1)
        self._removed.pop(number, None)
        self._changed[number] = row

    def _get(self, number: int) -> _Row | None:
        if number in self._changed or number in self._removed:
            return self._changed.get(number)
        return next(iter(self._store.full_rows([number])), None)

    def _row(self, number: int) -> _Row:
        row = self._get(number)
        assert row is not None, "only entries that exist are changed"
        return row

    def _find(self, field: str, value: str) -> list[_Row]:
        stored = {row["id"]: row for row in self._store.rows(f'{field} == "{value}"', _FIELDS)}
        stored = {number: row for number, row in stored.items() if number not in self._changed | self._removed}
        stored |= {number: row for number, row in self._changed.items() if row[field] == value}
        return [stored[number] for number in sorted(stored)]

    def _content(self, sha256: bytes) -> Content:
        """Return content that was put, or that of an entry."""
        if sha256 in self._contents:
            return self._contents[sha256]
        return _to_content(self._row(self._find("sha256", sha256.hex())[0]["id"]))


class MilvusStore(RemoteStore):
    """Store in Milvus.

    Parameters
    ----------
    address : str
        ``milvus://host:port``, ``milvus://host:port/database``, or ``milvus://path/to/file.db``.
    wait : float
        Seconds to wait for another writer before :class:`~ddsh.errors.Busy` is raised.
    """

    def __init__(self, address: str, wait: float) -> None:
        self._client, shown, self._path = _Connections.open(address)
        try:
            super().__init__(shown)
            self._wait = wait
            self._lock = threading.RLock()
            self._in_snapshot = False
            if not self._call("has_collection", _STATE):
                raise ArtefactError(f"{shown} holds no search index; make one with: ddsh index IMAGES --store ...")
            self._use_state()
        except BaseException:
            _Connections.close(self._client, self._path)
            raise

    @classmethod
    def create(cls, address: str, manifest: SearchManifest, save_model: Callable[[Path], object], wait: float) -> Self:
        """Create the collections of an empty store; see :meth:`ddsh.search.local.LocalStore.create`."""
        if manifest.index not in _KINDS:
            raise UnknownName("index of Milvus", manifest.index, _KINDS)
        with TemporaryDirectory() as folder:
            save_model(Path(folder) / "model")
            files = model_files(Path(folder) / "model")
        client, shown, path = _Connections.open(address)
        try:
            with _named_errors(shown):
                if client.has_collection(_STATE, timeout=_ANSWER_SECONDS):
                    raise InvalidInput(f"{shown} holds a search index already; choose another database.")
                _create_images(client, manifest)
                _create(client, _FILES, {"id": 512, "folder": 128, "name": 256, "sha256": 64, "data": _MAX_TEXT})
                _insert_files(client, f"model/{manifest.fingerprint}", files)
                # Last, because it says that there is a store.
                _create(client, _STATE, {"id": 16, "value": _MAX_TEXT})
                state = {"version": SCHEMA_VERSION, "manifest": manifest.to_json(), "next_id": 1, "generation": 0}
                _write_state(client, state | {"roots": []})
        finally:
            _Connections.close(client, path)
        return cls(address, wait)

    @classmethod
    def exists(cls, address: str) -> bool:
        """Return whether there is a search index at an address."""
        place = address.removeprefix("milvus://")
        if place.endswith(".db") and not Path(place).exists():
            return False
        client, shown, path = _Connections.open(address)
        try:
            with _named_errors(shown):
                return bool(client.has_collection(_STATE, timeout=_ANSWER_SECONDS))
        finally:
            _Connections.close(client, path)

    @property
    def index_name(self) -> str:
        """How codes are searched: ``exact`` or ``ivf``."""
        return "ivf" if self.manifest.index == "ivf" else "exact"

    def close(self) -> None:
        """Close the connection."""
        _Connections.close(self._client, self._path)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Keep changes of this process away from the block; changes of other processes may become visible."""
        with self._lock:
            if self._in_snapshot:
                yield
                return
            self._use_state()
            self._in_snapshot = True
            try:
                yield
            finally:
                self._in_snapshot = False

    @contextmanager
    def write(self, *, alone: bool = True) -> Iterator[MilvusWriter]:
        """Return write access, to one writer on this machine at a time."""
        busy = f"{self.address} is being changed by another process; try again when it is done."
        with locked(self.folder / "lock", wait=self._wait, busy=busy):
            with self._lock:
                self._use_state()
            yield MilvusWriter(self)

    @contextmanager
    def stage(self, manifest: SearchManifest, save_model: Callable[[Path], object]) -> Iterator[LocalStagedCodes]:
        """Prepare codes in a local file; see :meth:`Store.stage`."""
        busy = f"{self.address} is being upgraded by another process; try again when it is done."
        with locked(self.folder / "upgrade.lock", wait=0, busy=busy):
            target = self.folder / f"staged-{manifest.fingerprint[:16]}"
            target.mkdir(exist_ok=True)
            if not (target / "search.json").exists():
                with TemporaryDirectory() as folder:
                    save_model(Path(folder) / "model")
                    self._store_model(manifest.fingerprint, model_files(Path(folder) / "model"))
                manifest.write(target / "search.json")
            n_bytes = (manifest.n_bits + 7) // 8 + (manifest.look_bits + 7) // 8
            yield LocalStagedCodes(target / "codes", manifest.fingerprint, n_bytes)
            if self.manifest.fingerprint == manifest.fingerprint:
                for path in (target / "codes", target / "search.json"):
                    path.unlink(missing_ok=True)

    def staged_manifest(self, fingerprint: str) -> SearchManifest:
        """Return the settings of a model whose codes are being prepared."""
        return SearchManifest.read(self.folder / f"staged-{fingerprint[:16]}" / "search.json")

    def problems(self) -> list[str]:
        """Return kept images that do not fit their checksums; see :meth:`Store.problems`."""
        kept = [row for row in self.rows("", _FIELDS) if not Path(row["path"]).is_absolute()]
        found = []
        for row in kept:
            data = self._kept_images([Path(row["path"]).name]).get(Path(row["path"]).name)
            if data is None or hashlib.sha256(data).hexdigest() != row["sha256"]:
                found.append(f"{self.address}: the file of image {row['id']} has changed; remove it.")
        return found

    def files(self) -> list[StoredFile]:
        """Return all files, by id."""
        return self.to_files(self.rows("", _FIELDS))

    def generation(self) -> int:
        """Return the number of transactions so far."""
        return int(self.state()["generation"])

    def count(self) -> int:
        """Return the number of entries."""
        with self.snapshot():
            rows = self._call("query", self._images, filter="", output_fields=["count(*)"])
        return int(rows[0]["count(*)"])

    def count_contents(self) -> tuple[int, int]:
        """Return the number of different contents and of different codes."""
        rows = self.rows("", ("id", "sha256", "code"))
        return len({row["sha256"] for row in rows}), len({row["code"] for row in rows})

    def label_counts(self) -> dict[str, int]:
        """Return the number of entries with each label, by label."""
        rows = self.rows('labels != ""', ("id", "labels"))
        return dict(sorted(Counter(label for row in rows for label in _labels(row)).items()))

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return entries in the order of the ids; unknown ids are skipped. Kept images are copied here."""
        wanted = [int(number) for number in ids]
        found = {row["id"]: row for row in self._with_ids(wanted, _FIELDS)}
        self._copy_images((row["path"], row["mtime_ns"]) for row in found.values())
        entries = {
            number: self._entry(
                [bytes.fromhex(row[name]) if name == "sha256" else row[name] for name in _FIELDS[:7]],
                _labels(row),
                json.loads(row["metadata"]),
            )
            for number, row in found.items()
        }
        return [entries[number] for number in wanted if number in entries]

    def ids(self, after: int, limit: int) -> list[int]:
        """Return the next ids after one, ascending."""
        return [row["id"] for row in self.rows(f"id > {int(after)}", ("id",), limit)]

    def sample(self, n: int, seed: int | None) -> list[int]:
        """Return `n` random ids, or all if there are fewer."""
        ids = [row["id"] for row in self.rows("", ("id",))]
        return [int(number) for number in np.random.default_rng(seed).permutation(ids)[:n]]

    def id_of(self, path: Path) -> int | None:
        """Return the id of the file with an absolute path."""
        rows = self.rows(f'path_key == "{_key(self.stored(path))}"', ("id",))
        return rows[0]["id"] if rows else None

    def ids_with(self, sha256: bytes) -> list[int]:
        """Return the ids of the files with some content, ascending."""
        return [row["id"] for row in self.rows(f'sha256 == "{sha256.hex()}"', ("id",))]

    def code_of(self, image: int) -> CodePair | None:
        """Return the codes of an entry."""
        return self.codes([image])[1]

    def codes(self, ids: Sequence[int]) -> tuple[list[int], CodePair | None]:
        """Return the ids that are known, in their order, and the codes of these."""
        with self.snapshot():
            found = {row["id"]: row["code"] for row in self._with_ids(ids, ("id", "code"))}
            known = [number for number in ids if number in found]
            return known, self._unpack([found[number] for number in known]) if known else None

    def contents(self, ids: Sequence[int]) -> dict[int, Content]:
        """Return the contents of the entries that are known, by id."""
        return {row["id"]: _to_content(row) for row in self.full_rows(ids)}

    def tiny_copies(self) -> tuple[list[int], CodePair | None, list[bytes]]:
        """Return the id, the codes and the tiny copy of every entry, by id; no codes if there are no entries."""
        with self.snapshot():
            rows = self.rows("", ("id", "code", "tiny"))
            codes = self._unpack([row["code"] for row in rows]) if rows else None
        return [row["id"] for row in rows], codes, [base64.b64decode(row["tiny"]) for row in rows]

    def matching(self, where: Filter) -> Ids:
        """Return the ids of the entries that a filter allows, ascending."""
        with self.snapshot():
            self._check_labels(where)
            return np.array([row["id"] for row in self.rows(_expression(where), ("id",))], np.int64)

    def search(
        self,
        code: CodePair,
        k: int | None,
        *,
        by: By = "both",
        radius: int | None = None,
        where: Filter | None = None,
    ) -> Neighbours:
        """Return the entries nearest to a code; see :meth:`Store.search`."""
        with self.snapshot():
            if where:
                self._check_labels(where)
            expression = _expression(where) if where else ""
            order = check_by(by, self.manifest.n_bits, self.manifest.look_bits)
            ids = self._nearest(order, code, k, radius, expression)
            index = self._index_of(ids, expression)
            hits = index.search(code, k, by=by, radius=radius)
            furthest = int(hits.distances[-1]) if len(hits.ids) == k else radius
            if order == "both" and ids is not None and furthest is not None:
                # The vector `both` counts label bits in full, also those of images that look alike.
                alike = min(index.distance.look_limit(1, furthest), index.distance.far_look - 1)
                copies = self._nearest("look", code, None, alike, expression)
                if copies is None or not copies <= ids:
                    index = self._index_of(None if copies is None else ids | copies, expression)
                    hits = index.search(code, k, by=by, radius=radius)
            codes = index.codes_of(hits.ids)
        return Neighbours(hits.ids, hits.distances, hits.label_distances, hits.look_distances, codes)

    def _index_of(self, ids: set[int] | None, expression: str) -> PairIndex:
        """Return an index of some entries, or of all that an expression allows."""
        fields = ("id", "code")
        rows = self.rows(expression, fields) if ids is None else self._with_ids(sorted(ids), fields)
        index = PairIndex(self.manifest.n_bits, self.manifest.look_bits, ExactIndex)
        if rows:
            index.add(self._unpack([row["code"] for row in rows]), [row["id"] for row in rows])
        return index

    def _nearest(
        self, field: str, code: CodePair, k: int | None, radius: int | None, expression: str
    ) -> set[int] | None:
        """Return ids of at least all entries among the first `k` and within `radius` of one vector.

        That is so if the last one found is farther away than the k-th, or than the radius. None stands for more
        entries than Milvus returns.
        """
        if k is None and radius is None:
            return None
        limit = min(_MAX_FOUND, 2 * (k or 64) + 64)
        while True:
            hits = self._hits(field, code, limit, expression)
            farthest = hits[-1]["distance"] if hits else 0
            is_enough = len(hits) < limit or self.index_name == "ivf"
            is_enough |= k is not None and k <= len(hits) and hits[k - 1]["distance"] < farthest
            is_enough |= radius is not None and radius < farthest
            if is_enough:
                return {hit["id"] for hit in hits}
            if k is not None and k <= len(hits) and field != "both":
                distance = hits[k - 1]["distance"]
                nearer = {hit["id"] for hit in hits if hit["distance"] < distance}
                has_both = bool(self.manifest.n_bits and self.manifest.look_bits)
                tied = (self._tied_by_other_code if has_both else self._tied_by_id)(
                    field, code, k - len(nearer), distance, expression
                )
                return None if tied is None else nearer | tied
            if limit == _MAX_FOUND:
                return None
            limit = min(_MAX_FOUND, 4 * limit)

    def _tied_by_id(self, field: str, code: CodePair, n: int, distance: int, expression: str) -> set[int] | None:
        """Return at least the `n` smallest ids of the entries at one distance.

        Milvus returns any of these; so it searches among small ids only, as many as contain enough of them.
        """
        too_few, too_many = 0, int(self.state()["next_id"])
        limit = min(_MAX_FOUND, 16 * n + 256)
        while too_many - too_few > 1:
            last = (too_few + too_many) // 2 if too_few else (too_many + 7) // 8
            among = " and ".join(filter(None, [f"id <= {last}", expression]))
            hits = self._hits(field, code, limit, among)
            tied = {hit["id"] for hit in hits if hit["distance"] == distance}
            if len(hits) == limit and hits[-1]["distance"] <= distance:
                too_many = last
            elif len(tied) < n:
                too_few = last
            else:
                return tied
        return None

    def _tied_by_other_code(
        self, field: str, code: CodePair, n: int, distance: int, expression: str
    ) -> set[int] | None:
        """Return ids of at least the first `n` entries at one distance where the other code decides.

        Among these, the vector of both codes has the order of the other code.
        """
        limit = min(_MAX_FOUND, 16 * n + 256)
        while True:
            hits = self._hits("both", code, limit, expression)
            rows = self._with_ids([hit["id"] for hit in hits], ("id", "code"))
            part, asked = (getattr(pair, field) for pair in (self._unpack([row["code"] for row in rows]), code))
            apart = np.bitwise_count(part.packed ^ asked.packed).sum(axis=1)
            at_distance = {row["id"] for row, each in zip(rows, apart, strict=True) if each == distance}
            tied = [hit for hit in hits if hit["id"] in at_distance]
            if len(hits) < limit or (len(tied) >= n and tied[n - 1]["distance"] < hits[-1]["distance"]):
                return at_distance
            if limit == _MAX_FOUND:
                return None
            limit = min(_MAX_FOUND, 4 * limit)

    def _hits(self, field: str, code: CodePair, limit: int, expression: str) -> Sequence[Mapping[str, Any]]:
        """Return the entries nearest by one vector, with ids and distances, nearest first."""
        parameters = {"metric_type": "HAMMING", "params": {"nprobe": 64} if self.index_name == "ivf" else {}}
        found: Sequence[Sequence[Mapping[str, Any]]] = self._call(
            "search",
            self._images,
            data=[_vectors(code, self.manifest)[field][0].tobytes()],
            anns_field=field,
            limit=limit,
            filter=expression,
            search_params=parameters,
        )
        return found[0]

    def state(self) -> dict[str, Any]:
        """Return the settings, the next id, the number of transactions and the folders that were added."""
        deadline = time.monotonic() + _STATE_SECONDS
        while not (rows := self._call("query", _STATE, filter='id == "state"', output_fields=["value"])):
            # Milvus Lite under load may show neither the old nor the new row for a moment.
            if time.monotonic() > deadline:
                raise ArtefactError(
                    f"{self.address} is not complete; try again, or delete its collections and make the index again."
                )
            time.sleep(0.02)
        return dict(json.loads(rows[0]["value"]))

    def apply(
        self, state: dict[str, Any], changed: Mapping[int, _Row], removed: list[int], staged: LocalStagedCodes | None
    ) -> None:
        """Send the changes of a transaction."""
        with self._lock, _named_errors(self.address):
            # First, so that no id is used twice if this is interrupted.
            _write_state(self._client, self.state() | {"next_id": state["next_id"]})
            self._upload_images([row["path"] for row in changed.values()])
            self._insert(self._images, list(changed.values()), self.manifest)
            for start in range(0, len(removed), _BATCH):
                self._call("delete", self._images, ids=removed[start : start + _BATCH])
            if staged is not None:
                manifest = SearchManifest.from_json(state["manifest"], self.address)
                rows = self.full_rows([row["id"] for row in self.rows("", ("id",))])
                for row in rows:
                    row["code"] = base64.b64encode(staged.codes[bytes.fromhex(row["sha256"])]).decode()
                old = self._images
                _create_images(self._client, manifest)
                self._insert(_images_name(manifest), rows, manifest)
                _write_state(self._client, state)
                self._call("drop_collection", old)
            else:
                _write_state(self._client, state)
            self._use_state()

    def _insert(self, collection: str, rows: Sequence[_Row], manifest: SearchManifest) -> None:
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            pair = self._pair([base64.b64decode(row["code"]) for row in batch], manifest)
            vectors = {name: [each.tobytes() for each in part] for name, part in _vectors(pair, manifest).items()}
            data = [row | {name: part[place] for name, part in vectors.items()} for place, row in enumerate(batch)]
            self._call("upsert", collection, data=data)

    def rows(self, expression: str, fields: Sequence[str], limit: int = -1) -> list[_Row]:
        """Return some fields of all rows that an expression allows, by id."""
        with self.snapshot():
            found = self._all_rows(self._images, expression, fields, _MAX_FOUND, limit)
        return sorted(found, key=lambda row: int(row["id"]))

    def full_rows(self, ids: Sequence[int]) -> list[_Row]:
        """Return whole rows, as they are inserted, but without vectors."""
        return self._with_ids(ids, (*_FIELDS, "path_key", "tiny", "words", "code"))

    def _with_ids(self, ids: Sequence[int], fields: Sequence[str]) -> list[_Row]:
        found: list[_Row] = []
        with self.snapshot():
            for start in range(0, len(ids), _BATCH):
                numbers = [int(number) for number in ids[start : start + _BATCH]]
                found += self._call("query", self._images, filter=f"id in {numbers}", output_fields=list(fields))
        return [dict(row) for row in found]

    def to_files(self, rows: Sequence[_Row]) -> list[StoredFile]:
        """Return rows of files; kept images are copied here."""
        self._copy_images((row["path"], row["mtime_ns"]) for row in rows)
        return [
            StoredFile(
                row["id"], self.folder / row["path"], bytes.fromhex(row["sha256"]), row["n_bytes"], row["mtime_ns"]
            )
            for row in rows
        ]

    def stored(self, path: Path) -> str:
        """Return a path as it is stored."""
        return self._stored(path)

    def image_names(self) -> list[str]:
        """Return the names of all kept images."""
        return sorted({row["name"] for row in self._file_rows(f'folder == "{IMAGES}"', ("id", "name"))})

    def remove_images(self, names: Sequence[str]) -> None:
        """Delete kept images."""
        for name in names:
            self._call("delete", _FILES, filter=f'folder == "{IMAGES}" and name == {_text(name)}')

    def _upload_images(self, paths: Iterable[str]) -> None:
        kept = {Path(path).name for path in paths if not Path(path).is_absolute()}
        new = kept - set(self.image_names()) if kept else kept
        _insert_files(self._client, IMAGES, {name: (self.folder / IMAGES / name).read_bytes() for name in new})

    def _check_labels(self, where: Filter) -> None:
        for label in where.labels:
            if not self.rows(_expression(Filter((label,))), ("id",), 1):
                raise UnknownName("label", label, self.label_counts())

    def _unpack(self, codes: Sequence[str]) -> CodePair:
        return self._pair([base64.b64decode(code) for code in codes], self.manifest)

    @property
    def _images(self) -> str:
        return _images_name(self.manifest)

    def _use_state(self) -> None:
        """Use the present settings, which another process may have changed."""
        state = self.state()
        if state["version"] > SCHEMA_VERSION:
            raise ArtefactError(
                f"{self.address} has version {state['version']}; this ddsh reads version {SCHEMA_VERSION}. Install a"
                " newer one."
            )
        manifest = SearchManifest.from_json(state["manifest"], self.address, advice="restore a backup")
        if getattr(self, "manifest", None) != manifest:
            self._use(manifest)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 -- what the client returns
        with _named_errors(self.address):
            return getattr(self._client, method)(*arguments, timeout=_ANSWER_SECONDS, **options)

    def _model_checksums(self, fingerprint: str) -> dict[str, str]:
        rows = self._file_rows(f'folder == "model/{fingerprint}"', ("id", "name", "sha256"))
        return {row["name"]: row["sha256"] for row in rows}

    def _model_files(self, fingerprint: str) -> dict[str, bytes]:
        return self._read_files(f'folder == "model/{fingerprint}"')

    def _store_model(self, fingerprint: str, files: Mapping[str, bytes]) -> None:
        self._call("delete", _FILES, filter=f'folder == "model/{fingerprint}"')
        with _named_errors(self.address):
            _insert_files(self._client, f"model/{fingerprint}", files)

    def _kept_images(self, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in names:
            found |= self._read_files(f'folder == "{IMAGES}" and name == {_text(name)}')
        return found

    def _read_files(self, expression: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for row in self._file_rows(expression, ("id", "name", "data")):
            found[row["name"]] = found.get(row["name"], b"") + base64.b64decode(row["data"])
        return found

    def _all_rows(
        self, collection: str, expression: str, fields: Sequence[str], page: int, limit: int = -1
    ) -> list[_Row]:
        """Return the rows that an expression allows; an iterator costs several requests, so it is the second choice."""
        if expression and limit < 0:
            rows = self._call("query", collection, filter=expression, output_fields=list(fields), limit=page)
            if len(rows) < page:
                return list(rows)
        with _named_errors(self.address):
            iterator = self._client.query_iterator(
                collection,
                batch_size=page,
                limit=limit,
                filter=expression,
                output_fields=list(fields),
                timeout=_ANSWER_SECONDS,
            )
            found: list[_Row] = []
            while batch := iterator.next():
                found += batch
            iterator.close()
        return found

    def _file_rows(self, expression: str, fields: Sequence[str]) -> list[_Row]:
        found = self._all_rows(_FILES, expression, fields, 200)
        return sorted(found, key=lambda row: str(row["id"]))


def _vectors(codes: CodePair, manifest: SearchManifest) -> dict[str, NDArray[np.uint8]]:
    """Return the packed vectors of codes, padded with zeros to whole bytes, which add nothing to a distance.

    The Hamming distance of the vector ``both`` is the distance of :class:`PairDistance` between images that are no near
    copies: every label bit is repeated as often as it weighs.
    """
    found = {name: part.packed for name in ("label", "look") if (part := getattr(codes, name)) is not None}
    if codes.label is not None and codes.look is not None:
        weight = PairDistance(manifest.n_bits, manifest.look_bits).label_weight
        bits = np.hstack([codes.look.bits(), np.repeat(codes.label.bits(), weight, axis=1)])
        found["both"] = np.packbits(bits, axis=1, bitorder="little")
    return found


def _images_name(manifest: SearchManifest) -> str:
    """Return the collection of the images of a model."""
    return f"ddsh_images_{manifest.fingerprint[:16]}"


def _create_images(client: MilvusClient, manifest: SearchManifest) -> None:
    """Create the collection of images, in place of what an interrupted upgrade left."""
    name = _images_name(manifest)
    if client.has_collection(name, timeout=_ANSWER_SECONDS):
        client.drop_collection(name, timeout=_ANSWER_SECONDS)
    zeros = {
        part: BinaryCodes(np.zeros((1, (bits + 7) // 8), np.uint8), bits)
        for part, bits in (("label", manifest.n_bits), ("look", manifest.look_bits))
        if bits
    }
    vectors = _vectors(CodePair(zeros.get("label"), zeros.get("look")), manifest)
    texts = {"path": _MAX_TEXT, "path_key": 64, "sha256": 64, "tiny": 8192, "code": 512}
    texts |= {"labels": _MAX_TEXT, "metadata": _MAX_TEXT, "words": _MAX_TEXT}
    _create(
        client,
        name,
        texts,
        numbers=("n_bytes", "width", "height", "mtime_ns"),
        vectors={part: 8 * vector.shape[1] for part, vector in vectors.items()},
        index=_KINDS[manifest.index],
    )


def _create(
    client: MilvusClient,
    name: str,
    texts: Mapping[str, int],
    *,
    numbers: Sequence[str] = (),
    vectors: Mapping[str, int] | None = None,
    index: str = "BIN_FLAT",
) -> None:
    """Create a collection; one without vectors gets the vector that Milvus asks for."""
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    if vectors is None:
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=texts["id"])
    else:
        schema.add_field("id", DataType.INT64, is_primary=True)
    for text, length in texts.items():
        if text != "id":
            schema.add_field(text, DataType.VARCHAR, max_length=length)
    for number in numbers:
        schema.add_field(number, DataType.INT64)
    indexes = client.prepare_index_params()
    for vector, n_bits in (vectors or {"unused": 8}).items():
        schema.add_field(vector, DataType.BINARY_VECTOR, dim=n_bits)
        parameters = {"nlist": 1024} if index == "BIN_IVF_FLAT" else {}
        indexes.add_index(vector, index_type=index, metric_type="HAMMING", params=parameters)
    client.create_collection(
        name, schema=schema, index_params=indexes, consistency_level="Strong", timeout=_ANSWER_SECONDS
    )


def _insert_files(client: MilvusClient, folder: str, files: Mapping[str, bytes]) -> None:
    """Insert files in chunks."""
    for name, data in files.items():
        checksum = hashlib.sha256(data).hexdigest()
        starts = range(0, max(1, len(data)), _CHUNK)
        rows = [
            {
                "id": f"{folder}/{name}#{number:06d}",
                "folder": folder,
                "name": name,
                "sha256": checksum,
                "data": base64.b64encode(data[start : start + _CHUNK]).decode(),
                "unused": b"\0",
            }
            for number, start in enumerate(starts)
        ]
        for first in range(0, len(rows), 100):
            client.upsert(_FILES, data=rows[first : first + 100], timeout=_ANSWER_SECONDS)


def _write_state(client: MilvusClient, state: Mapping[str, Any]) -> None:
    row = {"id": "state", "value": json.dumps(state), "unused": b"\0"}
    client.upsert(_STATE, data=[row], timeout=_ANSWER_SECONDS)


def _expression(where: Filter) -> str:
    """Return a filter as Milvus writes it."""
    labelled = [f"labels like {_text(f'%{_SEPARATOR}{_pattern(label)}{_SEPARATOR}%')}" for label in where.labels]
    joined = (" and " if where.all_labels else " or ").join(labelled)
    words = where.text.casefold().replace("\0", "\N{REPLACEMENT CHARACTER}").split()
    parts = [f"({joined})"] if labelled else []
    return " and ".join([*parts, *[f"words like {_text(f'%{_pattern(word)}%')}" for word in words]])


def _pattern(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _key(path: str) -> str:
    """Return a checksum to find a path by; file names may contain what an expression cannot."""
    return hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()


def _labels(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row["labels"].strip(_SEPARATOR).split(_SEPARATOR)) if row["labels"] else ()


def _to_content(row: Mapping[str, Any]) -> Content:
    size = (row["n_bytes"], row["width"], row["height"])
    return Content(bytes.fromhex(row["sha256"]), *size, base64.b64decode(row["code"]), base64.b64decode(row["tiny"]))


@contextmanager
def _named_errors(address: str) -> Iterator[None]:
    """Turn an error of Milvus into one line that says what to do."""
    try:
        yield
    except MilvusException as error:
        reason = " ".join(str(error.message).split())[:200]
        if "local mode only support" in reason:
            raise InvalidInput("Milvus Lite has no index of this kind; use exact, or a server of Milvus.") from None
        cause = error.__cause__  # of a failure to connect, which does not say why
        is_refused = isinstance(cause, grpc.Call) and cause.code() == grpc.StatusCode.UNAUTHENTICATED
        if is_refused or "auth" in reason.lower() or "token" in reason.lower():
            reason = " ".join(str(cause.details()).split())[:200] if is_refused else reason
            raise Unavailable(f"{address} refuses ({reason}); set user:password in MILVUS_TOKEN.") from None
        raise Unavailable(f"{address} cannot be used ({reason}); is it running?") from None
    except grpc.RpcError as error:
        code = error.code().name.lower() if isinstance(error, grpc.Call) else "no connection"
        raise Unavailable(f"{address} cannot be used ({code}); is it running?") from None


def _connect_to_file(path: str) -> MilvusClient:
    """Return a client of a file; its server starts first, which takes long on a busy machine."""
    deadline = time.monotonic() + _CONNECT_SECONDS * 3
    while True:
        try:
            return MilvusClient(path)
        except MilvusException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _import_milvus_lite() -> None:
    """Import Milvus Lite, which asks a module for its version that setuptools no longer has."""
    versions = ModuleType("pkg_resources")
    vars(versions).update(DistributionNotFound=LookupError, get_distribution=_no_distribution)
    before = sys.modules.get("pkg_resources")
    sys.modules["pkg_resources"] = versions
    try:
        importlib.import_module("milvus_lite")
    except ImportError as error:
        raise MissingExtra("A file of Milvus", "milvus-lite 2.5.1", "milvus") from error
    finally:
        del sys.modules["pkg_resources"]
        if before is not None:
            sys.modules["pkg_resources"] = before


def _no_distribution(_: str) -> None:
    raise LookupError
