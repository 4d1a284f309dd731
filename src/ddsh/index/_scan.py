"""Linear scan: compare queries with every code."""

from collections.abc import Callable
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.index._matches import Integers, Matches, Words, batches
from ddsh.index.base import nearest_first

Collect: TypeAlias = Callable[[Words, Words, Integers], Matches]
"""Finds all rows of the first argument within each query's radius: ``collect(words, queries, radii)``."""

_TILE = 1 << 17
_MIN_ROWS = 1 << 13
_SAMPLE_CELLS = 1 << 20
_ROWS_TO_ESTIMATE_FROM = 1 << 10
_RUN = 32
# Cost of sorting out a row that was collected in vain, in rows compared.
_COST_OF_A_MATCH = 32


def collect(words: Words, queries: Words, radii: Integers) -> Matches:
    """Return all rows of `words` within each query's radius, one tile of distances at a time."""
    parts = []
    n_rows = max(_MIN_ROWS, _TILE // max(1, len(queries)))
    n_queries = _TILE // n_rows
    for first_row in range(0, len(words), n_rows):
        columns = np.ascontiguousarray(words[first_row : first_row + n_rows].T)
        for first_query in range(0, len(queries), n_queries):
            part = slice(first_query, first_query + n_queries)
            distances = hamming(columns, queries[part])
            cells = np.flatnonzero(distances <= radii[part, None].astype(distances.dtype))
            query, row = np.divmod(cells, columns.shape[1])
            distance = distances.reshape(-1)[cells].astype(np.int64)
            parts.append(Matches(query + first_query, row + first_row, distance))
    return Matches.join(parts)


def hamming(columns: Words, queries: Words) -> NDArray[np.unsignedinteger[Any]]:
    """Return the distances between `queries` (n_queries, n_words) and codes given as `columns` (n_words, n)."""
    distances: NDArray[np.unsignedinteger[Any]] = np.bitwise_count(queries[:, 0, None] ^ columns[0])
    if len(columns) > 3:  # distances of 256 bits or more overflow a byte
        distances = distances.astype(np.uint16)
    for word in range(1, len(columns)):
        distances += np.bitwise_count(queries[:, word, None] ^ columns[word])
    return distances


def search_radii(words: Words, queries: Words, k: int | None, radius: int) -> Integers:
    """Return for each query a radius, at most `radius`, that contains its `k` nearest rows, ties included.

    The k-th distance within any sample of the rows is an upper bound of that within all of them.
    """
    if k is None or k > len(words) or not len(queries):
        return np.full(len(queries), radius, np.int64)
    size = min(len(words), isqrt(_COST_OF_A_MATCH * k * len(words)))
    sample = _sample(words, size)
    step = max(1, _SAMPLE_CELLS // sample.shape[1])
    blocks = (hamming(sample, queries[start : start + step]) for start in range(0, len(queries), step))
    furthest = [np.sort(block, axis=1, kind="stable")[:, k - 1].astype(np.int64) for block in blocks]
    return np.minimum(np.concatenate(furthest), radius)


def scan(words: Words, queries: Words, radii: Integers, k: int | None, collect: Collect) -> Matches:
    """Return the rows within each query's radius, nearest first; only the first `k` if given."""
    if not len(words) or not len(queries):
        return Matches.none()
    sample = _sample(words, min(len(words), _ROWS_TO_ESTIMATE_FROM))
    expected = (hamming(sample, queries) <= radii[:, None]).mean(axis=1) * len(words)
    parts = []
    for part in batches(expected):
        matches = nearest_first(collect(words, queries[part], radii[part]), k)
        parts.append(matches.of_queries(np.arange(part.start, part.stop)))
    return Matches.join(parts)


def scan_rows(
    words: Words, rows: Integers | None, queries: Words, k: int | None, radius: int, collect: Collect
) -> Matches:
    """Return the `k` nearest rows within `radius`, among `rows` or among all of them."""
    if rows is not None:
        return scan_rows(words[rows], None, queries, k, radius, collect).at_rows(rows)
    return scan(words, queries, search_radii(words, queries, k, radius), k, collect)


def _sample(words: Words, size: int) -> Words:
    """Return at least `size` rows, as columns: short runs, evenly spaced, because rows are often sorted by class."""
    stride = len(words) // (size + _RUN)
    if stride > 1:
        n_runs = len(words) // (stride * _RUN)
        words = words[: n_runs * stride * _RUN].reshape(n_runs, stride * _RUN, -1)[:, :_RUN]
    return np.ascontiguousarray(words.reshape(-1, words.shape[-1]).T)
