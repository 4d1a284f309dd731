"""Counts of items and relevant items by Hamming distance to queries.

With ties averaged, scores are functions of these counts. Queries that are equal in code and labels are counted once,
and so are equal items of the database.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.labels import Labels

__all__ = ["Counts", "Groups", "count_by_distance"]


@dataclass(frozen=True)
class Counts:
    """Number of items at each distance from each query.

    Parameters
    ----------
    total : ndarray of int, shape (n_query, n_bits + 1)
        Items of the database at each distance.
    relevant : ndarray of int, shape (n_query, n_bits + 1)
        Relevant items among them.
    """

    total: NDArray[np.int64]
    relevant: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp]) -> "Counts":
        """Return the counts of the given queries."""
        return Counts(self.total[rows], self.relevant[rows])


@dataclass(frozen=True)
class Groups:
    """The distinct (code, label set) pairs of a labelled set, ordered by label set.

    Parameters
    ----------
    codes : BinaryCodes
        The code of each group.
    labels : Labels
        The distinct label sets.
    label_ids : ndarray of int
        The label set of each group, ascending.
    sizes : ndarray of int
        Number of items of each group.
    group_of : ndarray of int
        The group of each item.
    """

    codes: BinaryCodes
    labels: Labels
    label_ids: NDArray[np.intp]
    sizes: NDArray[np.int64]
    group_of: NDArray[np.intp]

    @classmethod
    def of(cls, codes: BinaryCodes, labels: Labels) -> "Groups":
        """Group the items that are equal in code and labels."""
        distinct, ids = labels.distinct()
        keys = np.vstack([codes.words(), ids.astype(np.uint64)])
        order = np.lexsort(keys)
        ordered = keys[:, order]
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
        starts = np.flatnonzero(is_first)
        group_of = np.empty(len(codes), np.intp)
        group_of[order] = np.cumsum(is_first) - 1
        firsts = order[starts]
        sizes = np.diff(starts, append=len(codes))
        return cls(codes[firsts], distinct, ids[firsts], sizes, group_of)


def count_by_distance(queries: Groups, database: Groups) -> Counts:
    """Count the items of `database` by their distance from each group of `queries`."""
    n_bits = queries.codes.n_bits
    shape = (len(queries.codes), n_bits + 1)
    counts = Counts(np.empty(shape, np.int64), np.empty(shape, np.int64))
    weights = None if (database.sizes == 1).all() else database.sizes.astype(np.float64)
    edges = np.searchsorted(queries.label_ids, np.arange(len(queries.labels) + 1))
    for label_id, (start, stop) in enumerate(pairwise(edges.tolist())):
        label_set = queries.labels.take(slice(label_id, label_id + 1))
        relevant = np.flatnonzero(label_set.similar(database.labels)[0][database.label_ids])
        some = None if weights is None else weights[relevant]
        for rows, distances in queries.codes[start:stop].hamming_blocks(database.codes):
            block = slice(start + rows.start, start + rows.stop)
            counts.total[block] = _histograms(distances, weights, n_bits)
            counts.relevant[block] = _histograms(distances[:, relevant], some, n_bits)
    return counts


def _histograms(
    distances: NDArray[np.unsignedinteger[Any]], weights: NDArray[np.float64] | None, n_bits: int
) -> NDArray[np.int64]:
    """Return the weighted histogram of the distances 0 .. n_bits of each row."""
    rows = [np.bincount(row, weights, minlength=n_bits + 1) for row in distances]
    return np.asarray(rows).astype(np.int64, copy=False)
