"""Base class of stores in databases, with local copies of files."""

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ddsh.codes import CodePair
from ddsh.errors import ArtefactError
from ddsh.search.store import Entry, SearchManifest, Store
from ddsh.storage import atomic_write

__all__ = ["IMAGES", "RemoteStore", "model_files", "searchable_text"]

IMAGES = "images"
"""Folder of the local copies of kept images, inside the folder of the store."""


class RemoteStore(Store):
    """Base class of stores in a database.

    Model and kept images are in the database; a folder in the user's cache has local copies, which may be deleted.

    Parameters
    ----------
    address : str
        Address of the database without a password.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.folder = _cache_folder() / hashlib.sha256(address.encode()).hexdigest()[:16]
        try:
            (self.folder / IMAGES).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ArtefactError(
                f"{self.folder} cannot be made ({error.strerror or error}); set XDG_CACHE_HOME to a folder for copies"
                " of the model and of images."
            ) from error

    @abstractmethod
    def _model_checksums(self, fingerprint: str) -> dict[str, str]:
        """Return the checksums of the files of a model by name."""

    @abstractmethod
    def _model_files(self, fingerprint: str) -> dict[str, bytes]:
        """Return the files of a model by name."""

    @abstractmethod
    def _kept_images(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return kept images by name; unknown names are left out."""

    def _use(self, manifest: SearchManifest) -> None:
        """Use the settings of a model, and copy the model to the local folder if it is not there."""
        checksums = self._model_checksums(manifest.fingerprint)
        if not checksums:
            raise ArtefactError(f"{self.address} has no model (fingerprint {manifest.fingerprint[:12]}).")
        target = self.folder / f"model-{hashlib.sha256(repr(sorted(checksums.items())).encode()).hexdigest()[:16]}"
        if not target.exists():
            new = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
            for name, data in self._model_files(manifest.fingerprint).items():
                if hashlib.sha256(data).hexdigest() != checksums.get(name):
                    raise ArtefactError(f"{self.address} is damaged ({name} of the model does not fit its checksum).")
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise ArtefactError(f"{self.address} is damaged (a file of the model is named {name!r}).")
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(data)
            try:
                new.replace(target)
            except OSError:  # another process was faster
                shutil.rmtree(new, ignore_errors=True)
        self.model_folder = target
        self.manifest = manifest

    def change_model(self, save: Callable[[Path], object]) -> None:
        """Change a copy of the model, and store it."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            copy = Path(folder) / "model"
            shutil.copytree(self.model_folder, copy)
            save(copy)
            self._store_model(self.manifest.fingerprint, model_files(copy))
        self._use(self.manifest)

    @abstractmethod
    def _store_model(self, fingerprint: str, files: Mapping[str, bytes]) -> None:
        """Store the files of a model, in place of those it has."""

    def _stored(self, path: Path) -> str:
        """Return a path as it is stored; that of a kept image is relative to the folder of the store."""
        return str(path).removeprefix(f"{self.folder}{os.sep}")

    def _copy_images(self, files: Iterable[tuple[str, int]]) -> None:
        """Copy kept images, given by stored path and modification time, to the local folder if they are not there."""
        times = {Path(path).name: mtime_ns for path, mtime_ns in files if not Path(path).is_absolute()}
        missing = [name for name in times if not (self.folder / IMAGES / name).exists()]
        for name, data in self._kept_images(missing).items() if missing else ():
            path = self.folder / IMAGES / name
            with atomic_write(path) as file:
                file.write(data)
            os.utime(path, ns=(times[name], times[name]))

    def _entry(self, values: Sequence[Any], labels: tuple[str, ...], metadata: Mapping[str, Any]) -> Entry:
        """Return an entry from id, path, checksum, size of the file, width, height and modification time."""
        number, path, sha256, n_bytes, width, height, mtime_ns = values
        place = str(self.folder / path)
        return Entry(number, place, bytes(sha256).hex(), n_bytes, width, height, mtime_ns, labels, metadata)

    def _pair(self, packed: Sequence[bytes], manifest: SearchManifest) -> CodePair:
        rows = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
        return CodePair.from_packed(rows, manifest.n_bits, manifest.look_bits)


def model_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their relative names."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def searchable_text(path: str, labels: Iterable[str], metadata: str) -> str:
    """Return file name, labels and values of the metadata, casefolded and separated by spaces.

    A word without spaces occurs in it if and only if it occurs in one of them; see :class:`ddsh.search.store.Filter`.
    """
    texts = [path[path.rfind(os.sep) + 1 :], *labels, *_values(json.loads(metadata))]
    return " ".join(" ".join(texts).casefold().replace("\0", "\N{REPLACEMENT CHARACTER}").split())


def _values(content: object) -> list[str]:
    """Return the values of JSON data as text, written as SQLite and Python write them."""
    if isinstance(content, dict | list):
        parts = content.values() if isinstance(content, dict) else content
        return [text for part in parts for text in _values(part)]
    if content is None:
        return []
    return [str(int(content)) if isinstance(content, bool) else str(content)]


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "ddsh" / "stores"
