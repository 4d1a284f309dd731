"""Counts of items and relevant items by Hamming distance to queries.

With ties averaged, scores are functions of these counts. Queries that are equal in code and labels are counted once,
and so are equal items of the database. NumPy counts, or numba where it is installed and there is much to count.
"""

import importlib
import logging
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.labels import Labels

__all__ = ["Counts", "Groups", "count_by_distance", "get_kernel"]

_LOG = logging.getLogger(__name__)

_compared = 0  # pairs so far
_kernel: Any = None  # False if it cannot be loaded


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
        if codes.n_bits + len(distinct).bit_length() <= 64:  # one word has room for both, which sorts faster
            keys = keys[:1] | keys[1:] << np.uint64(codes.n_bits)
            order = np.argsort(keys[0])
        else:
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

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Where the groups of each label set start, and the number of groups."""
        return np.searchsorted(self.label_ids, np.arange(len(self.labels) + 1))

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """The codes as 64-bit words, a row per group."""
        return np.ascontiguousarray(self.codes.words().T)


def count_by_distance(queries: Groups, database: Groups) -> Counts:
    """Count the items of `database` by their distance from each group of `queries`."""
    n_bits = queries.codes.n_bits
    shape = (len(queries.codes), n_bits + 1)
    counts = Counts(np.zeros(shape, np.int64), np.zeros(shape, np.int64))
    kernel = get_kernel(len(queries.codes) * len(database.codes))
    sizes = database.sizes if (database.sizes > 1).any() else database.sizes[:0]
    for label_id, (start, stop) in enumerate(pairwise(queries.edges.tolist())):
        label_set = queries.labels.take(slice(label_id, label_id + 1))
        is_relevant = label_set.similar(database.labels)[0]
        total, relevant = counts.total[start:stop], counts.relevant[start:stop]
        if kernel is None:
            _count_with_numpy(queries.codes[start:stop], database, sizes, is_relevant, Counts(total, relevant))
        else:
            some = queries.words[start:stop]
            kernel(some, database.words, sizes, database.edges, is_relevant.astype(np.uint8), total, relevant)
    return counts


def _count_with_numpy(
    queries: BinaryCodes, database: Groups, sizes: NDArray[np.int64], is_relevant: NDArray[np.bool_], counts: Counts
) -> None:
    """Fill in the counts of queries with equal labels; without `sizes`, all are 1."""
    weights = sizes.astype(np.float64) if len(sizes) else None
    relevant = np.flatnonzero(is_relevant[database.label_ids])
    some = None if weights is None else weights[relevant]
    for rows, distances in queries.hamming_blocks(database.codes):
        counts.total[rows] = _histograms(distances, weights, queries.n_bits)
        counts.relevant[rows] = _histograms(distances[:, relevant], some, queries.n_bits)


def get_kernel(n_pairs: int, worth_loading: int = 1_000_000_000) -> Any | None:  # noqa: ANN401 -- a function of numba
    """Return the compiled function, or None as long as NumPy does the work.

    It is loaded once NumPy has compared as many pairs as take longer than loading it. The first time on a machine it is
    compiled, which takes some seconds.

    Parameters
    ----------
    n_pairs : int
        Number of pairs that are about to be compared.
    worth_loading : int
        Number of pairs from which on the function is loaded.
    """
    global _compared, _kernel
    _compared += n_pairs
    if _kernel is None and _compared >= worth_loading:
        try:
            _kernel = importlib.import_module("ddsh.evaluation._compiled_counts").add_counts
        except ImportError as error:  # numba is not installed, or not for this version of NumPy
            _LOG.info("Codes are scored with NumPy alone (%s).", error)
            _kernel = False
    return _kernel or None


def _histograms(
    distances: NDArray[np.unsignedinteger[Any]], weights: NDArray[np.float64] | None, n_bits: int
) -> NDArray[np.int64]:
    """Return the weighted histogram of the distances 0 .. n_bits of each row."""
    rows = [np.bincount(row, weights, minlength=n_bits + 1) for row in distances]
    return np.asarray(rows).astype(np.int64, copy=False)
