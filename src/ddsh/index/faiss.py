"""The scan of faiss, in as many threads as OpenMP is given."""

import importlib
from typing import Any

import numpy as np

from ddsh.errors import DdshError
from ddsh.index._found import Found, Integers, Words
from ddsh.index._scan import scan_rows
from ddsh.index.base import Index


class FaissIndex(Index):
    """Compares every query with every code, by the range search of faiss.

    That is the function behind ``IndexBinaryFlat.range_search``, called on the index's own arrays, mapped files
    included: an ``IndexBinaryFlat`` would hold a second copy of them. faiss promises no order of ties among the k
    nearest; here these are cut, exactly, out of a range that holds them.

    Parameters
    ----------
    n_bits : int
        The length of the codes, 1 to 1024.
    """

    name = "faiss"

    def __init__(self, n_bits: int) -> None:
        _import_faiss()
        super().__init__(n_bits)

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Found:
        return scan_rows(self._rows.words, rows, queries, k, radius, _collect)


def _collect(words: Words, queries: Words, radii: Integers) -> Found:
    """Return all rows of `words` within each query's radius; faiss takes one radius at a time."""
    parts = []
    for radius in np.unique(radii):
        asked = np.flatnonzero(radii == radius)
        parts.append(_range_search(words, queries[asked], int(radius)).of_queries(asked))
    return Found.join(parts)


def _range_search(words: Words, queries: Words, radius: int) -> Found:
    faiss = _import_faiss()
    codes, asked = (np.ascontiguousarray(array).view(np.uint8) for array in (words, queries))
    result = faiss.RangeSearchResult(len(asked))
    # faiss returns what is nearer than the radius it is given, not what is as near.
    faiss.hamming_range_search(
        faiss.swig_ptr(asked), faiss.swig_ptr(codes), len(asked), len(codes), radius + 1, codes.shape[1], result
    )
    # The arrays belong to the result and go with it.
    ends = faiss.rev_swig_ptr(result.lims, len(asked) + 1).astype(np.int64)
    row = faiss.rev_swig_ptr(result.labels, int(ends[-1])).astype(np.int64)
    distance = faiss.rev_swig_ptr(result.distances, int(ends[-1])).astype(np.int64)
    return Found(np.repeat(np.arange(len(asked)), np.diff(ends)), row, distance)


def _import_faiss() -> Any:  # noqa: ANN401 -- faiss has no types for these functions
    try:
        return importlib.import_module("faiss")
    except ModuleNotFoundError as error:
        raise DdshError("The faiss index needs faiss. Run: pip install 'ddsh[search]'") from error
