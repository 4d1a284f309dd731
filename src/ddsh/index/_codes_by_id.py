"""Array of codes sorted by id, and conversions of codes and ids."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.index._matches import Integers, Words

MAX_ID = np.iinfo(np.int64).max
_WORD = np.dtype("<u8")


class CodesById:
    """Codes in rows that are sorted by id, so that the smaller of two rows has the smaller id.

    Appending does not copy the existing rows. Removed rows stay where they are and are marked as dead until
    :meth:`drop_dead`. The arrays passed to the constructor, which may be memory maps, are never written to.

    Parameters
    ----------
    ids : ndarray of uint32 or int64, shape (n,)
        Ascending and unique; held in 4 bytes each as long as they fit.
    words : ndarray of uint64, shape (n, n_words)
        Their codes.
    """

    def __init__(self, ids: NDArray[Any], words: Words) -> None:
        self._ids, self._words = ids, words
        self._count = len(ids)
        self._offset = _offset(ids)
        self._dead: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.n_dead = 0

    @classmethod
    def empty(cls, n_bits: int) -> Self:
        """Return an array without rows for codes of `n_bits`."""
        return cls(np.empty(0, np.uint32), np.empty((0, (n_bits + 63) // 64), np.uint64))

    def __len__(self) -> int:
        return self._count - self.n_dead

    @property
    def n_rows(self) -> int:
        """Number of rows, including dead ones."""
        return self._count

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of all rows, ascending, including dead ones."""
        return self._ids[: self._count]

    @property
    def words(self) -> Words:
        """The codes of all rows, including dead ones."""
        return self._words[: self._count]

    @property
    def dead(self) -> NDArray[np.uint8]:
        """Bitmap of the dead rows, eight to a byte; empty if there are none."""
        return self._dead[: (self._count + 7) // 8] if self.n_dead else self._dead[:0]

    def is_dead(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows are dead."""
        if not self.n_dead:
            return np.zeros(len(rows), np.bool_)
        is_dead: NDArray[np.bool_] = (self._dead[rows >> 3] >> (rows & 7) & 1).astype(np.bool_)
        return is_dead

    def ids_at(self, rows: Integers) -> Integers:
        """Return the ids of rows."""
        if self._offset is None:
            return self._ids[rows].astype(np.int64, copy=False)
        ids: Integers = np.add(rows, self._offset) if self._offset else rows
        return ids

    def find(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the row of each id and whether the id is known; the row of an unknown id has no meaning."""
        if self._offset is not None:
            rows = ids - self._offset
            known = (rows >= 0) & (rows < self._count)
            rows[~known] = 0
            return rows, known & ~self.is_dead(rows)
        # In the type of the ids; otherwise NumPy would convert all of them.
        wanted = np.minimum(ids, np.iinfo(self._ids.dtype).max).astype(self._ids.dtype)
        rows = np.minimum(np.searchsorted(self.ids, wanted), self._count - 1).astype(np.int64)
        return rows, (self.ids[rows] == ids) & ~self.is_dead(rows)

    def insert(self, ids: Integers, words: Words) -> bool:
        """Add rows with new ids, in any order; return whether all existing rows kept their positions."""
        if not len(ids):
            return True
        order = np.argsort(ids)
        ids, words = ids[order], words[order]
        if ids[-1] > np.iinfo(self._ids.dtype).max:
            self._ids = self.ids.astype(np.int64)
        ids = ids.astype(self._ids.dtype)
        if self._count and ids[0] <= self.ids[-1]:
            self.drop_dead()
            places = np.searchsorted(self.ids, ids)
            self._ids, self._words = np.insert(self.ids, places, ids), np.insert(self.words, places, words, axis=0)
            self._count, self._offset = len(self._ids), _offset(self._ids)
            return False
        count = self._count + len(ids)
        if count > len(self._ids):
            # All at once is the usual case; later additions get room for more.
            capacity = count + count // 2 if self._count else count
            old_ids, old_words = self.ids, self.words
            self._ids, self._words = np.empty(capacity, ids.dtype), np.empty((capacity, words.shape[1]), np.uint64)
            self._ids[: self._count], self._words[: self._count] = old_ids, old_words
        self._ids[self._count : count] = ids
        self._words[self._count : count] = words
        self._count, self._offset = count, _offset(self._ids[:count])
        if self.n_dead:
            self._dead = np.pad(self._dead, (0, max(0, (count + 7) // 8 - len(self._dead))))
        return True

    def kill(self, rows: Integers) -> None:
        """Mark rows as dead; they are different and alive."""
        if not self.n_dead:
            self._dead = np.zeros((self._count + 7) // 8, np.uint8)
        np.bitwise_or.at(self._dead, rows >> 3, np.uint8(1) << (rows & 7).astype(np.uint8))
        self.n_dead += len(rows)

    def dead_rows(self) -> Integers:
        """Return the dead rows, ascending."""
        return np.flatnonzero(np.unpackbits(self.dead, count=self._count if self.n_dead else 0, bitorder="little"))

    def drop_dead(self) -> None:
        """Remove the dead rows."""
        if self.n_dead:
            rows = self.dead_rows()
            self._ids, self._words = np.delete(self.ids, rows), np.delete(self.words, rows, axis=0)
            self._count, self.n_dead, self._offset = len(self._ids), 0, _offset(self._ids)


def _offset(ids: NDArray[Any]) -> int | None:
    """Return the first id if all others follow without a gap, so that row and id differ by that number."""
    if not len(ids):
        return 0
    first = int(ids[0])
    return first if int(ids[-1]) - first == len(ids) - 1 else None


def to_words(codes: BinaryCodes) -> Words:
    """Return codes as 64-bit words, shape (n, n_words)."""
    packed = codes.packed
    if len(packed) == 1:  # most searches have one query, where this takes half of the time
        n_words = (packed.shape[1] + 7) // 8
        words: Words = np.ndarray((1, n_words), _WORD, packed.tobytes().ljust(8 * n_words, b"\0"))
        return words if _WORD.isnative else words.astype(np.uint64)
    padded = np.zeros((len(packed), (packed.shape[1] + 7) // 8 * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64, copy=False)


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
