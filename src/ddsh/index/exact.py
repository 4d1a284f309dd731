"""Exhaustive search with NumPy."""

from ddsh.index._matches import Integers, Matches, Words
from ddsh.index._scan import collect, scan_rows
from ddsh.index.base import Index

__all__ = ["ExactIndex"]


class ExactIndex(Index):
    """Compares every query with every code, in NumPy.

    It needs no other package and no time to build; the other indexes are tested against it.

    Parameters
    ----------
    n_bits : int
        Code length, 1 to 1024.
    """

    name = "exact"

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Matches:
        return scan_rows(self._codes.words, rows, queries, k, radius, collect)
