"""Indexes on disk: a folder with ``index.json`` and one ``.npy`` file per array, which can be mapped into memory.

Every save writes files with names of their own and then replaces ``index.json``, which says which ones count; only
after that the old ones go. So there is a whole index at every moment, and whoever has opened the old one keeps it.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import MAX_BITS
from ddsh.errors import ArtefactError
from ddsh.storage import atomic_write

FORMAT_VERSION = 1
_MANIFEST = "index.json"
_MAX_MANIFEST_BYTES = 1 << 20
_ATTEMPTS = 5
_OURS = re.compile(r"\.?[a-z]+-([0-9a-f]{16})\.npy(\..+)?")


@dataclass(frozen=True)
class ArrayFile:
    """What the manifest says of one array: its type and shape, the size of its file, the checksum of its content."""

    dtype: str
    shape: tuple[int, ...]
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of ``index.json``.

    Parameters
    ----------
    kind : str
        Which index saved it, such as ``"exact"``.
    n_bits, count : int
        The length of the codes, and how many there are.
    generation : str
        Part of the names of the files that belong together.
    arrays : mapping of str to ArrayFile
        The arrays by name.
    """

    kind: str
    n_bits: int
    count: int
    generation: str
    arrays: Mapping[str, ArrayFile]

    def file_name(self, array: str) -> str:
        """Return which file of the folder holds an array."""
        return _file_name(array, self.generation)


@dataclass(frozen=True, eq=False)
class Saved:
    """An opened index: where it is, the length of its codes, and its arrays, mapped into memory."""

    path: Path
    n_bits: int
    arrays: Mapping[str, NDArray[Any]]


class _Replaced(Exception):
    """The files were replaced between reading the manifest and opening them."""


def write_arrays(path: str | os.PathLike[str], kind: str, n_bits: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an index to a folder, in place of one that may be there."""
    folder, generation = Path(path), secrets.token_hex(8)
    try:
        files = {name: _write(folder / _file_name(name, generation), array) for name, array in arrays.items()}
        _sync(folder)
        manifest = Manifest(kind, n_bits, len(arrays["ids"]), generation, files)
        with atomic_write(folder / _MANIFEST) as file:
            file.write(json.dumps({"version": FORMAT_VERSION, **asdict(manifest)}, indent=2).encode())
        _sync(folder)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be written ({error.strerror or error}); choose another folder.") from error
    finally:
        _remove_others(folder)


def open_arrays(path: str | os.PathLike[str], derived: tuple[str, ...]) -> Saved:
    """Map the arrays of a saved index into memory.

    Parameters
    ----------
    path : path
        The folder.
    derived : tuple of str
        Arrays that are wanted beside ``ids`` and ``codes``, all or none of them.

    Returns
    -------
    Saved
        The arrays; their sizes and headers were checked, their content was not read.
    """
    folder = Path(path)
    for _ in range(_ATTEMPTS):
        manifest = read_manifest(folder)
        has_derived = all(name in manifest.arrays for name in derived)
        names = ("ids", "codes", *(derived if has_derived else ()))
        with suppress(_Replaced):
            return Saved(folder, manifest.n_bits, {name: _map(folder, manifest, name) for name in names})
    raise ArtefactError(f"{path} is being replaced all the time; try again when nobody saves to it.")


def verify(path: str | os.PathLike[str]) -> None:
    """Read every file of a saved index and compare its checksum; raise ArtefactError where it differs."""
    folder = Path(path)
    manifest = read_manifest(folder)
    for name, file in manifest.arrays.items():
        if _checksum(_map(folder, manifest, name)) != file.sha256:
            raise ArtefactError(f"{folder / manifest.file_name(name)} is damaged; save or copy the index again.")


def kind_of(path: str | os.PathLike[str], known: Container[str]) -> str:
    """Return which index saved a folder."""
    kind = read_manifest(Path(path)).kind
    if kind not in known:
        raise ArtefactError(f"{path} holds an index of the kind {kind!r}, which this ddsh does not have; update ddsh.")
    return kind


def read_manifest(folder: Path) -> Manifest:
    """Read ``index.json``, or say what is wrong with it."""
    path = folder / _MANIFEST
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_MANIFEST_BYTES))
        version = content["version"]
        manifest = _parse(content) if version == FORMAT_VERSION else None
    except (FileNotFoundError, NotADirectoryError):
        raise ArtefactError(f"{folder} holds no index ({_MANIFEST} is missing).") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ArtefactError(f"{path} is damaged ({type(error).__name__}: {reason}); save the index again.") from error
    if manifest is None:
        raise ArtefactError(f"{path} has version {version}; this ddsh reads version {FORMAT_VERSION}.")
    return manifest


def _parse(content: Mapping[str, Any]) -> Manifest:
    """Return the manifest, or raise what says that it is none."""
    arrays = {
        name: ArrayFile(str(file["dtype"]), tuple(map(int, file["shape"])), int(file["n_bytes"]), str(file["sha256"]))
        for name, file in content["arrays"].items()
    }
    numbers = int(content["n_bits"]), int(content["count"])
    manifest = Manifest(str(content["kind"]), *numbers, str(content["generation"]), arrays)
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    """Raise ValueError or KeyError unless the parts of a manifest fit each other and name files of ours."""
    if not 1 <= manifest.n_bits <= MAX_BITS:
        raise ValueError(f"n_bits is {manifest.n_bits}")
    if not all(_OURS.fullmatch(manifest.file_name(name)) for name in manifest.arrays):
        raise ValueError("the names of its files are not those of an index")
    ids, codes = manifest.arrays["ids"], manifest.arrays["codes"]
    shapes = (manifest.count,), (manifest.count, (manifest.n_bits + 63) // 64)
    if (ids.dtype, codes.dtype) != ("<i8", "<u8") or (ids.shape, codes.shape) != shapes:
        raise ValueError(f"ids and codes are not those of {manifest.count} codes of {manifest.n_bits} bits")


def _file_name(array: str, generation: str) -> str:
    return f"{array}-{generation}.npy"


def _write(path: Path, array: NDArray[Any]) -> ArrayFile:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    with atomic_write(path) as file:
        np.save(file, little, allow_pickle=False)
        n_bytes = file.tell()
    return ArrayFile(little.dtype.str, little.shape, n_bytes, _checksum(little))


def _map(folder: Path, manifest: Manifest, name: str) -> NDArray[Any]:
    """Map one array, after its size and its header were found to be as the manifest says."""
    path, expected = folder / manifest.file_name(name), manifest.arrays[name]
    try:
        n_bytes = path.stat().st_size
        if n_bytes != expected.n_bytes:
            raise ArtefactError(f"{path} has {n_bytes} bytes; expected {expected.n_bytes}. Copy the index again.")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except FileNotFoundError:
        if read_manifest(folder).generation != manifest.generation:
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


def _sync(folder: Path) -> None:
    """Make the names of new files as lasting as their content, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_others(folder: Path) -> None:
    """Remove files of saves that were replaced or cut short; one that is still in use elsewhere may stay."""
    with suppress(OSError, ArtefactError):
        current = read_manifest(folder).generation
        for path in list(folder.iterdir()):
            match = _OURS.fullmatch(path.name)
            if match and match[1] != current:
                with suppress(OSError):
                    path.unlink()
