"""Choice between compiled kernels and NumPy; both give the same results."""

import importlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Thread
from types import ModuleType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.index._matches import MAX_MATCHES, MAX_QUERIES, Integers, Words

Numbers: TypeAlias = NDArray[np.uint32]
Found: TypeAlias = tuple[Integers, Integers, Integers]
"""Offsets of the queries, rows and distances."""

NO_NUMBERS: Numbers = np.empty(0, np.uint32)
NO_SKIP: NDArray[np.uint8] = np.empty(0, np.uint8)

# Codes that NumPy compares in about the time that it takes to load the kernels. Who searches less does not load them.
_WORTH_LOADING = 50_000_000

_log = logging.getLogger(__name__)
_lock = Lock()
_module: ModuleType | None = None
_loader: Thread | None = None
_compared = 0
_temporary: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def get_kernels(n_comparisons: int) -> ModuleType | None:
    """Return the compiled kernels, or None as long as NumPy does the work.

    They are loaded in the background once NumPy has compared as many codes as loading costs. The first time on a
    machine, they are compiled, which takes a minute.

    Parameters
    ----------
    n_comparisons : int
        Number of codes that are about to be compared.
    """
    global _compared, _loader
    if _module is None:
        _compared += n_comparisons
        if _compared > _WORTH_LOADING and _loader is None:
            _loader = Thread(target=load_kernels, name="ddsh-kernels", daemon=True)
            _loader.start()
    return _module


def load_kernels() -> bool:
    """Load the compiled search kernels now; return whether numba is installed.

    Searches load them in the background by themselves, as soon as they have done work that is worth it. The kernels are
    compiled once for each machine and kept in the user's cache folder, ``~/.cache/ddsh/kernels`` on Linux
    (``NUMBA_CACHE_DIR`` names another one).
    """
    global _module
    with _lock:
        if _module is None:
            try:
                numba = importlib.import_module("numba")
            except ImportError as error:  # not installed, or not for this version of NumPy
                _log.info("Searches use NumPy alone (%s).", error)
                return False
            previous = numba.config.CACHE_DIR
            numba.config.CACHE_DIR = previous or _cache_folder()
            try:
                _module = importlib.import_module("ddsh.index._compiled")
            finally:
                numba.config.CACHE_DIR = previous
    return True


def _cache_folder() -> str:
    """Return the folder for compiled kernels: the user's, or a new one if that cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    folder = Path(base) / "ddsh" / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError as error:
        _log.info("%s cannot be written (%s): search kernels are compiled again in every process.", folder, error)
        _temporary.append(tempfile.TemporaryDirectory(prefix="ddsh-kernels-"))
        return _temporary[-1].name


def find_nearest(search: Callable[[Words, int, Integers, Integers, Integers], None], queries: Words, k: int) -> Found:
    """Call a kernel ``search(queries, k, rows, distances, counts)`` for a few queries at a time; join the results."""
    if len(queries) == 1:  # most searches: every step counts that costs as much as the search itself
        offsets, rows, distances = np.zeros(2, np.int64), np.empty(k, np.int64), np.empty(k, np.int64)
        search(queries, k, rows, distances, offsets[1:])
        count = offsets.item(1)
        return (offsets, rows, distances) if count == k else (offsets, rows[:count], distances[:count])
    step = max(1, min(MAX_QUERIES, MAX_MATCHES // k))
    parts = []
    for start in range(0, len(queries), step):
        some = queries[start : start + step]
        rows, distances = np.empty(len(some) * k, np.int64), np.empty(len(some) * k, np.int64)
        counts = np.empty(len(some), np.int64)
        search(some, k, rows, distances, counts)
        if counts.min() < k:
            filled = (np.arange(k) < counts[:, None]).reshape(-1)
            rows, distances = rows[filled], distances[filled]
        parts.append((counts, rows, distances))
    return _join(parts)


def find_within(search: Callable[[Words], tuple[Integers, Integers]], queries: Words) -> Found:
    """Call a kernel ``search(query)`` for each query and join the results."""
    found = [search(query) for query in queries]
    if len(found) == 1:
        return np.array((0, len(found[0][0]))), *found[0]
    return _join([(np.array([len(rows)]), rows, distances) for rows, distances in found])


def _join(parts: list[Found]) -> Found:
    if not parts:
        return np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    counts, rows, distances = parts[0]
    if len(parts) > 1:
        counts, rows, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets, rows, distances
