"""Matches of a search: query, row and their Hamming distance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
"""Codes as 64-bit words, shape (n, n_words)."""

MAX_QUERIES = 256
"""Number of queries that are searched together."""

MAX_MATCHES = 1 << 21
"""Number of matches that are held in memory at a time."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Rows that match some queries, in any order.

    Parameters
    ----------
    query, row, distance : ndarray of int64
        One entry per match; queries count from zero.
    """

    query: Integers
    row: Integers
    distance: Integers

    @classmethod
    def none(cls) -> Self:
        """Return no matches."""
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the matches of several searches, one after the other."""
        if not parts:
            return cls.none()
        columns = ([getattr(part, name) for part in parts] for name in ("query", "row", "distance"))
        return cls(*(np.concatenate(column) for column in columns))

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, entries: NDArray[np.bool_] | NDArray[np.integer[Any]]) -> Self:
        return replace(self, query=self.query[entries], row=self.row[entries], distance=self.distance[entries])

    def of_queries(self, queries: Integers) -> Self:
        """Return the same matches with query ``i`` renumbered to ``queries[i]``."""
        return replace(self, query=queries[self.query])

    def at_rows(self, rows: Integers) -> Self:
        """Return the same matches with row ``i`` renumbered to ``rows[i]``."""
        return replace(self, row=rows[self.row])

    def counts(self, n_queries: int) -> Integers:
        """Return the number of matches of each query."""
        return np.bincount(self.query, minlength=n_queries).astype(np.int64)


def position_in_group(sizes: Integers) -> Integers:
    """Return 0, 1, 2 ... within each of several consecutive groups, given the sizes of the groups."""
    starts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(starts, sizes)


def batches(expected: NDArray[Any]) -> Iterator[slice]:
    """Split queries into batches whose matches fit into memory together.

    Parameters
    ----------
    expected : ndarray
        Approximate number of matches of each query.

    Yields
    ------
    slice
        The next batch, of at least one query.
    """
    start = 0
    while start < len(expected):
        totals = np.cumsum(expected[start:])
        stop = start + max(1, int(np.searchsorted(totals, MAX_MATCHES, side="right")))
        yield slice(start, stop)
        start = stop
