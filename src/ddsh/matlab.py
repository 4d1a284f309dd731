"""MATLAB files, read in a worker process first: a damaged one can crash."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from ddsh.errors import DataError, OverLimit
from ddsh.sandbox import Sandbox

__all__ = ["MAX_MAT_BYTES", "load_mat", "mat_shapes", "try_mat"]

MAX_MAT_BYTES = 4 << 30
"""Memory that the content of a MATLAB file may take."""

_MIN_CPU_SECONDS = 10.0
_BYTES_PER_CPU_SECOND = 1_000_000


def load_mat(
    path: str | os.PathLike[str], variables: tuple[str, ...] = (), *, simplify: bool = False
) -> dict[str, Any]:
    """Return the content of a MATLAB file (version 5 to 7), as :func:`scipy.io.loadmat` does.

    Parameters
    ----------
    path : path
        The file.
    variables : tuple of str
        The variables to read; all by default.
    simplify : bool
        Return structures as dicts.

    Raises
    ------
    DataError
        If the file is damaged, or its content takes more than `MAX_MAT_BYTES`.
    """
    _check(path, variables)
    return _read(path, variables, simplify)


def mat_shapes(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the variables of a MATLAB file without reading them."""
    from scipy.io import whosmat

    _check(path, None)
    return {name: tuple(shape) for name, shape, _ in whosmat(path)}


def try_mat(path: str, variables: list[str] | None) -> bytes:
    """Read a MATLAB file and forget it; called in a worker process."""
    if variables is None:
        from scipy.io import whosmat

        try:
            whosmat(path)
        except Exception as error:
            raise _damaged(path, error) from error
    else:
        _read(path, tuple(variables), False)
    return b""


def _read(path: str | os.PathLike[str], variables: tuple[str, ...], simplify: bool) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        return loadmat(path, variable_names=list(variables) or None, simplify_cells=simplify)
    except Exception as error:  # a damaged file makes the reader raise almost anything
        raise _damaged(path, error) from error


def _check(path: str | os.PathLike[str], variables: tuple[str, ...] | None) -> None:
    try:
        status = Path(path).stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from error
    _check_once(os.fspath(path), variables, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _check_once(path: str, variables: tuple[str, ...] | None, size: int, _time: int) -> None:
    """Read a file in a worker process, once as long as it does not change."""
    seconds = _MIN_CPU_SECONDS + size / _BYTES_PER_CPU_SECOND
    with Sandbox("ddsh.matlab:try_mat", cpu_seconds=seconds, timeout=20 * seconds, max_bytes=MAX_MAT_BYTES) as sandbox:
        try:
            sandbox.call(path=path, variables=None if variables is None else list(variables))
        except OverLimit as error:
            raise DataError(f"{path} is damaged: reading it {error}") from error


def _damaged(path: str | os.PathLike[str], error: Exception) -> DataError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return DataError(f"{path} is not a readable MATLAB file ({reason}).")
