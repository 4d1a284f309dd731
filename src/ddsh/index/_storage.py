"""File format of indexes: ``index.json`` and one ``.npy`` file per array.

Every save writes files under new names and then replaces ``index.json``, which lists the valid ones; the old files are
deleted last. So the folder holds a complete index at every moment, and processes that opened the old one keep it.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator

from ddsh.codes import MAX_BITS
from ddsh.errors import ArtefactError
from ddsh.storage import Manifest, atomic_write, sync_folder

_MANIFEST = "index.json"
_ATTEMPTS = 5
_HASH_THREADS = 4
_FILE_NAME = re.compile(r"\.?[a-z]+-([0-9a-f]{16})\.npy(\..+)?")


class ArrayFile(BaseModel):
    """Type, shape, file size and checksum of one array."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    dtype: str
    shape: tuple[int, ...]
    n_bytes: int
    sha256: str


class IndexManifest(Manifest):
    """The content of ``index.json``.

    Parameters
    ----------
    kind : str
        Name of the index that was saved, such as ``"exact"``.
    n_bits, count : int
        Length and number of the codes.
    generation : str
        Part of the file names; files with the same generation belong together.
    arrays : mapping of str to ArrayFile
        The arrays by name.
    """

    format_version: ClassVar[int] = 2
    kind: str
    n_bits: int
    count: int
    generation: str
    arrays: dict[str, ArrayFile]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read the manifest of a folder."""
        missing = f"{folder} holds no index ({_MANIFEST} is missing)."
        return cls.read(folder / _MANIFEST, missing=missing, advice="save the index again")

    @classmethod
    def upgrade(cls, content: dict[str, Any], version: object) -> dict[str, Any] | None:
        """Accept version 1, whose numbers are wider; refuse every other version; a file without one is damaged."""
        if version is None:
            raise KeyError("version")
        return content if version == 1 else None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if not 1 <= self.n_bits <= MAX_BITS:
            raise ValueError(f"n_bits is {self.n_bits}")
        if not all(_FILE_NAME.fullmatch(self.file_name(name)) for name in self.arrays):
            raise ValueError("the names of its files are not those of an index")
        if not {"ids", "codes"} <= self.arrays.keys():
            raise ValueError("ids or codes are missing")
        ids, codes = self.arrays["ids"], self.arrays["codes"]
        shapes = (self.count,), (self.count, (self.n_bits + 63) // 64)
        if ids.dtype not in ("<u4", "<i8") or codes.dtype != "<u8" or (ids.shape, codes.shape) != shapes:
            raise ValueError(f"ids and codes are not those of {self.count} codes of {self.n_bits} bits")
        return self

    def file_name(self, array: str) -> str:
        """Return the name of the file that holds an array."""
        return f"{array}-{self.generation}.npy"


@dataclass(frozen=True, eq=False)
class SavedIndex:
    """A saved index: its folder, code length and memory-mapped arrays."""

    path: Path
    n_bits: int
    arrays: Mapping[str, NDArray[Any]]


class _Replaced(Exception):
    """The files were replaced between reading the manifest and opening them."""


def write_arrays(path: str | os.PathLike[str], kind: str, n_bits: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an index to a folder, replacing the one it holds."""
    folder, generation = Path(path), secrets.token_hex(8)
    files = {}
    try:
        for name, array in arrays.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            with atomic_write(folder / f"{name}-{generation}.npy") as file:
                np.save(file, little, allow_pickle=False)
                n_bytes = file.tell()
            shape, dtype = little.shape, little.dtype.str
            files[name] = ArrayFile(dtype=dtype, shape=shape, n_bytes=n_bytes, sha256=_checksum(little))
        sync_folder(folder)
        count = len(arrays["ids"])
        manifest = IndexManifest(kind=kind, n_bits=n_bits, count=count, generation=generation, arrays=files)
        manifest.write(folder / _MANIFEST)
        sync_folder(folder)
    finally:
        # Files of replaced or interrupted saves; one that another process has open may have to stay.
        with suppress(OSError, ArtefactError):
            current = IndexManifest.open(folder).generation
            for other in list(folder.iterdir()):
                match = _FILE_NAME.fullmatch(other.name)
                if match and match[1] != current:
                    with suppress(OSError):
                        other.unlink()


def open_arrays(path: str | os.PathLike[str], derived: tuple[str, ...]) -> SavedIndex:
    """Map the arrays of a saved index into memory.

    Parameters
    ----------
    path : path
        The folder.
    derived : tuple of str
        Arrays to open in addition to ``ids`` and ``codes``, if all of them were saved.

    Returns
    -------
    SavedIndex
        The arrays; their sizes, headers and checksums have been checked.

    Raises
    ------
    ArtefactError
        If a file is missing or damaged.
    """
    folder = Path(path)
    for _ in range(_ATTEMPTS):
        manifest = IndexManifest.open(folder)
        has_derived = all(name in manifest.arrays for name in derived)
        names = ("ids", "codes", *(derived if has_derived else ()))
        with suppress(_Replaced):
            arrays = {name: _map(folder, manifest, name) for name in names}
            _verify(folder, manifest, arrays)
            return SavedIndex(folder, manifest.n_bits, arrays)
    raise ArtefactError(f"{path} is being replaced all the time; try again when no process saves to it.")


def verify(path: str | os.PathLike[str]) -> None:
    """Read every file of a saved index and compare its checksum; loading an index does so for the files it needs.

    Raises
    ------
    ArtefactError
        If a checksum differs.
    """
    folder = Path(path)
    manifest = IndexManifest.open(folder)
    _verify(folder, manifest, {name: _map(folder, manifest, name) for name in manifest.arrays})


def _verify(folder: Path, manifest: IndexManifest, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise if an array does not fit its checksum; hashing lets other threads run, so each has its own."""
    with ThreadPoolExecutor(_HASH_THREADS) as threads:
        for name, checksum in zip(arrays, threads.map(_checksum, arrays.values()), strict=True):
            if checksum != manifest.arrays[name].sha256:
                raise ArtefactError(f"{folder / manifest.file_name(name)} is damaged; save or copy the index again.")


def kind_of(path: str | os.PathLike[str], known: Container[str]) -> str:
    """Return the name of the index that a folder holds."""
    kind = IndexManifest.open(Path(path)).kind
    if kind not in known:
        raise ArtefactError(f"{path} holds an index of the kind {kind!r}, which this ddsh does not have; update ddsh.")
    return kind


def _map(folder: Path, manifest: IndexManifest, name: str) -> NDArray[Any]:
    """Map one array after checking its file size and header against the manifest."""
    path, expected = folder / manifest.file_name(name), manifest.arrays[name]
    try:
        n_bytes = path.stat().st_size
        if n_bytes != expected.n_bytes:
            raise ArtefactError(f"{path} has {n_bytes} bytes; expected {expected.n_bytes}. Copy the index again.")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except FileNotFoundError:
        if IndexManifest.open(folder).generation != manifest.generation:
            raise _Replaced from None
        raise ArtefactError(f"{path} is missing; copy the whole folder again.") from None
    except ArtefactError:
        raise
    except Exception as error:  # a damaged header makes NumPy raise almost anything
        raise ArtefactError(f"{path} cannot be opened ({' '.join(str(error).split())}).") from error
    if (array.dtype.str, array.shape) != (expected.dtype, expected.shape):
        raise ArtefactError(f"{path} holds {array.dtype} {array.shape}; expected {expected.dtype} {expected.shape}.")
    return array


def _checksum(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()
