"""What every index is: codes with ids, and exact answers to who is nearest."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index as as_integer
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.codes import MAX_BITS, BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.index._files import Saved, open_arrays, write_arrays
from ddsh.index._found import MAX_QUERIES, Found, Integers, Words
from ddsh.index._rows import MAX_ID, Rows, to_codes, to_ids, to_words


@dataclass(frozen=True, eq=False)
class Hits:
    """The answers to several queries, one after the other, each by distance and then by id.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_queries + 1,)
        Query ``i`` has the entries ``offsets[i]`` up to ``offsets[i + 1]``.
    ids : ndarray of int64
        Which items were found.
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
    """Codes with ids, and who is nearest to a query.

    All answers are exact: by Hamming distance, and by id where distances are equal. Any number of threads may search
    at once; a change must not run beside anything else. Subclasses write `_find`.

    Parameters
    ----------
    n_bits : int
        The length of the codes, 1 to 1024.
    """

    name: ClassVar[str]
    _derived_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n_bits: int) -> None:
        self._n_bits = _at_least(1, n_bits, "n_bits")
        if n_bits > MAX_BITS:
            raise InvalidInput(f"n_bits must be {MAX_BITS} at most; got {n_bits}.")
        self._rows = Rows.empty(n_bits)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} codes of {self.n_bits} bits)"

    @property
    def n_bits(self) -> int:
        """The length of the codes."""
        return self._n_bits

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending; a copy."""
        return self._rows.ids.copy()

    def add(self, codes: BinaryCodes, ids: ArrayLike | None = None) -> None:
        """Add codes.

        Parameters
        ----------
        codes : BinaryCodes
            The codes.
        ids : vector of int, optional
            One new id for each, 0 or larger; by default they count on from the largest id there is.
        """
        self._check_length(codes)
        new = self._next_ids(len(codes)) if ids is None else to_ids(ids)
        self._check_new(new, len(codes))
        if not self._rows.insert(new, to_words(codes)):
            self._forget()

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by their ids, and return how many that were; an id that is not there is refused."""
        rows = np.unique(self._rows_of(ids))
        if len(rows):
            self._forget_rows(rows)
            self._rows.delete(rows)
        return len(rows)

    def codes_of(self, ids: ArrayLike) -> BinaryCodes:
        """Return the codes of some ids, in the order of the ids."""
        return to_codes(self._rows.words[self._rows_of(ids)], self.n_bits)

    def search(self, queries: BinaryCodes, k: int, *, allowed: ArrayLike | None = None) -> Hits:
        """Return the `k` nearest codes of each query.

        Parameters
        ----------
        queries : BinaryCodes
            What to look for.
        k : int
            How many to return, 1 or more; where there are fewer, all are returned.
        allowed : vector of int, optional
            Only these ids are answers; those that are not in the index are passed over.

        Returns
        -------
        Hits
            By distance, then by id.
        """
        return self._answer(queries, allowed, min(_at_least(1, k, "k"), max(1, len(self))), self.n_bits)

    def within(self, queries: BinaryCodes, radius: int, *, allowed: ArrayLike | None = None) -> Hits:
        """Return all codes that differ from a query in at most `radius` bits.

        Parameters
        ----------
        queries : BinaryCodes
            What to look for.
        radius : int
            The largest distance to return, 0 or more.
        allowed : vector of int, optional
            Only these ids are answers; those that are not in the index are passed over.

        Returns
        -------
        Hits
            By distance, then by id.
        """
        return self._answer(queries, allowed, None, min(_at_least(0, radius, "radius"), self.n_bits))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder.

        A crash leaves what was there before, whole; whoever has the old files open keeps them. One writer at a time.
        """
        arrays = {"ids": self._rows.ids, "codes": self._rows.words, **self._derived()}
        write_arrays(path, self.name, self.n_bits, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a folder that any index saved.

        The files are mapped into memory, not read: their sizes and headers are checked here, their content by
        :func:`ddsh.index.verify`. The index may be changed; the folder stays as it is until :meth:`save`.
        """
        saved = open_arrays(path, cls._derived_names)
        index = cls(saved.n_bits)
        index._rows = Rows(saved.arrays["ids"], saved.arrays["codes"])
        index._adopt(saved)
        return index

    @abstractmethod
    def _find(self, queries: Words, rows: Integers | None, k: int | None, radius: int) -> Found:
        """Return the rows within `radius`, ranked; only the first `k`, and only those among `rows`, if given."""

    def _forget(self) -> None:  # noqa: B027 -- most indexes derive nothing
        """Drop what was derived from the rows: they have moved."""

    def _forget_rows(self, rows: Integers) -> None:  # noqa: B027
        """Drop what was derived from some rows, which are about to go."""

    def _derived(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of `_derived_names`, which are worth saving."""
        return {}

    def _adopt(self, saved: Saved) -> None:  # noqa: B027
        """Take back derived arrays, where they were saved."""

    def _answer(self, queries: BinaryCodes, allowed: ArrayLike | None, k: int | None, radius: int) -> Hits:
        self._check_length(queries)
        rows = None if allowed is None else self._known_rows(to_ids(allowed))
        words = to_words(queries)
        parts = []
        for start in range(0, len(words), MAX_QUERIES):
            block = words[start : start + MAX_QUERIES]
            parts.append(self._find(block, rows, k, radius).of_queries(np.arange(start, start + len(block))))
        found = Found.join(parts)
        offsets = np.concatenate([[0], np.cumsum(found.counts(len(words)))])
        return Hits(offsets, self._rows.ids[found.row], found.distance)

    def _known_rows(self, ids: Integers) -> Integers:
        rows, known = self._rows.find(ids)
        return np.unique(rows[known])

    def _rows_of(self, ids: ArrayLike) -> Integers:
        wanted = to_ids(ids)
        rows, known = self._rows.find(wanted)
        if not known.all():
            unknown = wanted[~known]
            raise InvalidInput(f"{len(unknown)} of {len(wanted)} ids are not in the index, such as {unknown[0]}.")
        return rows

    def _next_ids(self, count: int) -> Integers:
        first = int(self._rows.ids[-1]) + 1 if len(self) else 0
        if first + count - 1 > MAX_ID:
            raise InvalidInput(f"No {count} ids are left after {first - 1}; give ids.")
        return np.arange(first, first + count, dtype=np.int64)

    def _check_new(self, ids: Integers, count: int) -> None:
        if len(ids) != count:
            raise InvalidInput(f"{count} codes but {len(ids)} ids; give one id per code.")
        values, counts = np.unique(ids, return_counts=True)
        if len(values) < len(ids):
            raise InvalidInput(f"Id {values[counts > 1][0]} is given twice; ids must be unique.")
        known = self._rows.find(values)[1]
        if known.any():
            raise InvalidInput(f"Id {values[known][0]} is in the index already; remove it first, or give another id.")

    def _check_length(self, codes: BinaryCodes) -> None:
        if codes.n_bits != self.n_bits:
            raise InvalidInput(f"The index holds codes of {self.n_bits} bits; got codes of {codes.n_bits} bits.")


def _at_least(smallest: int, value: int, name: str) -> int:
    """Return `value` as an int, or raise."""
    try:
        number = as_integer(value)
    except TypeError:
        raise InvalidInput(f"{name} must be an integer; got {value!r}.") from None
    if number < smallest:
        raise InvalidInput(f"{name} must be {smallest} or more; got {number}.")
    return number
