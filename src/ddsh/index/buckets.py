"""Hash table index: the field's lookup protocol, with exact results."""

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError, InvalidInput
from ddsh.index._compiled_table import CompiledTable
from ddsh.index._engine import NO_SKIP, Found
from ddsh.index._hashtable import HashTable
from ddsh.index._matches import Integers, Matches, Words
from ddsh.index._scan import collect, scan_rows
from ddsh.index._storage import SavedIndex
from ddsh.index.base import Index, nearest_first
from ddsh.index.exact import scan_compiled

__all__ = ["BucketsIndex"]

_MAX_TAIL = 1 / 8


class BucketsIndex(Index):
    """Looks codes up in a hash table, in which equal codes share a bucket.

    A query probes its own bucket, then those one bit away, two bits and so on, until it has enough rows; as soon as the
    next round of probes would cost more than comparing the query with the code of every bucket, that is done instead.
    With numba, probes end at two bits; further buckets are found by their distances to the codes that most rows share.
    The table is built at the first search. Codes added later with larger ids are compared one by
    one until they are an eighth of the table; then it is rebuilt.

    Parameters
    ----------
    n_bits : int
        Code length, 1 to 1024.
    """

    name = "buckets"
    _derived_names = ("numbers", "buckets", "starts", "members")

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._table: HashTable | None = None
        self._compiled: CompiledTable | None = None

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes, including those that are mapped from files."""
        arrays: Iterable[NDArray[Any]] = ()
        if self._compiled is not None:  # the other table has the same arrays
            arrays = self._compiled.arrays
        elif self._table is not None:
            arrays = self._table.to_arrays().values()
        own = self._codes.words
        return super().nbytes + sum(array.nbytes for array in arrays if not np.may_share_memory(array, own))

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Matches:
        words = self._codes.words
        # Restricting the table costs about as much as looking at every row once.
        if rows is not None and len(rows) * len(queries) <= len(words):
            return scan_rows(words, rows, queries, k, radius, collect)
        table = self._current_table()
        n_covered = len(table.members)
        tail = np.arange(n_covered, len(words))
        if rows is not None:
            kept = np.zeros(len(words), np.bool_)
            kept[rows] = True
            table, tail = table.restricted(kept), rows[rows >= n_covered]
        parts = [table.find(queries, k, radius), scan_rows(words, tail, queries, k, radius, collect)]
        return nearest_first(Matches.join(parts), k)

    def _find_compiled(
        self, kernels: ModuleType, queries: Words, rows: Integers | None, k: int | None, radius: int
    ) -> Found:
        words, skip = self._codes.words, self.skipped(rows)
        if rows is not None and 8 * len(rows) < len(words):
            return scan_compiled(kernels, words, skip, rows, queries, k, radius)
        table = self.compiled_table(kernels)
        found = table.find(queries, k, radius, skip)
        if table.n_rows == len(words):
            return found
        tail = np.arange(table.n_rows, len(words)) if rows is None else rows[rows >= table.n_rows]
        tail = tail[~self._codes.is_dead(tail)]
        others = scan_compiled(kernels, words[tail], NO_SKIP, None, queries, k, radius)
        parts = []
        for offsets, row, distance in (found, (others[0], tail[others[1]], others[2])):
            query = np.repeat(np.arange(len(queries)), np.diff(offsets))
            parts.append(Matches(query, row, distance))
        matches = nearest_first(Matches.join(parts), k)
        offsets = np.concatenate([[0], np.cumsum(matches.counts(len(queries)))])
        return offsets, matches.row, matches.distance

    def compiled_table(self, kernels: ModuleType) -> CompiledTable:
        """Return the table for compiled kernels, which may lack some of the last rows."""
        if self._compiled is None or self._codes.n_rows - self._compiled.n_rows > _MAX_TAIL * self._compiled.n_rows:
            table = self._current_table()
            words = self._codes.words[: len(table.members)]
            self._compiled, self._table = CompiledTable.build(kernels, table, words)
        return self._compiled

    def _current_table(self) -> HashTable:
        """Return a table that covers most rows; it is rebuilt if many are missing, or many of its buckets are empty."""
        table, n_rows = self._table, self._codes.n_rows
        n_covered = 0 if table is None else len(table.members)
        if table is None or n_rows - n_covered > _MAX_TAIL * n_covered or 2 * n_covered < len(table):
            self._table = table = HashTable.build(self._codes.words, self.n_bits)
        return table

    def _forget(self) -> None:
        self._table = self._compiled = None

    def _forget_rows(self, rows: Integers) -> None:
        self._compiled = None
        if self._table is not None:
            kept = np.ones(self._codes.n_rows, np.bool_)
            kept[rows] = False
            self._table = self._table.restricted(kept).renumbered(np.cumsum(kept) - 1)

    def _derived(self) -> Mapping[str, NDArray[Any]]:
        if self._compiled is not None and not len(self._compiled.starts):
            return {}
        if self._table is None or len(self._table.members) < self._codes.n_rows:
            self._table, self._compiled = HashTable.build(self._codes.words, self.n_bits), None
        return self._table.to_arrays() if self._table.is_compact else {}

    def _adopt(self, saved: SavedIndex) -> None:
        arrays = {name: saved.arrays[name] for name in self._derived_names if name in saved.arrays}
        if arrays:
            try:
                self._table = HashTable.from_arrays(arrays, self._codes.words, self.n_bits)
            except InvalidInput as error:
                raise ArtefactError(f"{saved.path} is damaged: {error}; save the index again.") from error
