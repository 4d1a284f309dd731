"""Base class of Hamming indexes, and the order of their results."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index as as_integer
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.codes import MAX_BITS, BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.index._codes_by_id import MAX_ID, CodesById, to_codes, to_ids, to_words
from ddsh.index._engine import NO_SKIP, Found, get_kernels
from ddsh.index._matches import MAX_QUERIES, Integers, Matches, Words, position_in_group
from ddsh.index._storage import SavedIndex, open_arrays, write_arrays

__all__ = ["Hits", "Index", "nearest_first", "order_by_distance"]

_DISTANCES = MAX_BITS + 1
_MAX_DEAD = 1 / 64


def nearest_first(matches: Matches, k: int | None = None) -> Matches:
    """Sort matches by query, distance and id; keep the first `k` of each query if given.

    This is where every index resolves ties. Rows are sorted by id (:class:`CodesById`), so the smaller row has the
    smaller id.
    """
    if not len(matches):
        return matches
    # Sorting one combined number is many times as fast as sorting by three columns.
    n_rows = int(matches.row.max()) + 1
    combined = np.sort((matches.query * _DISTANCES + matches.distance) * n_rows + matches.row)
    if k is not None:
        combined = combined[position_in_group(matches.counts(0)) < k]
    rest, row = np.divmod(combined, n_rows)
    query, distance = np.divmod(rest, _DISTANCES)
    return Matches(query, row, distance)


def order_by_distance(distances: NDArray[Any], ids: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the order of items by distance, then by id, where distances are real numbers."""
    return np.lexsort((ids, distances))


