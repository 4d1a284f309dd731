"""Array of codes sorted by id, and conversions of codes and ids."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.index._matches import Integers, Words

MAX_ID = np.iinfo(np.int64).max


class CodesById:
    """Codes in rows that are sorted by id, so that the smaller of two rows has the smaller id.

    Appending does not copy the existing rows. The arrays passed to the constructor, which may be memory maps, are never
    written to.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Ascending and unique.
    words : ndarray of uint64, shape (n, n_words)
        Their codes.
    """

    def __init__(self, ids: Integers, words: Words) -> None:
        self._ids, self._words = ids, words
        self._count = len(ids)

    @classmethod
    def empty(cls, n_bits: int) -> Self:
        """Return an array without rows for codes of `n_bits`."""
        return cls(np.empty(0, np.int64), np.empty((0, (n_bits + 63) // 64), np.uint64))

    def __len__(self) -> int:
        return self._count

    @property
    def ids(self) -> Integers:
        """The ids, ascending."""
        return self._ids[: self._count]

    @property
    def words(self) -> Words:
        """The codes."""
        return self._words[: self._count]

    def find(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the row of each id and whether the id is known; the row of an unknown id has no meaning."""
        rows = np.searchsorted(self.ids, ids).astype(np.int64)
        if not len(self):
            return rows, np.zeros(len(ids), np.bool_)
        return rows, self.ids[np.minimum(rows, len(self) - 1)] == ids

    def insert(self, ids: Integers, words: Words) -> bool:
        """Add rows with new ids, in any order; return whether all existing rows kept their positions."""
        if not len(ids):
            return True
        order = np.argsort(ids)
        ids, words = ids[order], words[order]
        if len(self) and ids[0] < self.ids[-1]:
            places = np.searchsorted(self.ids, ids)
            self._ids, self._words = np.insert(self.ids, places, ids), np.insert(self.words, places, words, axis=0)
            self._count = len(self._ids)
            return False
        count = self._count + len(ids)
        if count > len(self._ids):
            capacity = count + count // 2
            old_ids, old_words = self.ids, self.words
            self._ids, self._words = np.empty(capacity, np.int64), np.empty((capacity, words.shape[1]), np.uint64)
            self._ids[: self._count], self._words[: self._count] = old_ids, old_words
        self._ids[self._count : count] = ids
        self._words[self._count : count] = words
        self._count = count
        return True

    def delete(self, rows: Integers) -> None:
        """Remove rows."""
        self._ids, self._words = np.delete(self.ids, rows), np.delete(self.words, rows, axis=0)
        self._count = len(self._ids)


def to_words(codes: BinaryCodes) -> Words:
    """Return codes as 64-bit words, shape (n, n_words)."""
    return np.ascontiguousarray(codes.words().T)


def to_codes(words: Words, n_bits: int) -> BinaryCodes:
    """Return 64-bit words as codes."""
    packed = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return BinaryCodes(np.ascontiguousarray(packed[:, : (n_bits + 7) // 8]), n_bits)


def to_ids(values: ArrayLike) -> Integers:
    """Return ids as int64.

    Raises
    ------
    InvalidInput
        If the values are not a vector of integers of 0 or more.
    """
    ids = np.asarray(values)
    if ids.size == 0 and ids.ndim == 1:
        return np.empty(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InvalidInput(f"Ids must be a vector of integers; got {ids.dtype} of shape {ids.shape}.")
    if ids.min() < 0 or ids.max() > MAX_ID:
        raise InvalidInput(f"Ids must be 0 to {MAX_ID}; got {ids.min()} to {ids.max()}.")
    return ids.astype(np.int64)
