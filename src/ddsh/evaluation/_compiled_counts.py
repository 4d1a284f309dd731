"""Compiled kernel that counts items by distance; it needs numba."""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["add_counts"]


@intrinsic
def _popcount(_context: Any, _value: Any) -> Any:
    """Return the number of bits that are set in a word."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _add_counts(
    queries: Any, database: Any, sizes: Any, edges: Any, is_relevant: Any, total: Any, relevant: Any
) -> None:
    """Add the number of items at each distance from each query to `total`, and of relevant ones to `relevant`.

    Codes are rows of 64-bit words. Items of one label set follow each other, from one of the `edges` to the next, and
    are relevant together. `sizes` belong to the items; without any, all are 1. Four queries are counted at a time, so
    that an item is read once for them; indices are unsigned, because numba checks others for being negative.
    """
    n_words, n_distances = queries.shape[1], total.shape[1]
    counts = np.zeros((2, _AT_ONCE, n_distances), np.int64)  # the second half is that of relevant items
    for start in range(0, len(queries), _AT_ONCE):
        some = queries[start : start + _AT_ONCE]
        counts[:] = 0
        for label_set in range(len(is_relevant)):
            found, first, last = counts[is_relevant[label_set]], edges[label_set], edges[label_set + 1]
            items, weights = database[first:last], sizes[first:last]
            if n_words == 1 and len(some) == _AT_ONCE:
                a, b, c, d = some[0, 0], some[1, 0], some[2, 0], some[3, 0]
                if len(sizes) == 0:
                    for item in range(len(items)):
                        word = items[item, 0]
                        found[0, _popcount(word ^ a)] += 1
                        found[1, _popcount(word ^ b)] += 1
                        found[2, _popcount(word ^ c)] += 1
                        found[3, _popcount(word ^ d)] += 1
                else:
                    for item in range(len(items)):
                        word, size = items[item, 0], weights[item]
                        found[0, _popcount(word ^ a)] += size
                        found[1, _popcount(word ^ b)] += size
                        found[2, _popcount(word ^ c)] += size
                        found[3, _popcount(word ^ d)] += size
            else:
                for query in range(len(some)):
                    for item in range(len(items)):
                        distance = np.uint64(0)
                        for word in range(n_words):
                            distance += _popcount(items[item, word] ^ some[query, word])
                        found[query, distance] += weights[item] if len(sizes) > 0 else 1
        for query in range(len(some)):
            total[start + query] += counts[0, query] + counts[1, query]
            relevant[start + query] += counts[1, query]


_AT_ONCE = 4
_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_COUNTS = types.Array(types.int64, 2, "C")
_SIGNATURE = types.void(
    _WORDS,
    _WORDS,
    types.Array(types.int64, 1, "C", readonly=True),
    types.Array(types.int64, 1, "C", readonly=True),
    types.Array(types.uint8, 1, "C", readonly=True),
    _COUNTS,
    _COUNTS,
)

try:
    add_counts = njit(_SIGNATURE, nogil=True, cache=True)(_add_counts)
except RuntimeError:  # no folder of a cache can be written
    add_counts = njit(_SIGNATURE, nogil=True)(_add_counts)
