"""Exhaustive search, compiled or with NumPy."""

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ddsh.index._engine import NO_SKIP, Found, find_nearest, find_within
from ddsh.index._matches import Integers, Matches, Words
from ddsh.index._scan import collect, scan_rows
from ddsh.index.base import Index

__all__ = ["ExactIndex", "scan_compiled"]


class ExactIndex(Index):
    """Compares every query with every code.

    It needs no time to build; with numba, a scan is about as fast as memory can be read.

    Parameters
    ----------
    n_bits : int
        Code length, 1 to 1024.
    """

    name = "exact"

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Matches:
        return scan_rows(self._codes.words, rows, queries, k, radius, collect)

    def _find_compiled(
        self, kernels: ModuleType, queries: Words, rows: Integers | None, k: int | None, radius: int
    ) -> Found:
        return scan_compiled(kernels, self._codes.words, self.skipped(rows), rows, queries, k, radius)


def scan_compiled(
    kernels: ModuleType,
    words: Words,
    skip: NDArray[np.uint8],
    rows: Integers | None,
    queries: Words,
    k: int | None,
    radius: int,
) -> Found:
    """Compare queries with all codes or, if they are few, with those of `rows` only; `skip` leaves out the others."""
    is_few = rows is not None and 8 * len(rows) < len(words)
    if rows is not None and is_few:
        words, skip = words[rows], NO_SKIP
    if k is None:
        found = find_within(lambda query: kernels.scan_within(words, skip, query, radius), queries)
    else:
        k = min(k, max(1, len(words)))
        found = find_nearest(lambda some, k, *out: kernels.scan_nearest(words, skip, some, k, radius, *out), queries, k)
    if rows is not None and is_few:
        return found[0], rows[found[1]], found[2]
    return found
