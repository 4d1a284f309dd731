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


def _add_counts(queries: Any, database: Any, sizes: Any, is_relevant: Any, total: Any, relevant: Any) -> None:
    """Add the number of items at each distance from each query to `total`, and of relevant ones to `relevant`.

    Codes are rows of 64-bit words. `sizes` and `is_relevant` belong to the items. Four queries are counted at a time,
    so that an item is read once for them; indices are unsigned, because numba checks others for being negative.
    """
    n_words, n_distances = queries.shape[1], total.shape[1]
    counts = np.zeros((_AT_ONCE, 2 * n_distances), np.int64)  # the second half is that of relevant items
    for start in range(0, len(queries), _AT_ONCE):
        some = queries[start : start + _AT_ONCE]
        counts[:] = 0
        if n_words == 1 and len(some) == _AT_ONCE:
            first, second, third, fourth = some[0, 0], some[1, 0], some[2, 0], some[3, 0]
            for item in range(len(database)):
                word, size = database[item, 0], sizes[item]
                shift = np.uint64(n_distances) * np.uint64(is_relevant[item])
                counts[0, shift + _popcount(word ^ first)] += size
                counts[1, shift + _popcount(word ^ second)] += size
                counts[2, shift + _popcount(word ^ third)] += size
                counts[3, shift + _popcount(word ^ fourth)] += size
        else:
            for query in range(len(some)):
                for item in range(len(database)):
                    place = np.uint64(n_distances) * np.uint64(is_relevant[item])
                    for word in range(n_words):
                        place += _popcount(database[item, word] ^ some[query, word])
                    counts[query, place] += sizes[item]
        for query in range(len(some)):
            total[start + query] += counts[query, :n_distances] + counts[query, n_distances:]
            relevant[start + query] += counts[query, n_distances:]


_AT_ONCE = 4
_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_COUNTS = types.Array(types.int64, 2, "C")
_SIGNATURE = types.void(
    _WORDS,
    _WORDS,
    types.Array(types.int64, 1, "C", readonly=True),
    types.Array(types.uint8, 1, "C", readonly=True),
    _COUNTS,
    _COUNTS,
)

try:
    add_counts = njit(_SIGNATURE, nogil=True, cache=True)(_add_counts)
except RuntimeError:  # no folder of a cache can be written
    add_counts = njit(_SIGNATURE, nogil=True)(_add_counts)
