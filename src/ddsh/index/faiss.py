"""Exhaustive search with faiss, in as many threads as OpenMP uses."""

import importlib
from typing import Any

import numpy as np

from ddsh.errors import MissingExtra
from ddsh.index._matches import Integers, Matches, Words
from ddsh.index._scan import scan_rows
from ddsh.index.base import Index

__all__ = ["FaissIndex"]


class FaissIndex(Index):
    """Compares every query with every code, using the range search of faiss.

    It calls the function behind ``IndexBinaryFlat.range_search`` on the index's own arrays, including memory-mapped
    ones; an ``IndexBinaryFlat`` would hold a second copy. faiss does not define the order of ties among the k nearest;
    here they are selected exactly from a range that contains them.

    Parameters
    ----------
    n_bits : int
        Code length, 1 to 1024.
    """

    name = "faiss"

    def __init__(self, n_bits: int) -> None:
        _import_faiss()
        super().__init__(n_bits)

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Matches:
        return scan_rows(self._codes.words, rows, queries, k, radius, _collect)


def _collect(words: Words, queries: Words, radii: Integers) -> Matches:
    """Return all rows of `words` within each query's radius."""
    faiss = _import_faiss()
    codes = np.ascontiguousarray(words).view(np.uint8)
    parts = []
    for radius in np.unique(radii).tolist():  # faiss takes one radius at a time
        numbers = np.flatnonzero(radii == radius)
        asked = np.ascontiguousarray(queries[numbers]).view(np.uint8)
        result = faiss.RangeSearchResult(len(asked))
        # faiss returns codes that are strictly nearer than the given radius.
        faiss.hamming_range_search(
            faiss.swig_ptr(asked), faiss.swig_ptr(codes), len(asked), len(codes), radius + 1, codes.shape[1], result
        )
        # Copies, because the arrays are freed with the result.
        ends = faiss.rev_swig_ptr(result.lims, len(asked) + 1).astype(np.int64)
        row = faiss.rev_swig_ptr(result.labels, int(ends[-1])).astype(np.int64)
        distance = faiss.rev_swig_ptr(result.distances, int(ends[-1])).astype(np.int64)
        parts.append(Matches(np.repeat(numbers, np.diff(ends)), row, distance))
    return Matches.join(parts)


def _import_faiss() -> Any:  # noqa: ANN401 -- faiss has no types for these functions
    try:
        return importlib.import_module("faiss")
    except ModuleNotFoundError as error:
        raise MissingExtra("The faiss index", "faiss", "search") from error
