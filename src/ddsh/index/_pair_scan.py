"""Linear scan over pairs of codes: the reference for faster searches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.index._matches import Integers, Words
from ddsh.index._scan import hamming
from ddsh.index.base import order_by_distance

_ROWS_AT_ONCE = 1 << 16

Combine: TypeAlias = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.int32]]
"""Makes one distance of the Hamming distances of two codes."""


@dataclass(frozen=True, eq=False)
class PairMatches:
    """Rows that match a query, nearest first, with the distance of both codes and the two Hamming distances."""

    row: Integers
    distance: Integers
    label: Integers
    look: Integers


def scan_pairs(
    codes: tuple[Words, Words],
    query: tuple[Words, Words],
    combine: Combine,
    k: int,
    radius: int,
    rows: Integers | None = None,
) -> PairMatches:
    """Return the `k` rows nearest to one query by the distance of both codes; ties by the second code, then by row.

    Parameters
    ----------
    codes, query : tuple of ndarray
        Label bits and look bits as words, shapes (n, n_words) and (1, n_words).
    combine : callable
        Makes one distance of the two Hamming distances.
    k : int
        Number of rows.
    radius : int
        Largest distance of both.
    rows : ndarray of int64, optional
        Only these rows, ascending.
    """
    n_rows = len(codes[0]) if rows is None else len(rows)
    best = np.empty((4, 0), np.int64)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, n_rows)
        some = slice(start, stop) if rows is None else rows[start:stop]
        label, look = (
            hamming(np.ascontiguousarray(words[some].T), asked)[0] for words, asked in zip(codes, query, strict=True)
        )
        distance = combine(label, look)
        inside = np.flatnonzero(distance <= radius)
        if best.shape[1] + len(inside) > k:  # drop what lies behind the k-th of this part alone
            inside = _first(inside, distance[inside], k)
        row = inside + start if rows is None else rows[inside + start]
        best = np.hstack([best, np.stack([row, distance[inside], label[inside], look[inside]]).astype(np.int64)])
        if best.shape[1] > k:
            best = best[:, _order(best)[:k]]
            radius = int(best[1, -1])
    return PairMatches(*best[:, _order(best)])


def _first(inside: NDArray[np.intp], distances: NDArray[np.int32], k: int) -> NDArray[np.intp]:
    """Return the rows that are no further away than the k-th nearest of them."""
    if len(inside) <= k:
        return inside
    nearest: NDArray[np.intp] = inside[distances <= np.partition(distances, k - 1)[k - 1]]
    return nearest


def _order(found: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the order by distance, look distance and row."""
    row, distance, _, look = found
    return order_by_distance(distance * (int(look.max(initial=0)) + 1) + look, row)
