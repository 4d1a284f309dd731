"""Atomic writes, ``.npz`` files, versioned JSON files and locks."""

import io
import json
import math
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from ddsh.errors import ArtefactError, Busy, DataError

__all__ = ["Manifest", "atomic_write", "locked", "read_npz", "read_pickled_arrays", "sync_folder", "write_npz"]

MAX_JSON_BYTES = 100_000_000
MAX_PICKLE_BYTES = 1 << 30
MAX_NPZ_BYTES = 8 << 30
_SMALL_NPZ_BYTES = 1 << 28
_MAX_ARRAYS = 1000
_MAX_RATIO = 200  # codes hardly shrink when they are compressed; a file that grows far more is not one of codes

_umask = os.umask(0)  # the mask can only be read by setting it
os.umask(_umask)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` only when the block succeeds.

    Parameters
    ----------
    path : path
        The file to write; its folder is created if needed.

    Yields
    ------
    file
        A binary file open for writing.

    Raises
    ------
    ArtefactError
        If the disk is full or the folder is not writable; an existing file is not changed.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask)
        temporary.replace(target)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise ArtefactError(
                f"{target} cannot be written ({reason}); free some space or choose another path."
            ) from error
        raise


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Flush the names of new files in a folder to disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write `arrays` to `path` as a compressed ``.npz`` file, atomically."""
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **dict(arrays))


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read all arrays of an ``.npz`` file; pickled objects and files that grow beyond measure are refused."""
    try:
        with Path(path).open("rb") as file:
            if file.read(4) == b"PK\3\4":
                _check_npz(path, file)
            file.seek(0)
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ArtefactError(f"{path} holds a single array; expected an .npz file with named arrays.")
            return {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise ArtefactError(f"{path} does not exist; give the path of an .npz file.") from None
    except ArtefactError:
        raise
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read ({error.strerror or error}).") from error
    except Exception as error:  # a damaged file makes NumPy and zipfile raise almost anything
        raise ArtefactError(f"{path} is not an .npz file of plain arrays, or it is damaged; write it again.") from error


def _check_npz(path: str | os.PathLike[str], file: IO[bytes]) -> None:
    """Refuse an ``.npz`` file whose arrays take far more memory than the file suggests."""
    limit = min(MAX_NPZ_BYTES, max(_SMALL_NPZ_BYTES, _MAX_RATIO * os.fstat(file.fileno()).st_size))
    with zipfile.ZipFile(file) as archive:
        n_bytes = 0
        if len(archive.infolist()) > _MAX_ARRAYS:
            raise ArtefactError(f"{path} holds {len(archive.infolist()):,} arrays; expected {_MAX_ARRAYS:,} at most.")
        for entry in archive.infolist():
            with archive.open(entry) as opened:
                version = np.lib.format.read_magic(opened)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(opened)
            n_bytes += max(entry.file_size, math.prod(shape) * dtype.itemsize)
    if n_bytes > limit:
        raise ArtefactError(f"{path} holds arrays of {n_bytes:,} bytes; a file of its size may have {limit:,}.")


class Manifest(BaseModel):
    """Base class of versioned JSON files.

    Subclasses declare their fields; unknown fields, wrong types and other versions are refused on reading.

    Attributes
    ----------
    format_version : int
        Version that is written; other versions are read only through :meth:`upgrade`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format_version: ClassVar[int] = 1

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        with atomic_write(path) as file:
            file.write(self.to_json().encode())

    def to_json(self) -> str:
        """Return the content of the file."""
        content = {"version": self.format_version, **self.model_dump(mode="json")}
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, missing: str | None = None, advice: str = "make it again") -> Self:
        """Read a file that :meth:`write` wrote.

        Parameters
        ----------
        path : path
            The file.
        missing : str, optional
            Error message if the file does not exist.
        advice : str
            What to do about a damaged file.
        """
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_JSON_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            raise ArtefactError(missing or f"{path} does not exist.") from None
        except OSError as error:
            raise ArtefactError(f"{path} cannot be read ({error.strerror or error}).") from error
        return cls.from_json(data, path, advice=advice)

    @classmethod
    def from_json(cls, data: str | bytes, source: str | os.PathLike[str], *, advice: str = "make it again") -> Self:
        """Read what :meth:`to_json` returned; `source` names where it is from in messages."""
        try:
            if len(data) > MAX_JSON_BYTES:
                raise ValueError(f"more than {MAX_JSON_BYTES:,} bytes")
            content = json.loads(data)
            if not isinstance(content, dict):
                raise ValueError("not an object")
            version = content.pop("version", None)
            if version != cls.format_version:
                content = cls.upgrade(content, version)
            if content is None:
                raise ArtefactError(f"{source} has version {version}; this ddsh reads version {cls.format_version}.")
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise ArtefactError(f"{source} is damaged ({field}: {first['msg']}); {advice}.") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise ArtefactError(f"{source} is damaged ({type(error).__name__}: {reason}); {advice}.") from error

    @classmethod
    def upgrade(cls, content: dict[str, Any], version: object) -> dict[str, Any] | None:
        """Return the content of an older version in the current format, or None."""
        return None


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: float, busy: str) -> Iterator[None]:
    """Hold an exclusive lock between threads and processes.

    The operating system releases the lock when the process ends.

    Parameters
    ----------
    path : path
        The lock file.
    wait : float
        Seconds to wait for the lock; negative waits forever.
    busy : str
        Message of :class:`~ddsh.errors.Busy`, raised if the lock is not free.
    """
    try:
        # Not a singleton and not thread-local, so that it also excludes threads of this process.
        lock = FileLock(path, timeout=wait, thread_local=False, poll_interval=0.02)
        lock.acquire()
    except Timeout:
        raise Busy(busy) from None
    except OSError as error:
        raise ArtefactError(f"{path} cannot be locked ({error.strerror or error}).") from error
    try:
        yield
    finally:
        lock.release()


# NumPy's constructors of pickled arrays: empty, or (since protocol 5) from bytes.
_rebuild_array = np.empty(0).__reduce__()[0]
_array_of_bytes = np.empty(0).__reduce_ex__(5)[0]


class _ArrayUnpickler(pickle._Unpickler):
    """Unpickler of NumPy arrays and plain values only; it cannot run code.

    It is the one in Python: the one in C takes gigabytes for a short file that names a large place in its memo.
    """

    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(pickle._Unpickler.dispatch)
    read: Callable[[int], bytes]
    append: Callable[[object], None]

    _ALLOWED: Mapping[tuple[str, str], Any] = {
        ("numpy.core.multiarray", "_reconstruct"): _rebuild_array,
        ("numpy._core.multiarray", "_reconstruct"): _rebuild_array,
        ("numpy.core.numeric", "_frombuffer"): _array_of_bytes,
        ("numpy._core.numeric", "_frombuffer"): _array_of_bytes,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
    }

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 -- pickle's own signature
        """Return a constructor of arrays, or raise."""
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a file of arrays") from None

    def load_bytearray8(self) -> None:
        """Read bytes; Python's own method allocates the length that a damaged file claims."""
        (length,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(min(length, MAX_PICKLE_BYTES))))

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8


def read_pickled_arrays(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401 -- any content of a pickle
    """Read a pickle of containers, numbers, strings and arrays without running code.

    Pickles of Python 2 and 3 are read; strings of Python 2 are returned as bytes.
    """
    source = Path(path)
    try:
        if source.stat().st_size > MAX_PICKLE_BYTES:
            raise DataError(f"{path} has {source.stat().st_size:,} bytes, at most {MAX_PICKLE_BYTES:,} are read.")
        return _ArrayUnpickler(io.BytesIO(source.read_bytes()), encoding="bytes").load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle makes the unpickler raise almost anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{path} is not a pickle of arrays ({reason}).") from error
