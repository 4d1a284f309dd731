"""Local store: an SQLite database, index files and a lock for writers."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import RLock
from typing import Self

import numpy as np

from ddsh.codes import CodePair
from ddsh.errors import ArtefactError, Busy, InvalidInput, UnknownName
from ddsh.index.pairs import By
from ddsh.search.catalogue import Catalogue, State
from ddsh.search.live_index import LiveIndex
from ddsh.search.store import Entry, Ids, Neighbours, SearchManifest, Store, StoreWriter, check_fingerprint
from ddsh.storage import atomic_write, locked

__all__ = ["LocalStore", "LocalWriter", "is_search", "write_lock"]

_MANIFEST = "search.json"
_MODEL = "model"
_CATALOGUE = "catalogue.sqlite"
_INDEX = "index"
_IMAGES = "images"
_LOCK = "lock"
_OWNER = "lock.owner"


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

    def remove(self, ids: Iterable[int]) -> None:
        """Remove entries and the images that were kept for them."""
        chosen = sorted(set(ids))
        entries = self.entries(chosen)
        if len(entries) < len(chosen):
            unknown = sorted(set(chosen) - {entry.id for entry in entries})
            raise InvalidInput(f"{len(unknown)} of {len(chosen)} ids are not in the index, such as {unknown[0]}.")
        super().remove(chosen)
        paths = (Path(entry.path) for entry in entries)
        self._removed += [path for path in paths if path.parent == self._images]

    def keep_image(self, name: str, data: bytes) -> Path:
        """Write the image to the folder, unless it exists."""
        path = self._images / name
        if not path.exists():
            with atomic_write(path) as file:
                file.write(data)
        return path

    def remove_unused_images(self) -> None:
        """Delete kept images that no entry refers to."""
        known = {file.path for file in self.files()}
        for path in list(self._images.iterdir()):
            if path not in known:
                path.unlink(missing_ok=True)


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
        self.model_folder = self.folder / _MODEL
        missing = (
            f"{folder} holds no search index ({_MANIFEST} is missing); make one with: ddsh index IMAGES --out {folder}"
        )
        path = self.folder / _MANIFEST
        self.manifest = SearchManifest.read(path, missing=missing, advice="make the index again")
        self._wait = wait
        self._lock = RLock()
        self._in_snapshot = False
        self._live = LiveIndex(self.folder / _INDEX, self.manifest.index, self.manifest.n_bits, self.manifest.look_bits)
        self._labelled: tuple[State | None, dict[str, Ids]] = (None, {})
        self._catalogue = Catalogue(self.folder / _CATALOGUE)
        try:
            self._check(self._catalogue)
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
                self._in_snapshot = True
                try:
                    yield
                finally:
                    self._in_snapshot = False

    @contextmanager
    def write(self) -> Iterator[LocalWriter]:
        """Return exclusive write access; the index files are updated at the end."""
        with write_lock(self.folder, self._wait), LocalWriter(self.folder) as writer:
            self._check(writer)
            yield writer
            # Not before: content that one file had may have moved to another file.
            if writer.has_replaced:
                with writer.transaction():
                    writer.drop_unused_contents()
            # The index files are derived: if this is interrupted, they are rebuilt when the folder is opened.
            with self._lock:
                self._live.save_if_behind(writer)

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
            return [file.id for file in self._catalogue.files_with(sha256)]

    def code_of(self, image: int) -> CodePair | None:
        """Return the codes of an entry."""
        with self._lock:
            code = self._catalogue.code_of(image)
        return None if code is None else self._unpack([code])

    def tiny_copies(self) -> tuple[list[int], CodePair | None, list[bytes]]:
        """Return the id, the codes and the tiny copy of every entry, by id; no codes if there are no entries."""
        with self._lock:
            rows = self._catalogue.tiny_copies()
        codes = self._unpack([row[1] for row in rows]) if rows else None
        return [row[0] for row in rows], codes, [row[2] for row in rows]

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
        label: str | None = None,
        allowed: Ids | None = None,
    ) -> Neighbours:
        """Return the entries nearest to a code; see :meth:`Store.search`."""
        with self.snapshot():
            index = self._live.follow(self._catalogue)
            if label is not None:
                labelled = self._ids_labelled(label)
                allowed = labelled if allowed is None else np.intersect1d(labelled, allowed)
            hits = index.search(code, k, by=by, radius=radius, allowed=allowed)
            codes = index.codes_of(hits.ids)
            return Neighbours(hits.ids, hits.distances, hits.label_distances, hits.look_distances, codes)

    def _ids_labelled(self, label: str) -> Ids:
        """Return the ids with a label, cached until the next change."""
        if self._labelled[0] != self._live.state:
            self._labelled = (self._live.state, {})
        cache = self._labelled[1]
        if label not in cache:
            ids = self._catalogue.ids_labelled(label)
            if not len(ids):
                raise UnknownName("label", label, self._catalogue.label_counts())
            cache[label] = ids
        return cache[label]

    def _check(self, catalogue: Catalogue) -> None:
        check_fingerprint(self.folder, "its catalogue", catalogue.fingerprint(), self.manifest.fingerprint)
