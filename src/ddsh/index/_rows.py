"""The rows of an index: ids in ascending order, and their codes as 64-bit words."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.index._found import Integers, Words

MAX_ID = np.iinfo(np.int64).max


class Rows:
    """Ids and codes, sorted by id, so that the smaller of two rows has the smaller id.

    Rows added at the end cost no copy of the rest; arrays given at the start, which may be memory maps, are never
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
        """Return no rows, of codes with `n_bits`."""
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
        """Return the row of each id, and whether it is there at all (else the row means nothing)."""
        rows = np.searchsorted(self.ids, ids).astype(np.int64)
        if not len(self):
            return rows, np.zeros(len(ids), np.bool_)
        return rows, self.ids[np.minimum(rows, len(self) - 1)] == ids

    def insert(self, ids: Integers, words: Words) -> bool:
        """Add rows with new ids, given in any order, and return whether all rows that were there kept their places."""
        if not len(ids):
            return True
        order = np.argsort(ids)
        ids, words = ids[order], words[order]
        keeps_places = not len(self) or bool(ids[0] > self.ids[-1])
        if keeps_places:
            self._append(ids, words)
        else:
            places = np.searchsorted(self.ids, ids)
            self._take(np.insert(self.ids, places, ids), np.insert(self.words, places, words, axis=0))
        return keeps_places

    def delete(self, rows: Integers) -> None:
        """Remove rows."""
        self._take(np.delete(self.ids, rows), np.delete(self.words, rows, axis=0))

    def _take(self, ids: Integers, words: Words) -> None:
        self._ids, self._words, self._count = ids, words, len(ids)

    def _append(self, ids: Integers, words: Words) -> None:
        count = self._count + len(ids)
        if count > len(self._ids):
            self._grow(count + count // 2)
        self._ids[self._count : count] = ids
        self._words[self._count : count] = words
        self._count = count

    def _grow(self, room: int) -> None:
        ids, words = np.empty(room, np.int64), np.empty((room, self._words.shape[1]), np.uint64)
        ids[: self._count], words[: self._count] = self.ids, self.words
        self._ids, self._words = ids, words


def to_words(codes: BinaryCodes) -> Words:
    """Return codes as 64-bit words, shape (n, n_words)."""
    return np.ascontiguousarray(codes.words().T)


def to_codes(words: Words, n_bits: int) -> BinaryCodes:
    """Return 64-bit words as codes again."""
    packed = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return BinaryCodes(np.ascontiguousarray(packed[:, : (n_bits + 7) // 8]), n_bits)


def to_ids(values: ArrayLike) -> Integers:
    """Return ids as int64, or raise."""
    ids = np.asarray(values)
    if ids.size == 0 and ids.ndim == 1:
        return np.empty(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InvalidInput(f"Ids must be a vector of integers; got {ids.dtype} of shape {ids.shape}.")
    if ids.min() < 0 or ids.max() > MAX_ID:
        raise InvalidInput(f"Ids must be 0 to {MAX_ID}; got {ids.min()} to {ids.max()}.")
    return ids.astype(np.int64)
