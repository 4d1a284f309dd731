"""Hash table of codes: equal codes share a bucket."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, count, takewhile
from math import comb
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.index._matches import Integers, Matches, Words, batches, position_in_group
from ddsh.index._scan import collect, scan, search_radii
from ddsh.index.base import nearest_first

Keys: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.uint32]

# Cost of probing one bucket, in codes that a scan compares in the same time.
_COST_OF_A_PROBE = 16
# Share of a scan's cost that may be spent on probes, which are wasted if the scan is needed after all.
_PROBE_BUDGET = 0.5
_PROBES_AT_ONCE = 1 << 15
# Bits of the filter per bucket, as a power of two; two of them are set, so that 1 of 256 wrong keys passes.
_FILTER_SPARSITY = 5


class KeyMaker:
    """Computes the keys of codes: the exclusive or of one random number for every bit that is set.

    So the key of a code with some bits flipped is the key of the code, exclusive or the key of the flips, and the
    keys of the flips are the same for all queries.

    Parameters
    ----------
    numbers : ndarray of uint64, shape (n_bits,)
        The random number of each bit.
    """

    def __init__(self, numbers: Keys) -> None:
        self.numbers = numbers
        bits = np.pad(numbers, (0, -len(numbers) % 8)).reshape(-1, 8)
        # The key of each of the 256 values of every byte, shape (n_bytes, 256).
        self._of_bytes = np.zeros((len(bits), 1), np.uint64)
        for number in bits.T:
            self._of_bytes = np.hstack([self._of_bytes, self._of_bytes ^ number[:, None]])
        self._flips = {0: np.zeros(1, np.uint64)}

    @classmethod
    def seeded(cls, n_bits: int, seed: int) -> Self:
        """Draw the numbers."""
        return cls(np.random.default_rng([n_bits, seed]).integers(0, 1 << 64, n_bits, np.uint64))

    def keys(self, words: Words) -> Keys:
        """Return the key of each code."""
        columns = np.ascontiguousarray(words, "<u8").view(np.uint8).T
        keys = np.zeros(len(words), np.uint64)
        # The padding bytes of the last word are zero, and so would be their keys.
        for column, of_byte in zip(columns, self._of_bytes, strict=False):
            keys ^= of_byte[column]
        return keys

    def flips(self, size: int) -> Keys:
        """Return the key of every set of `size` bits, by the largest bit, then the second largest and so on."""
        if size not in self._flips:
            smaller = self.flips(size - 1)
            # In this order, the sets that lie below bit j are the first ones of their size.
            parts = [smaller[: comb(j, size - 1)] ^ number for j, number in enumerate(self.numbers)]
            self._flips[size] = np.concatenate(parts)
        return self._flips[size]


@dataclass(frozen=True, eq=False)
class HashTable:
    """Buckets of rows with equal codes.

    Parameters
    ----------
    maker : KeyMaker
        Computes the keys.
    buckets : ndarray of uint64, shape (n_buckets, n_words)
        The code of each bucket.
    starts : ndarray of uint32, shape (n_buckets + 1,)
        Bucket ``b`` holds ``members[starts[b]:starts[b + 1]]``.
    members : ndarray of uint32, shape (n,)
        Rows, ascending within each bucket.
    """

    maker: KeyMaker
    buckets: Words
    starts: Numbers
    members: Numbers

    @cached_property
    def by_key(self) -> tuple[Keys, Integers]:
        """The keys of the buckets, ascending, and the bucket of each."""
        keys = self.maker.keys(self.buckets)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    @cached_property
    def filter(self) -> NDArray[np.uint8]:
        """Bloom filter of the keys: two bits are set for each, at the positions given by its first and last bits."""
        bits = np.zeros(1 << (min(32, len(self).bit_length() + _FILTER_SPARSITY) - 3), np.uint8)
        for point in (_first_bits, _last_bits):
            places = point(self.by_key[0], len(bits))
            np.bitwise_or.at(bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
        return bits

    @property
    def is_compact(self) -> bool:
        """Whether there are few enough buckets for the table to take little room beside the codes."""
        return 2 * len(self) <= len(self.members)

    @classmethod
    def build(cls, words: Words, n_bits: int) -> Self:
        """Build the table with random numbers that give different codes different keys."""
        tables = (cls.with_keys(words, KeyMaker.seeded(n_bits, seed)) for seed in count())
        return next(table for table in tables if table.separates(words))

    @classmethod
    def with_keys(cls, words: Words, maker: KeyMaker) -> Self:
        """Build the table with given random numbers."""
        all_keys = maker.keys(words)
        members = np.argsort(all_keys, kind="stable").astype(np.uint32)
        ordered = all_keys[members]
        is_first = np.ones(len(words), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        first = np.flatnonzero(is_first)
        return cls(maker, words[members[first]], np.append(first, len(words)).astype(np.uint32), members)

    def separates(self, words: Words) -> bool:
        """Return whether all members of every bucket have its code."""
        return np.array_equal(words[self.members], np.repeat(self.buckets, np.diff(self.starts), axis=0))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the table as named arrays."""
        return {
            "numbers": self.maker.numbers,
            "buckets": self.buckets,
            "starts": self.starts,
            "members": self.members,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], words: Words, n_bits: int) -> Self:
        """Restore what :meth:`to_arrays` returned for these words; arrays of other sizes are refused."""
        n_buckets = len(arrays["buckets"])
        expected = {
            "numbers": ("u8", (n_bits,)),
            "buckets": ("u8", (n_buckets, words.shape[1])),
            "starts": ("u4", (n_buckets + 1,)),
            "members": ("u4", (len(words),)),
        }
        # Version 1 of the files has starts and members of eight bytes.
        found = {name: (array.dtype.str[1:].replace("i8", "u4"), array.shape) for name, array in arrays.items()}
        if found != expected:
            raise InvalidInput(f"the table of buckets is not one of {len(words)} codes of {n_bits} bits")
        starts, members = (arrays[name].astype(np.uint32, copy=False) for name in ("starts", "members"))
        return cls(KeyMaker(arrays["numbers"]), arrays["buckets"], starts, members)

    def __len__(self) -> int:
        return len(self.buckets)

    def restricted(self, kept: NDArray[np.bool_]) -> Self:
        """Return the table with only the rows that are `kept`; buckets may become empty."""
        inside = kept[self.members]
        counts = np.concatenate([[0], np.cumsum(inside)])
        return replace(self, members=self.members[inside], starts=counts[self.starts].astype(np.uint32))

    def renumbered(self, rows: Integers) -> Self:
        """Return the table with row ``i`` renumbered to ``rows[i]``."""
        return replace(self, members=rows[self.members].astype(np.uint32))

    def reordered(self, order: Integers) -> Self:
        """Return the table with bucket ``order[b]`` as bucket ``b``."""
        if np.array_equal(order, np.arange(len(order))):
            return self
        sizes = self._sizes(order)
        places = np.repeat(self.starts[order].astype(np.int64), sizes) + position_in_group(sizes)
        starts = np.append(0, np.cumsum(sizes)).astype(np.uint32)
        return replace(self, buckets=self.buckets[order], starts=starts, members=self.members[places])

    def find(self, queries: Words, k: int | None, radius: int) -> Matches:
        """Return the rows within `radius`, nearest first; only the first `k` if given."""
        near = nearest_first(self._near_buckets(queries, k, radius))
        sizes = self._sizes(near.row)
        if k is not None:
            # Drop the buckets that lie further away than the k-th row of their query.
            totals = np.bincount(near.query, sizes, len(queries))
            before = np.cumsum(sizes) - sizes - (np.cumsum(totals) - totals)[near.query]
            furthest = np.zeros(len(queries), np.int64)
            np.maximum.at(furthest, near.query[before < k], near.distance[before < k])
            near = near[near.distance <= furthest[near.query]]
            sizes = self._sizes(near.row)
        expected = np.bincount(near.query, sizes, len(queries))
        if k is not None:
            sizes = np.minimum(sizes, k)  # no more rows of one bucket can be among the first k
        parts = []
        for part in batches(expected):
            first, last = np.searchsorted(near.query, [part.start, part.stop])
            some, n_rows = near[np.arange(first, last)], sizes[first:last]
            places = np.repeat(self.starts[some.row].astype(np.int64), n_rows) + position_in_group(n_rows)
            query, distance = np.repeat(some.query, n_rows), np.repeat(some.distance, n_rows)
            parts.append(nearest_first(Matches(query, self.members[places].astype(np.int64), distance), k))
        return Matches.join(parts)

    def _near_buckets(self, queries: Words, k: int | None, radius: int) -> Matches:
        """Probe increasing distances until each query has enough rows, or until scanning all buckets costs less."""
        n_levels = self._levels_to_probe(k, radius)
        pending, probed, done = np.arange(len(queries)), Matches.none(), []
        for level in range(n_levels):
            probed = Matches.join([probed, self._probe(queries[pending], level).of_queries(pending)])
            if k is not None:
                held = np.bincount(probed.query, self._sizes(probed.row), len(queries))
                has_enough = held[probed.query] >= k
                done.append(probed[has_enough])
                probed, pending = probed[~has_enough], pending[held[pending] < k]
        if n_levels <= radius:
            filled = np.flatnonzero(np.diff(self.starts))
            codes = self.buckets if len(filled) == len(self) else self.buckets[filled]
            radii = search_radii(codes, queries[pending], k, radius)
            probed = scan(codes, queries[pending], radii, None, collect).at_rows(filled).of_queries(pending)
        return Matches.join([*done, probed])

    def _levels_to_probe(self, k: int | None, radius: int) -> int:
        """Return how many distances, from zero on, are worth probing; a scan follows unless they reach `radius`."""
        budget = len(self) / _COST_OF_A_PROBE * (1 if k is None else _PROBE_BUDGET)
        probes = accumulate(comb(len(self.maker.numbers), level) for level in range(radius + 1))
        n_affordable = sum(1 for _ in takewhile(lambda n_probes: n_probes <= budget, probes))
        return 0 if k is None and n_affordable <= radius else n_affordable

    def _probe(self, queries: Words, level: int) -> Matches:
        """Return the buckets at exactly the distance `level`."""
        all_keys, flips = self.maker.keys(queries), self.maker.flips(level)
        step = max(1, _PROBES_AT_ONCE // len(flips))
        parts = []
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            asked = all_keys[part]
            query, flip = np.divmod(np.flatnonzero(self._has_bit(_first_bits, asked[:, None] ^ flips)), len(flips))
            wanted = asked[query] ^ flips[flip]
            passed = np.flatnonzero(self._has_bit(_last_bits, wanted))
            query, wanted = query[passed], wanted[passed]
            keys, by_key = self.by_key
            place = np.minimum(np.searchsorted(keys, wanted), len(self) - 1)
            is_hit = keys[place] == wanted
            query, bucket = np.divmod(np.unique(query[is_hit] * len(self) + by_key[place[is_hit]]), len(self))
            # Flips of other bits may have the same key; only the distance tells.
            distance = np.bitwise_count(self.buckets[bucket] ^ queries[part][query]).sum(axis=1, dtype=np.int64)
            parts.append(Matches(query + start, bucket, distance)[distance == level])
        return Matches.join(parts)

    def _has_bit(self, point: Callable[[Keys, int], Integers], keys: Keys) -> NDArray[np.bool_]:
        """Return whether the bit of the filter that a key points to is set."""
        places = point(keys, len(self.filter))
        return (self.filter.take(places >> 3) >> (places & 7).astype(np.uint8) & 1).view(np.bool_)

    def _sizes(self, buckets: Integers) -> Integers:
        return self.starts[buckets + 1].astype(np.int64) - self.starts[buckets]


def _first_bits(keys: Keys, n_bytes: int) -> Integers:
    """Return the first bits of keys, as many as number the bits of a filter of `n_bytes`."""
    return (keys >> np.uint64(65 - (8 * n_bytes).bit_length())).astype(np.int64)


def _last_bits(keys: Keys, n_bytes: int) -> Integers:
    """Return the last bits of keys, as many as number the bits of a filter of `n_bytes`."""
    return (keys & np.uint64(8 * n_bytes - 1)).astype(np.int64)
