"""What a search has found so far: which row, for which query, how far away."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import MAX_BITS

Integers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
"""Codes as 64-bit words, shape (n, n_words)."""

MAX_QUERIES = 256
"""How many queries are answered at a time."""

_FOUND_AT_ONCE = 1 << 21
_LEVELS = MAX_BITS + 1


@dataclass(frozen=True, eq=False)
class Found:
    """Rows found for some queries, in any order.

    Parameters
    ----------
    query, row, distance : ndarray of int64
        One entry each per row found; queries count from zero.
    """

    query: Integers
    row: Integers
    distance: Integers

    @classmethod
    def none(cls) -> Self:
        """Return what is found in an empty index."""
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return what several searches found, one after the other."""
        if not parts:
            return cls.none()
        columns = ([getattr(part, name) for part in parts] for name in ("query", "row", "distance"))
        return cls(*(np.concatenate(column) for column in columns))

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, entries: NDArray[np.bool_] | NDArray[np.integer[Any]]) -> Self:
        return replace(self, query=self.query[entries], row=self.row[entries], distance=self.distance[entries])

    def of_queries(self, queries: Integers) -> Self:
        """Return the same rows with query ``i`` called ``queries[i]``."""
        return replace(self, query=queries[self.query])

    def at_rows(self, rows: Integers) -> Self:
        """Return the same with row ``i`` called ``rows[i]``."""
        return replace(self, row=rows[self.row])

    def counts(self, n_queries: int) -> Integers:
        """Return how many rows each query has."""
        return np.bincount(self.query, minlength=n_queries).astype(np.int64)

    def ranked(self, k: int | None = None) -> Self:
        """Return each query's rows by distance, then by row; only the first `k` of them if it is given."""
        if not len(self):
            return self
        # One sort of one number is many times as fast as sorting by three columns.
        n_rows = int(self.row.max()) + 1
        places = np.sort((self.query * _LEVELS + self.distance) * n_rows + self.row)
        if k is not None:
            places = places[rank_in_group(self.counts(0)) < k]
        rest, row = np.divmod(places, n_rows)
        query, distance = np.divmod(rest, _LEVELS)
        return replace(self, query=query, row=row, distance=distance)


def rank_in_group(sizes: Integers) -> Integers:
    """Return 0, 1, 2 ... for each group of entries that follow each other, given the sizes of the groups."""
    starts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(starts, sizes)


def batches(expected: NDArray[Any]) -> Iterator[slice]:
    """Cut queries into runs that find so few rows together that these fit into memory.

    Parameters
    ----------
    expected : ndarray
        About how many rows each query finds.

    Yields
    ------
    slice
        The next run, of one query at least.
    """
    start = 0
    while start < len(expected):
        totals = np.cumsum(expected[start:])
        stop = start + max(1, int(np.searchsorted(totals, _FOUND_AT_ONCE, side="right")))
        yield slice(start, stop)
        start = stop
