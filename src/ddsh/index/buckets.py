"""Hash table index: the field's lookup protocol, with exact results."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError, InvalidInput
from ddsh.index._hashtable import HashTable
from ddsh.index._matches import Integers, Matches, Words
from ddsh.index._scan import collect, scan_rows
from ddsh.index._storage import SavedIndex
from ddsh.index.base import Index, nearest_first

__all__ = ["BucketsIndex"]

_MAX_TAIL = 1 / 8


class BucketsIndex(Index):
    """Looks codes up in a hash table, in which equal codes share a bucket.

    A query probes its own bucket, then those one bit away, two bits and so on, until it has enough rows; as soon as the
    next round of probes would cost more than comparing the query with the code of every bucket, that is done instead.
    The table is built at the first search. Codes added later with larger ids are compared one by one until they are an
    eighth of the table; then it is rebuilt.

    Parameters
    ----------
    n_bits : int
        Code length, 1 to 1024.
    """

    name = "buckets"
    _derived_names = ("numbers", "keys", "buckets", "starts", "members", "filter")

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._table: HashTable | None = None

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Matches:
        words = self._codes.words
        # Restricting the table costs about as much as looking at every row once.
        if rows is not None and len(rows) * len(queries) <= len(words):
            return scan_rows(words, rows, queries, k, radius, collect)
        table = self._table
        n_covered = 0 if table is None else len(table.members)
        # Too many rows are missing in the table, or too many of its buckets are empty.
        if table is None or len(self) - n_covered > _MAX_TAIL * n_covered or 2 * n_covered < len(table):
            self._table = table = HashTable.build(words, self.n_bits)
            n_covered = len(table.members)
        tail = np.arange(n_covered, len(words))
        if rows is not None:
            kept = np.zeros(len(words), np.bool_)
            kept[rows] = True
            table, tail = table.restricted(kept), rows[rows >= n_covered]
        parts = [table.find(queries, k, radius), scan_rows(words, tail, queries, k, radius, collect)]
        return nearest_first(Matches.join(parts), k)

    def _forget(self) -> None:
        self._table = None

    def _forget_rows(self, rows: Integers) -> None:
        if self._table is not None:
            kept = np.ones(len(self), np.bool_)
            kept[rows] = False
            self._table = self._table.restricted(kept).renumbered(np.cumsum(kept) - 1)

    def _derived(self) -> Mapping[str, NDArray[Any]]:
        if self._table is None or len(self._table.members) < len(self):
            self._table = HashTable.build(self._codes.words, self.n_bits)
        return self._table.to_arrays()

    def _adopt(self, saved: SavedIndex) -> None:
        arrays = {name: saved.arrays[name] for name in self._derived_names if name in saved.arrays}
        if arrays:
            try:
                self._table = HashTable.from_arrays(arrays, self._codes.words, self.n_bits)
            except InvalidInput as error:
                raise ArtefactError(f"{saved.path} is damaged: {error}; save the index again.") from error
