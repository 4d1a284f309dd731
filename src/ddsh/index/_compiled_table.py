"""Arrays of a hash table as the compiled kernels read them."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ddsh.index._engine import NO_NUMBERS, Found, find_nearest, find_within
from ddsh.index._hashtable import HashTable
from ddsh.index._matches import Words

_SLOTS_PER_CODE = 1.75
_MAX_CENTRES = 32
_CODES_PER_CENTRE = 64


@dataclass(frozen=True, eq=False)
class CompiledTable:
    """Hash table for compiled kernels.

    The codes that most rows share are centres, and the buckets are sorted by ring: by their nearest centre and the
    distance to it. If most codes are different, the rows themselves are the buckets, and there are no centres and no
    lists of members.

    Parameters
    ----------
    kernels : module
        The compiled kernels.
    n_bits, n_rows : int
        Length and number of the codes.
    arrays : tuple of ndarray
        Slots, codes of the buckets, starts, members, centres, and starts of the rings.
    """

    kernels: ModuleType
    n_bits: int
    n_rows: int
    arrays: tuple[NDArray[Any], ...]

    @classmethod
    def build(cls, kernels: ModuleType, table: HashTable, words: Words) -> tuple[Self, HashTable | None]:
        """Build the arrays from a hash table of `words`; return them and the table in the order of the rings.

        There is no such table, because its lists would take more room than the codes, if the rows are the buckets.
        """
        n_bits = len(table.maker.numbers)
        if not table.is_compact and np.diff(table.starts).max(initial=0) <= kernels.MAX_EQUAL:
            return cls._with_slots(kernels, n_bits, words, (NO_NUMBERS, NO_NUMBERS, words[:0], NO_NUMBERS)), None
        sizes = np.diff(table.starts).astype(np.int64)
        n_centres = min(_MAX_CENTRES, max(1, len(table) // _CODES_PER_CENTRE))
        centres = table.buckets[np.lexsort((table.buckets[:, 0], -sizes))[:n_centres]]
        rings = np.empty(len(table), np.uint32)
        kernels.fill_rings(table.buckets, centres, n_bits, rings)
        table = table.reordered(np.argsort(rings, kind="stable"))
        n_in_ring = np.bincount(rings, minlength=n_centres * (n_bits + 1))
        ring_starts = np.append(0, np.cumsum(n_in_ring)).astype(np.uint32)
        lists = table.starts, table.members, centres, ring_starts
        return cls._with_slots(kernels, n_bits, table.buckets, lists), table

    @classmethod
    def _with_slots(cls, kernels: ModuleType, n_bits: int, codes: Words, lists: tuple[NDArray[Any], ...]) -> Self:
        slots = np.zeros(int(_SLOTS_PER_CODE * len(codes)) + 1, np.uint32)
        kernels.fill_slots(codes, slots)
        for array in (slots, *lists):
            array.setflags(write=False)
        return cls(kernels, n_bits, len(lists[1]) or len(codes), (slots, codes, *lists))

    @property
    def starts(self) -> NDArray[np.uint32]:
        """Bucket ``b`` holds ``members[starts[b]:starts[b + 1]]``; empty if row ``b`` is bucket ``b``."""
        return self.arrays[2]

    @property
    def members(self) -> NDArray[np.uint32]:
        """Rows, ascending within each bucket."""
        return self.arrays[3]

    def find(self, queries: Words, k: int | None, radius: int, skip: NDArray[np.uint8]) -> Found:
        """Return the rows within `radius`, nearest first, without those in `skip`; only the first `k` if given."""
        if k is None:
            within = self.kernels.table_within
            return find_within(lambda query: within(self.arrays, skip, query, self.n_bits, radius), queries)
        nearest = self.kernels.table_nearest
        if len(queries) == 1:  # every step counts that costs as much as the search itself
            rows, distances, count = np.empty(k, np.int64), np.empty(k, np.int64), np.empty(1, np.int64)
            nearest(self.arrays, skip, queries, self.n_bits, k, radius, rows, distances, count)
            n_found = count.item()
            if n_found < k:
                rows, distances = rows[:n_found], distances[:n_found]
            return np.array((0, n_found)), rows, distances
        return find_nearest(
            lambda some, k, *out: nearest(self.arrays, skip, some, self.n_bits, k, radius, *out), queries, k
        )
