"""The plain truth: every query is compared with every code."""

from ddsh.index._found import Found, Integers, Words
from ddsh.index._scan import collect, scan_rows
from ddsh.index.base import Index


class ExactIndex(Index):
    """Compares every query with every code, in NumPy.

    Needs nothing else, is never slow to build, and is what the other indexes are tested against.

    Parameters
    ----------
    n_bits : int
        The length of the codes, 1 to 1024.
    """

    name = "exact"

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Found:
        return scan_rows(self._rows.words, rows, queries, k, radius, collect)
