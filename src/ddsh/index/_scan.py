"""Comparing queries with every code: the distances, and how far the search has to reach."""

from collections.abc import Callable
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.index._found import Found, Integers, Words, batches

Collect: TypeAlias = Callable[[Words, Words, Integers], Found]
"""Finds all rows of the first argument within each query's radius: ``collect(words, queries, radii)``."""

_TILE = 1 << 17
_MIN_ROWS = 1 << 13
_SAMPLE_CELLS = 1 << 20
_ROWS_TO_ESTIMATE_FROM = 1 << 10
_RUN = 32
# What it costs to sort out a row that was found for nothing, in rows looked at.
_COST_OF_A_FIND = 32


def collect(words: Words, queries: Words, radii: Integers) -> Found:
    """Return all rows of `words` within each query's radius, a tile of distances at a time."""
    parts = []
    n_rows = max(_MIN_ROWS, _TILE // max(1, len(queries)))
    n_queries = _TILE // n_rows
    for row in range(0, len(words), n_rows):
        columns = np.ascontiguousarray(words[row : row + n_rows].T)
        for query in range(0, len(queries), n_queries):
            part = slice(query, query + n_queries)
            parts.append(_collect_tile(columns, queries[part], radii[part], query, row))
    return Found.join(parts)


def _collect_tile(columns: Words, queries: Words, radii: Integers, first_query: int, first_row: int) -> Found:
    distances = hamming(columns, queries)
    cells = np.flatnonzero(distances <= radii[:, None].astype(distances.dtype))
    query, row = np.divmod(cells, columns.shape[1])
    return Found(query + first_query, row + first_row, distances.reshape(-1)[cells].astype(np.int64))


def hamming(columns: Words, queries: Words) -> NDArray[np.unsignedinteger[Any]]:
    """Return the distances between `queries` (n_queries, n_words) and codes given as `columns` (n_words, n)."""
    distances: NDArray[np.unsignedinteger[Any]] = np.bitwise_count(queries[:, 0, None] ^ columns[0])
    if len(columns) > 3:  # 256 bits and more can differ in more places than a byte counts
        distances = distances.astype(np.uint16)
    for word in range(1, len(columns)):
        distances += np.bitwise_count(queries[:, word, None] ^ columns[word])
    return distances


def reach(words: Words, queries: Words, k: int | None, radius: int) -> Integers:
    """Return for each query a radius, at most `radius`, that holds its `k` nearest rows, ties included.

    The k-th distance within any sample of the rows is at least that within all of them.
    """
    if k is None or k > len(words) or not len(queries):
        return np.full(len(queries), radius, np.int64)
    size = min(len(words), isqrt(_COST_OF_A_FIND * k * len(words)))
    sample = _sample(words, size)
    step = max(1, _SAMPLE_CELLS // sample.shape[1])
    blocks = (hamming(sample, queries[start : start + step]) for start in range(0, len(queries), step))
    furthest = [np.sort(block, axis=1, kind="stable")[:, k - 1].astype(np.int64) for block in blocks]
    return np.minimum(np.concatenate(furthest), radius)


def scan(words: Words, queries: Words, radii: Integers, k: int | None, collect: Collect) -> Found:
    """Return the rows within each query's radius, ranked; only the first `k` of them if it is given."""
    if not len(words) or not len(queries):
        return Found.none()
    parts = []
    for part in batches(_expected(words, queries, radii)):
        found = collect(words, queries[part], radii[part]).ranked(k)
        parts.append(found.of_queries(np.arange(part.start, part.stop)))
    return Found.join(parts)


def scan_rows(
    words: Words, rows: Integers | None, queries: Words, k: int | None, radius: int, collect: Collect
) -> Found:
    """Return the `k` nearest rows within `radius`, among `rows` or among all of them."""
    if rows is not None:
        return scan_rows(words[rows], None, queries, k, radius, collect).at_rows(rows)
    return scan(words, queries, reach(words, queries, k, radius), k, collect)


def _expected(words: Words, queries: Words, radii: Integers) -> NDArray[np.float64]:
    """Return about how many rows lie within each query's radius."""
    sample = _sample(words, min(len(words), _ROWS_TO_ESTIMATE_FROM))
    share: NDArray[np.float64] = (hamming(sample, queries) <= radii[:, None]).mean(axis=1)
    return share * len(words)


def _sample(words: Words, size: int) -> Words:
    """Return at least `size` rows, as columns: short runs, evenly spaced, as rows are often sorted by class."""
    stride = len(words) // (size + _RUN)
    if stride > 1:
        n_runs = len(words) // (stride * _RUN)
        words = words[: n_runs * stride * _RUN].reshape(n_runs, stride * _RUN, -1)[:, :_RUN]
    return np.ascontiguousarray(words.reshape(-1, words.shape[-1]).T)
