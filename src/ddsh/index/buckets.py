"""The hash table of the paper's lookup task."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError, InvalidInput
from ddsh.index._files import Saved
from ddsh.index._found import Found, Integers, Words
from ddsh.index._scan import collect, scan_rows
from ddsh.index._table import Table
from ddsh.index.base import Index

_MAX_TAIL = 1 / 8


class BucketsIndex(Index):
    """Looks codes up in a hash table, in which equal codes share a bucket.

    A query probes its own bucket, then those one bit away, two bits and so on, until it has enough; as soon as the
    next round of probes would cost more than comparing the query with every bucket's code, that is done instead. The
    table is built at the first search. Codes that are added later with larger ids are compared one by one until they
    are an eighth of the table; then it is built anew.

    Parameters
    ----------
    n_bits : int
        The length of the codes, 1 to 1024.
    """

    name = "buckets"
    _derived_names = ("numbers", "keys", "buckets", "starts", "members", "filter")

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._table: Table | None = None

    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Found:
        words = self._rows.words
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
        return Found.join(parts).ranked(k)

    def _current_table(self) -> Table:
        """Return a table of all rows but the last few."""
        table = self._table
        if table is None or self._is_stale(table):
            self._table = table = Table.build(self._rows.words, self.n_bits)
        return table

    def _is_stale(self, table: Table) -> bool:
        """Return whether too many rows are not in the table, or too many buckets have lost theirs."""
        n_covered = len(table.members)
        return len(self) - n_covered > _MAX_TAIL * n_covered or 2 * n_covered < len(table)

    def _forget(self) -> None:
        self._table = None

    def _forget_rows(self, rows: Integers) -> None:
        if self._table is not None:
            kept = np.ones(len(self), np.bool_)
            kept[rows] = False
            self._table = self._table.restricted(kept).renumbered(np.cumsum(kept) - 1)

    def _derived(self) -> Mapping[str, NDArray[Any]]:
        if self._table is None or len(self._table.members) < len(self):
            self._table = Table.build(self._rows.words, self.n_bits)
        return self._table.to_arrays()

    def _adopt(self, saved: Saved) -> None:
        arrays = {name: saved.arrays[name] for name in self._derived_names if name in saved.arrays}
        if arrays:
            try:
                self._table = Table.from_arrays(arrays, self._rows.words, self.n_bits)
            except InvalidInput as error:
                raise ArtefactError(f"{saved.path} is damaged: {error}; save the index again.") from error
