"""Local store: an SQLite database, index files and a lock for writers."""

import hashlib
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import RLock
from typing import Self

import numpy as np

from ddsh.codes import CodePair
from ddsh.errors import ArtefactError, Busy, InvalidInput, UnknownName
from ddsh.index import get_index
from ddsh.index.pairs import By
from ddsh.search.catalogue import Catalogue, State
from ddsh.search.live_index import LiveIndex
from ddsh.search.store import (
    AUTO,
    Content,
    Entry,
    Filter,
    Ids,
    Neighbours,
    SearchManifest,
    StagedCodes,
    Store,
    StoredFile,
    StoreWriter,
    check_fingerprint,
)
from ddsh.storage import atomic_write, locked, sync_folder

__all__ = ["LocalStagedCodes", "LocalStore", "LocalWriter", "is_search", "write_lock"]

_MANIFEST = "search.json"
_MODEL = "model"
_CATALOGUE = "catalogue.sqlite"
_INDEX = "index"
_IMAGES = "images"
_LOCK = "lock"
_OWNER = "lock.owner"
_UPGRADE_LOCK = "upgrade.lock"
_CODES = "codes.staged"
_SHA256_BYTES = 32
_CRC_BYTES = 4
_CACHED_FILTERS = 32


def is_search(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a search index."""
    return (Path(folder) / _MANIFEST).is_file()


@contextmanager
def write_lock(folder: str | os.PathLike[str], wait: float) -> Iterator[None]:
    """Hold the lock that keeps other writers out, in this process and in others.

    The operating system releases the lock when the process ends, so a killed writer does not block the next one.

    Parameters
    ----------
    folder : path
        The folder of a search index.
    wait : float
        Seconds to wait for another writer.

    Raises
    ------
    Busy
        If another writer is still at work then.
    """
    owner = Path(folder) / _OWNER
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(Path(folder) / _LOCK, wait=wait, busy=""))
        except Busy:
            process = owner.read_text(errors="replace")[:20] if owner.exists() else ""
            raise Busy(
                f"{folder} is being changed by process {process or 'unknown'}; try again when it is done."
            ) from None
        with atomic_write(owner) as file:
            file.write(str(os.getpid()).encode())
        yield


class LocalWriter(Catalogue, StoreWriter):
    """Exclusive write access to a :class:`LocalStore`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(Path(folder) / _CATALOGUE)
        self._images = self.folder / _IMAGES
        self._removed: list[Path] = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Apply all changes of the block at once; then delete the kept images of removed entries."""
        self._removed = []
        with super().transaction():
            yield
        for path in self._removed:
            path.unlink(missing_ok=True)

    def remove(self, ids: Iterable[int], *, keep_images: bool = False) -> None:
        """Remove entries and, by default, the images that were kept for them."""
        chosen = sorted(set(ids))
        entries = self.entries(chosen)
        if len(entries) < len(chosen):
            unknown = sorted(set(chosen) - {entry.id for entry in entries})
            raise InvalidInput(f"{len(unknown)} of {len(chosen)} ids are not in the index, such as {unknown[0]}.")
        super().remove(chosen)
        paths = (Path(entry.path) for entry in entries if not keep_images)
        self._removed += [path for path in paths if path.parent == self._images]

    def keep_image(self, name: str, data: bytes) -> Path:
        """Write the image to the folder, unless it exists."""
        path = self._images / name
        if not path.exists():
            with atomic_write(path) as file:
                file.write(data)
            sync_folder(path.parent)  # an entry must not outlive a power failure without its file
        return path

    def remove_unused_images(self, keep: Collection[Path] = ()) -> None:
        """Delete kept images that no entry refers to, except those in `keep`."""
        known = {file.path for file in self.files()} | set(keep)
        for path in list(self._images.iterdir()) if self._images.is_dir() else ():
            if path not in known:
                path.unlink(missing_ok=True)

    def switch(self, staged: StagedCodes) -> None:
        """Replace all codes by staged ones; with the fingerprint in the database, the model is another one, too."""
        assert isinstance(staged, LocalStagedCodes), "staged by another store"
        self.recode(staged.codes, staged.fingerprint)


class LocalStagedCodes(StagedCodes):
    """Staged codes in a file: checksum of the content, code, and CRC-32 of both, one after the other.

    Parameters
    ----------
    path : path
        The file; what was written last may be incomplete and is then cut off.
    fingerprint : str
        Fingerprint of the model.
    n_bytes : int
        Size of a code.
    """

    def __init__(self, path: Path, fingerprint: str, n_bytes: int) -> None:
        self.fingerprint = fingerprint
        self.codes: dict[bytes, bytes] = {}
        self._path = path
        data = path.read_bytes() if path.exists() else b""
        size = _SHA256_BYTES + n_bytes + _CRC_BYTES
        whole = 0
        for start in range(0, len(data) - size + 1, size):
            record = data[start : start + size - _CRC_BYTES]
            if zlib.crc32(record).to_bytes(_CRC_BYTES, "little") != data[start + len(record) : start + size]:
                break
            self.codes[record[:_SHA256_BYTES]] = record[_SHA256_BYTES:]
            whole = start + size
        if whole < len(data):
            os.truncate(path, whole)

    def __contains__(self, sha256: object) -> bool:
        return sha256 in self.codes

    def put(self, codes: Mapping[bytes, bytes]) -> None:
        """Append codes to the file."""
        records = (sha256 + code for sha256, code in codes.items())
        data = b"".join(record + zlib.crc32(record).to_bytes(_CRC_BYTES, "little") for record in records)
        try:
            with self._path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ArtefactError(f"{self._path} cannot be written ({error.strerror or error}).") from error
        self.codes |= codes


class LocalStore(Store):
    """Store in a local folder, which can be moved as a whole.

    Parameters
    ----------
    folder : path
        The folder.
    wait : float
        Seconds to wait for another writer before :class:`~ddsh.errors.Busy` is raised.
    """

    def __init__(self, folder: str | os.PathLike[str], wait: float) -> None:
        self.folder = Path(folder).absolute()
        self.address = str(self.folder)
        missing = (
            f"{folder} holds no search index ({_MANIFEST} is missing); make one with: ddsh index IMAGES --out {folder}"
        )
        path = self.folder / _MANIFEST
        self._matching: tuple[State | None, dict[Filter, Ids]] = (None, {})
        self._use(SearchManifest.read(path, missing=missing, advice="make the index again"))
        self._wait = wait
        self._lock = RLock()
        self._in_snapshot = False
        self._catalogue = Catalogue(self.folder / _CATALOGUE)
        try:
            self._follow_upgrade(self._catalogue)
        except ArtefactError:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        manifest: SearchManifest,
        save_model: Callable[[Path], object],
        wait: float,
    ) -> Self:
        """Create an empty store. The folder appears complete or not at all.

        Parameters
        ----------
        folder : path
            A new or empty folder.
        manifest : SearchManifest
            Settings.
        save_model : callable
            Saves the model to the folder it is given.
        wait : float
            Seconds to wait for another writer.
        """
        if manifest.index != AUTO:
            get_index(manifest.index)
        target = Path(folder).absolute()
        try:
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise InvalidInput(f"{folder} exists and is not empty; choose another folder.")
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
            new.mkdir()
        except OSError as error:
            reason = error.strerror or error
            raise ArtefactError(f"{folder} cannot be created ({reason}); choose another folder.") from error
        try:
            for name in (_MODEL, _INDEX, _IMAGES):
                (new / name).mkdir()
            save_model(new / _MODEL)
            Catalogue.create(new / _CATALOGUE, manifest.fingerprint)
            manifest.write(new / _MANIFEST)
            new.replace(target)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return cls(folder, wait)

    @property
    def index_name(self) -> str:
        """Name of the index that searches the codes."""
        return self._live.name

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._catalogue.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state in the block; other threads wait."""
        with self._lock:
            if self._in_snapshot:
                yield
                return
            with self._catalogue.reading():
                self._follow_upgrade(self._catalogue)
                self._in_snapshot = True
                try:
                    yield
                finally:
                    self._in_snapshot = False

    @contextmanager
    def write(self, *, alone: bool = True) -> Iterator[LocalWriter]:
        """Return write access, always to one writer at a time; the index files are updated at the end."""
        with write_lock(self.folder, self._wait), LocalWriter(self.folder) as writer:
            with self._lock:
                self._follow_upgrade(writer)
            yield writer
            with self._lock:
                self._follow_upgrade(writer)
            path = self.folder / _MANIFEST
            if SearchManifest.read(path) != self.manifest:  # upgraded, now or by a process that was killed then
                self.manifest.write(path)
            # Not before: content that one file had may have moved to another file.
            if writer.has_replaced:
                with writer.transaction():
                    writer.drop_unused_contents()
            # The index files are derived: if this is interrupted, they are rebuilt when the folder is opened.
            with self._lock:
                self._live.save_if_behind(writer)

    @contextmanager
    def stage(self, manifest: SearchManifest, save_model: Callable[[Path], object]) -> Iterator[LocalStagedCodes]:
        """Prepare codes in a folder beside the model in use; see :meth:`Store.stage`."""
        busy = f"{self.folder} is being upgraded by another process; try again when it is done."
        with locked(self.folder / _UPGRADE_LOCK, wait=0, busy=busy):
            target = self._folder_of(manifest.fingerprint)
            for path in self.folder.glob(f"{_MODEL}*"):  # of earlier upgrades
                if path not in (target, self.model_folder):
                    shutil.rmtree(path, ignore_errors=True)
            if not (target / _MANIFEST).exists():
                shutil.rmtree(target, ignore_errors=True)
                save_model(target)
                manifest.write(target / _MANIFEST)
            n_bytes = (manifest.n_bits + 7) // 8 + (manifest.look_bits + 7) // 8
            staged = LocalStagedCodes(target / _CODES, manifest.fingerprint, n_bytes)
            yield staged
            if self._catalogue_fingerprint() == manifest.fingerprint:
                (target / _CODES).unlink(missing_ok=True)

    def problems(self) -> list[str]:
        """Return what is wrong with the catalogue, the index files and the kept images; see :meth:`Store.problems`."""
        with self.snapshot():
            found = self._catalogue.problems()
            found += [
                f"{line} It is made again, if you delete {self.folder / _INDEX}." for line in self._live.problems()
            ]
            kept = [file for file in self._catalogue.files() if file.path.parent == self.folder / _IMAGES]
        for file in kept:
            try:
                with file.path.open("rb") as opened:
                    intact = hashlib.file_digest(opened, "sha256").digest() == file.sha256
            except OSError as error:
                found.append(f"{file.path}: {error.strerror or error}; remove it with: ddsh index refresh")
            else:
                if not intact:
                    found.append(f"{file.path}: its content has changed; remove the image, or add it again.")
        return found

    def files(self) -> list[StoredFile]:
        """Return all files, by id."""
        with self._lock:
            return self._catalogue.files()

    def generation(self) -> int:
        """Return the number of transactions so far."""
        with self._lock:
            return self._catalogue.state().generation

    def count(self) -> int:
        """Return the number of entries."""
        with self._lock:
            return self._catalogue.count()

    def count_contents(self) -> tuple[int, int]:
        """Return the number of different contents and of different codes."""
        with self._lock:
            return self._catalogue.count_contents()

    def label_counts(self) -> dict[str, int]:
        """Return the number of entries with each label, by label."""
        with self._lock:
            return self._catalogue.label_counts()

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return entries in the order of the ids; unknown ids are skipped."""
        with self._lock:
            return self._catalogue.entries(ids)

    def ids(self, after: int, limit: int) -> list[int]:
        """Return the next ids after one, ascending."""
        with self._lock:
            return self._catalogue.ids(after, limit)

    def sample(self, n: int, seed: int | None) -> list[int]:
        """Return `n` random ids, or all if there are fewer."""
        with self._lock:
            return self._catalogue.sample(n, seed)

    def id_of(self, path: Path) -> int | None:
        """Return the id of the file with an absolute path."""
        with self._lock:
            file = self._catalogue.file_at(path)
        return None if file is None else file.id

    def ids_with(self, sha256: bytes) -> list[int]:
        """Return the ids of the files with some content, ascending."""
        with self._lock:
            return self._catalogue.ids_with(sha256)

    def code_of(self, image: int) -> CodePair | None:
        """Return the codes of an entry."""
        with self.snapshot():
            code = self._catalogue.code_of(image)
            return None if code is None else self._unpack([code])

    def copies_of(self, image: int) -> tuple[bytes, CodePair, list[int]] | None:
        """Return the checksum of an entry's file, its codes, and the ids of all entries with this content."""
        with self.snapshot():
            found = self._catalogue.copies_of(image)
            return None if found is None else (found[0], self._unpack([found[1]]), found[2])

    def codes(self, ids: Sequence[int]) -> tuple[list[int], CodePair | None]:
        """Return the ids that are known, in their order, and the codes of these."""
        with self.snapshot():
            found = self._catalogue.codes_of(ids)
            known = [number for number in ids if number in found]
            return known, self._unpack([found[number] for number in known]) if known else None

    def tiny_copies(self) -> tuple[list[int], CodePair | None, list[bytes]]:
        """Return the id, the codes and the tiny copy of every entry, by id; no codes if there are no entries."""
        with self.snapshot():
            rows = self._catalogue.tiny_copies()
            codes = self._unpack([row[1] for row in rows]) if rows else None
        return [row[0] for row in rows], codes, [row[2] for row in rows]

    def contents(self, ids: Sequence[int]) -> dict[int, Content]:
        """Return the contents of the entries that are known, by id."""
        with self.snapshot():
            found = ((number, self._catalogue.content_of(number)) for number in ids)
            return {number: content for number, content in found if content is not None}

    def _unpack(self, codes: list[bytes]) -> CodePair:
        packed = np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), -1)
        return CodePair.from_packed(packed, self.manifest.n_bits, self.manifest.look_bits)

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
            index = self._live.follow(self._catalogue)
            allowed = self.matching(where) if where else None
            hits = index.search(code, k, by=by, radius=radius, allowed=allowed)
            codes = index.codes_of(hits.ids)
            return Neighbours(hits.ids, hits.distances, hits.label_distances, hits.look_distances, codes)

    def matching(self, where: Filter) -> Ids:
        """Return the ids of the entries that a filter allows; the last filters are cached until the next change."""
        with self.snapshot():
            state = self._catalogue.state()
            if self._matching[0] != state or len(self._matching[1]) >= _CACHED_FILTERS:
                self._matching = (state, {})
            cache = self._matching[1]
            if where not in cache:
                for label in where.labels:
                    if not len(self._catalogue.ids_labelled(label)):
                        raise UnknownName("label", label, self._catalogue.label_counts())
                cache[where] = self._catalogue.ids_matching(where)
            return cache[where]

    def _catalogue_fingerprint(self) -> str:
        with self._lock:
            return self._catalogue.fingerprint()

    def _follow_upgrade(self, catalogue: Catalogue) -> None:
        """Use the settings of the model that computed the codes, which an upgrade may have replaced."""
        fingerprint = catalogue.fingerprint()
        if fingerprint == self.manifest.fingerprint:
            return
        path = self._folder_of(fingerprint) / _MANIFEST
        manifest = SearchManifest.read(path) if path.exists() else self.manifest
        check_fingerprint(self.address, "its catalogue", fingerprint, manifest.fingerprint)
        self._use(manifest)

    def _use(self, manifest: SearchManifest) -> None:
        self.manifest = manifest
        upgraded = self._folder_of(manifest.fingerprint)
        self.model_folder = upgraded if upgraded.exists() else self.folder / _MODEL
        self._live = LiveIndex(self.folder / _INDEX, manifest.index, manifest.n_bits, manifest.look_bits)

    def _folder_of(self, fingerprint: str) -> Path:
        """Return the folder of a model that the index was or is being upgraded to."""
        return self.folder / f"{_MODEL}-{fingerprint[:16]}"
