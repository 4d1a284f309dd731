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

    Codes are rows of 64-bit words. `sizes` and `is_relevant` belong to the items.
    """
    n_words, n_distances = queries.shape[1], total.shape[1]
    counts = np.zeros(2 * n_distances, np.int64)  # the second half is that of relevant items
    for query in range(len(queries)):
        counts[:] = 0
        first = queries[query, 0]
        if n_words == 1:
            for item in range(len(database)):
                distance = np.int64(_popcount(database[item, 0] ^ first))
                counts[distance + n_distances * is_relevant[item]] += sizes[item]
        else:
            for item in range(len(database)):
                distance = np.int64(0)
                for word in range(n_words):
                    distance += np.int64(_popcount(database[item, word] ^ queries[query, word]))
                counts[distance + n_distances * is_relevant[item]] += sizes[item]
        total[query] += counts[:n_distances] + counts[n_distances:]
        relevant[query] += counts[n_distances:]


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