@dataclass(eq=False, slots=True)  # frozen would take longer to make than a short search
class Hits:
    """Results of several queries, one after the other, each sorted by distance and then by id.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_queries + 1,)
        Query ``i`` has the entries ``offsets[i]`` to ``offsets[i + 1]``.
    ids : ndarray of int64
        Ids of the items found.
    distances : ndarray of int64
        Their Hamming distances.
    """

    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    distances: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids and the distances that one query found."""
        if not 0 <= query < len(self):
            raise InvalidInput(f"There are the hits of {len(self)} queries, counted from 0; got query {query}.")
        entries = slice(self.offsets[query], self.offsets[query + 1])
        return self.ids[entries], self.distances[entries]


class Index(ABC):
    """Codes with ids, and their nearest neighbours by Hamming distance.

    All results are exact: sorted by Hamming distance, and by id where distances are equal. Any number of threads may
    search at once; changes need exclusive access. Subclasses implement `_find`.

    Parameters
    ----------
    n_bits : int
        Code length, 1 to 1024.
    """

    name: ClassVar[str]
    _derived_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n_bits: int) -> None:
        self._n_bits = _at_least(1, n_bits, "n_bits")
        if n_bits > MAX_BITS:
            raise InvalidInput(f"n_bits must be {MAX_BITS} at most; got {n_bits}.")
        self._codes = CodesById.empty(n_bits)

    def __len__(self) -> int:
        return len(self._codes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} codes of {self.n_bits} bits)"

    @property
    def n_bits(self) -> int:
        """Code length."""
        return self._n_bits

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending; a copy."""
        ids = self._codes.ids.astype(np.int64)
        return np.delete(ids, self._codes.dead_rows()) if self._codes.n_dead else ids

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes, including those that are mapped from files."""
        return self._codes.ids.nbytes + self._codes.words.nbytes

    @property
    def codes(self) -> CodesById:
        """The codes in rows that are sorted by id; not a copy."""
        return self._codes

    def add(self, codes: BinaryCodes, ids: ArrayLike | None = None) -> None:
        """Add codes.

        Parameters
        ----------
        codes : BinaryCodes
            The codes.
        ids : vector of int, optional
            One new id for each, 0 or larger; by default they continue from the largest id.
        """
        self.check_length(codes)
        count = len(codes)
        if ids is None:
            first = self._largest_id() + 1
            if first + count - 1 > MAX_ID:
                raise InvalidInput(f"No {count} ids are left after {first - 1}; give ids.")
            new = np.arange(first, first + count, dtype=np.int64)
        else:
            new = to_ids(ids)
            if len(new) != count:
                raise InvalidInput(f"{count} codes but {len(new)} ids; give one id per code.")
            values, counts = np.unique(new, return_counts=True)
            if len(values) < len(new):
                raise InvalidInput(f"Id {values[counts > 1][0]} is given twice; ids must be unique.")
            known = self._codes.find(values)[1]
            if known.any():
                raise InvalidInput(
                    f"Id {values[known][0]} is in the index already; remove it first, or give another id."
                )
        if not self._codes.insert(new, to_words(codes)):
            self._forget()

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by id and return their number; nothing is removed if an id is unknown."""
        rows = np.unique(self._rows_of(ids))
        if len(rows):
            self._codes.kill(rows)
        # Dead rows cost a search in NumPy as much as found ones.
        if self._codes.n_dead > _MAX_DEAD * self._codes.n_rows:
            self._forget_rows(self._codes.dead_rows())
            self._codes.drop_dead()
        return len(rows)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return for each id whether it is in the index."""
        return self._codes.find(to_ids(ids))[1]

    def codes_of(self, ids: ArrayLike) -> BinaryCodes:
        """Return the codes of some ids, in the order of the ids."""
        return to_codes(self._codes.words[self._rows_of(ids)], self.n_bits)

    def search(self, queries: BinaryCodes, k: int, *, allowed: ArrayLike | None = None) -> Hits:
        """Return the `k` nearest codes of each query.

        Parameters
        ----------
        queries : BinaryCodes
            The queries.
        k : int
            Number of neighbours, 1 or more; if there are fewer codes, all are returned.
        allowed : vector of int, optional
            Only these ids are returned; unknown ids are ignored.

        Returns
        -------
        Hits
            Sorted by distance, then by id.
        """
        return self._answer(queries, allowed, min(_at_least(1, k, "k"), max(1, len(self))), self.n_bits)

    def within(self, queries: BinaryCodes, radius: int, *, allowed: ArrayLike | None = None) -> Hits:
        """Return all codes that differ from a query in at most `radius` bits.

        Parameters
        ----------
        queries : BinaryCodes
            The queries.
        radius : int
            The largest distance to return, 0 or more.
        allowed : vector of int, optional
            Only these ids are returned; unknown ids are ignored.

        Returns
        -------
        Hits
            Sorted by distance, then by id.
        """
        return self._answer(queries, allowed, None, min(_at_least(0, radius, "radius"), self.n_bits))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder.

        A crash leaves the previous index complete; processes that have it open keep it. One process may save at a time.
        """
        if self._codes.n_dead:  # in a copy, because other threads may be searching
            alive = type(self)(self.n_bits)
            dead = self._codes.dead_rows()
            alive._codes = CodesById(np.delete(self._codes.ids, dead), np.delete(self._codes.words, dead, axis=0))
            alive.save(path)
            return
        arrays = {"ids": self._codes.ids, "codes": self._codes.words, **self._derived()}
        write_arrays(path, self.name, self.n_bits, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a folder that any index saved.

        The files are memory-mapped, and read once to compare their checksums. The loaded index can be changed; the
        folder does not change until :meth:`save`.
        """
        saved = open_arrays(path, cls._derived_names)
        index = cls(saved.n_bits)
        index._codes = CodesById(saved.arrays["ids"], saved.arrays["codes"])
        index._adopt(saved)
        return index

    @abstractmethod
    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Matches:
        """Return the rows within `radius`, nearest first; only the first `k`, and only those among `rows`, if given."""

    def _find_compiled(
        self, kernels: ModuleType, queries: Words, rows: Integers | None, k: int | None, radius: int
    ) -> Found | None:
        """Do the same as `_find` with compiled kernels; None if there are none for this index."""
        return None

    def skipped(self, rows: Integers | None) -> NDArray[np.uint8]:
        """Return the bitmap of the rows that a kernel leaves out: dead ones, and those not among `rows`."""
        if rows is None:
            return self._codes.dead if self._codes.n_dead else NO_SKIP
        skip = np.ones(self._codes.n_rows, np.bool_)
        skip[rows] = False
        return np.packbits(skip, bitorder="little")

    def _forget(self) -> None:  # noqa: B027 -- most indexes derive nothing
        """Drop everything derived from the rows, because they moved."""

    def _forget_rows(self, rows: Integers) -> None:  # noqa: B027
        """Drop what was derived from some rows, which are about to be removed."""

    def _derived(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of `_derived_names`, which are saved with the codes."""
        return {}

    def _adopt(self, saved: SavedIndex) -> None:  # noqa: B027
        """Restore derived arrays, if they were saved."""

    def _answer(self, queries: BinaryCodes, allowed: ArrayLike | None, k: int | None, radius: int) -> Hits:
        self.check_length(queries)
        rows = None if allowed is None else self.rows_among(allowed)
        words = to_words(queries)
        kernels = get_kernels(len(self) * len(words))
        found = None if kernels is None else self._find_compiled(kernels, words, rows, k, radius)
        if found is not None:
            return Hits(found[0], self._codes.ids_at(found[1]), found[2])
        n_dead = self._codes.n_dead if rows is None else 0
        more = None if k is None else k + n_dead
        parts = []
        for start in range(0, len(words), MAX_QUERIES):
            block = words[start : start + MAX_QUERIES]
            matches = self._find(block, rows, more, radius)
            if n_dead:
                matches = nearest_first(matches[~self._codes.is_dead(matches.row)], k)
            parts.append(matches.of_queries(np.arange(start, start + len(block))))
        matches = Matches.join(parts)
        offsets = np.concatenate([[0], np.cumsum(matches.counts(len(words)))])
        return Hits(offsets, self._codes.ids_at(matches.row), matches.distance)

    def _largest_id(self) -> int:
        """Return the largest id, or -1."""
        ids = self._codes.ids
        for row in range(len(ids) - 1, -1, -1):
            if not self._codes.is_dead(np.array([row]))[0]:
                return int(ids[row])
        return -1

    def rows_among(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return the rows of ids in the order of :attr:`ids`, ascending; unknown ids are ignored."""
        found, known = self._codes.find(to_ids(ids))
        return np.unique(found[known])

    def ids_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of rows."""
        return self._codes.ids_at(rows)

    def _rows_of(self, ids: ArrayLike) -> Integers:
        wanted = to_ids(ids)
        rows, known = self._codes.find(wanted)
        if not known.all():
            unknown = wanted[~known]
            raise InvalidInput(f"{len(unknown)} of {len(wanted)} ids are not in the index, such as {unknown[0]}.")
        return rows

    def check_length(self, codes: BinaryCodes) -> None:
        """Raise :class:`~ddsh.errors.InvalidInput` if codes have another length."""
        if codes.n_bits != self.n_bits:
            raise InvalidInput(f"The index holds codes of {self.n_bits} bits; got codes of {codes.n_bits} bits.")


def _at_least(smallest: int, value: int, name: str) -> int:
    """Return `value` as an int, or raise InvalidInput."""
    try:
        number = as_integer(value)
    except TypeError:
        raise InvalidInput(f"{name} must be an integer; got {value!r}.") from None
    if number < smallest:
        raise InvalidInput(f"{name} must be {smallest} or more; got {number}.")
    return number
