"""Atomic writes, and reading ``.npz`` files without pickle."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` only when the block ends well.

    Parameters
    ----------
    path : path
        The file to write; its folder is created if needed.

    Yields
    ------
    file
        A binary file open for writing.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write `arrays` to `path` as a compressed ``.npz`` file, atomically."""
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **dict(arrays))


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read every array of an ``.npz`` file; Python objects in it are refused, never unpickled."""
    try:
        with Path(path).open("rb") as file:
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


def _umask() -> int:
    """Return the process's file mode mask (it can only be read by setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
