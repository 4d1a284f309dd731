"""Arrays of a hash table as the compiled kernels read them."""

from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ddsh.index._engine import NO_NUMBERS, Found, find_nearest, find_within
from ddsh.index._hashtable import HashTable
from ddsh.index._matches import Words

_SLOTS_PER_CODE = 1.75
_PART = 16
_LONGEST_LISTED = 64
"""Codes of more bits, which are two words, have no lists of their parts."""


@dataclass(frozen=True, eq=False)
class CompiledTable:
    """Hash table for compiled kernels.

    If most codes are different, the rows themselves are the buckets, and no lists of their members are held.

    Parameters
    ----------
    kernels : module
        The compiled kernels.
    n_bits, n_rows : int
        Length and number of the codes.
    arrays : tuple of ndarray
        Slots, codes of the buckets, starts, members, starts and lists of the parts, and flips.
    """

    kernels: ModuleType
    n_bits: int
    n_rows: int
    arrays: tuple[NDArray[Any], ...]

    @classmethod
    def build(cls, kernels: ModuleType, table: HashTable, words: Words) -> Self:
        """Build the arrays from a hash table of `words`."""
        n_bits = len(table.maker.numbers)
        codes, starts, members = table.buckets, table.starts, table.members
        if not table.is_compact and np.diff(starts).max(initial=0) <= kernels.MAX_EQUAL:
            codes, starts, members = words, NO_NUMBERS, NO_NUMBERS
        slots = np.zeros(int(_SLOTS_PER_CODE * len(codes)) + 1, np.uint32)
        kernels.fill_slots(codes, slots)
        part_starts, part_lists = NO_NUMBERS, NO_NUMBERS
        if len(starts) and _PART < n_bits <= _LONGEST_LISTED:
            n_parts = (n_bits + _PART - 1) // _PART
            part_starts = np.zeros((n_parts << _PART) + 1, np.uint32)
            part_lists = np.empty(n_parts * len(codes), np.uint32)
            kernels.fill_lists(codes, part_starts, part_lists)
        arrays = (slots, codes, starts, members, part_starts, part_lists, _flips())
        for array in arrays:
            array.setflags(write=False)
        return cls(kernels, n_bits, len(words), arrays)

    @property
    def codes(self) -> Words:
        """The code of each bucket."""
        return self.arrays[1]

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
        return find_nearest(
            lambda some, k, *out: nearest(self.arrays, skip, some, self.n_bits, k, radius, *out), queries, k
        )


@cache
def _flips() -> NDArray[np.uint16]:
    """Return all numbers of 16 bits by the number of bits that are set."""
    numbers = np.arange(1 << _PART, dtype=np.uint16)
    return numbers[np.argsort(np.bitwise_count(numbers), kind="stable")]
