"""Index of label bits and look bits, ordered by one distance of both."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.codes import MAX_BITS, BinaryCodes, CodePair
from ddsh.errors import ArtefactError, InvalidInput
from ddsh.index._codes_by_id import to_words
from ddsh.index._compiled_table import CompiledTable
from ddsh.index._engine import NO_NUMBERS, get_kernels
from ddsh.index._matches import Integers, Words
from ddsh.index._pair_scan import scan_pairs
from ddsh.index.base import Index, order_by_distance
from ddsh.index.buckets import BucketsIndex
from ddsh.index.exact import ExactIndex

__all__ = ["ORDERS", "By", "PairDistance", "PairHits", "PairIndex", "check_by"]

By: TypeAlias = Literal["both", "label", "look"]
"""What orders results: label bits, look bits, or the distance of both."""

ORDERS: tuple[By, ...] = get_args(By)

_LABEL_SHARE = 6

# More results than that are sorted faster by NumPy than in a heap.
_MAX_COMPILED = 1 << 12
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def check_by(by: object, label_bits: int, look_bits: int) -> By:
    """Return the order that can be used; ``both`` becomes the only code there is.

    Raises
    ------
    InvalidInput
        If `by` is not an order, or if the codes for it are missing.
    """
    if by not in ORDERS:
        raise InvalidInput(f"by must be one of {', '.join(ORDERS)}; got {by!r}.")
    if by == "label" and not label_bits:
        raise InvalidInput("There are no label bits, because the model was made without labels; search by look.")
    if by == "look" and not look_bits:
        raise InvalidInput(
            "There are no look bits, because the model has none; make a new index of the same images with: ddsh index"
            " MODEL IMAGES --out INDEX, which adds them."
        )
    if by == "both" and not (label_bits and look_bits):
        return "label" if label_bits else "look"
    return by


@dataclass(frozen=True)
class PairDistance:
    """The distance that orders results.

    With Hamming distances ``d_label`` and ``d_look`` it is::

        d_look + weight * d_label

    where the weight of a label bit rises with ``d_look``, from 0 up to `near_look` to `label_weight` from `far_look`
    on; beyond `near_label` label bits it is always `label_weight`. So near copies of an image come first, and all
    others mostly by what they show: a difference in all label bits counts six times as much as one in all look bits.
    Ties are ordered by ``d_look``, then by id. The constants were chosen on validation images
    (docs/explanation/two-codes.md).

    Parameters
    ----------
    label_bits, look_bits : int
        Code lengths; 0 if there are none.
    """

    label_bits: int
    look_bits: int

    @property
    def label_weight(self) -> int:
        """Largest weight of a label bit: 24 with 32 label bits and 128 look bits."""
        return max(1, round(_LABEL_SHARE * self.look_bits / max(1, self.label_bits)))

    @property
    def near_look(self) -> int:
        """Number of different look bits up to which label bits do not count: 10 of 64, 26 of 128, 58 of 256."""
        return max(0, self.look_bits // 4 - 6)

    @property
    def far_look(self) -> int:
        """Number of different look bits from which label bits count in full: 16 of 64, 38 of 128, 82 of 256."""
        return self.near_look + max(1, 3 * self.look_bits // 32)

    @property
    def near_label(self) -> int:
        """Largest number of different label bits of a near copy, 12 of 32: a crop may change what an image shows."""
        return 3 * self.label_bits // 8

    @property
    def largest(self) -> int:
        """The largest distance there can be."""
        return self.label_weight * self.label_bits + self.look_bits

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """The distance for every ``d_label`` (rows) and ``d_look`` (columns); it rises with both."""
        label, look = np.ogrid[: self.label_bits + 1, : self.look_bits + 1]
        beyond = np.clip(look - self.near_look, 0, self.far_look - self.near_look)
        weight = self.label_weight * beyond // (self.far_look - self.near_look)
        distances: NDArray[np.int32] = look + label * np.where(label <= self.near_label, weight, self.label_weight)
        return distances.astype(np.int32)

    def of(self, label: NDArray[Any], look: NDArray[Any]) -> NDArray[np.int32]:
        """Return the distances from Hamming distances of both codes."""
        distances: NDArray[np.int32] = self.table[label, look]
        return distances

    def look_limit(self, label: int, furthest: int) -> int:
        """Return the largest ``d_look`` of items at `label` different label bits within a distance; -1 if none."""
        return int(np.searchsorted(self.table[label], furthest, side="right")) - 1


@dataclass(frozen=True, eq=False)
class PairHits:
    """Results of one query, nearest first.

    Parameters
    ----------
    ids : ndarray of int64
        Ids of the items found.
    distances : ndarray of int64
        Distances by which they are ordered.
    label_distances, look_distances : ndarray of int64 or None
        Hamming distances of the codes; None where there are none.
    """

    ids: NDArray[np.int64]
    distances: NDArray[np.int64]
    label_distances: NDArray[np.int64] | None
    look_distances: NDArray[np.int64] | None


class PairIndex:
    """Label bits and look bits with ids, and exact nearest neighbours by either or both.

    Any number of threads may search at once; changes need exclusive access.

    Parameters
    ----------
    label_bits, look_bits : int
        Code lengths; one of them may be 0.
    index : type of Index
        Index of the label bits; look bits are scanned.
    """

    def __init__(self, label_bits: int, look_bits: int, index: type[Index]) -> None:
        if not label_bits and not look_bits:
            raise InvalidInput("An index needs label bits, look bits or both.")
        self.label_bits, self.look_bits = label_bits, look_bits
        self.distance = distance = PairDistance(label_bits, look_bits)
        self._rule = distance.near_label, distance.far_look
        self._largest = distance.largest
        self._label = index(label_bits) if label_bits else None
        self._look = ExactIndex(look_bits) if look_bits else None
        self._looks: tuple[CompiledTable, Words] | None = None

    @property
    def _indexes(self) -> dict[str, Index]:
        named: dict[str, Index | None] = {"label": self._label, "look": self._look}
        return {name: index for name, index in named.items() if index is not None}

    @property
    def _first(self) -> Index:
        return next(iter(self._indexes.values()))

    @property
    def name(self) -> str:
        """Name of the index of the label bits, or of the look bits if there are no others."""
        return self._first.name

    def __len__(self) -> int:
        return len(self._first)

    def __repr__(self) -> str:
        return f"PairIndex({len(self)} codes of {self.label_bits} label and {self.look_bits} look bits)"

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending; a copy."""
        return self._first.ids

    def add(self, codes: CodePair, ids: ArrayLike) -> None:
        """Add codes with new ids; see :meth:`Index.add`."""
        for name, index in self._indexes.items():
            part = getattr(codes, name)
            if part is None:
                raise InvalidInput(f"The index holds {index.n_bits} {name} bits; the codes have none.")
            index.add(part, ids)

    def remove(self, ids: ArrayLike) -> None:
        """Remove codes by id; nothing is removed if an id is unknown."""
        for index in self._indexes.values():
            index.remove(ids)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return for each id whether it is in the index."""
        return self._first.contains(ids)

    def codes_of(self, ids: ArrayLike) -> CodePair:
        """Return the codes of some ids, in the order of the ids."""
        found = {name: index.codes_of(ids) for name, index in self._indexes.items()}
        return CodePair(found.get("label"), found.get("look"))

    def search(
        self,
        query: CodePair,
        k: int | None,
        *,
        by: By = "both",
        radius: int | None = None,
        allowed: ArrayLike | None = None,
    ) -> PairHits:
        """Return the items nearest to one query.

        Parameters
        ----------
        query : CodePair
            One pair of codes.
        k : int or None
            Largest number of items; None returns all.
        by : {"both", "label", "look"}
            ``both`` orders by :class:`PairDistance`; ``label`` and ``look`` order by the Hamming distance of one code,
            with ties by that of the other. Remaining ties are ordered by id.
        radius : int, optional
            Largest distance in this order.
        allowed : vector of int, optional
            Only these ids are returned; unknown ids are ignored.
        """
        by = check_by(by, self.label_bits, self.look_bits)
        k = max(1, len(self)) if k is None else k
        if by == "both":
            return self._search_both(query, k, self._largest if radius is None else radius, allowed)
        first, codes = (self._label, query.label) if by == "label" else (self._look, query.look)
        assert first is not None, "check_by has checked it"
        assert codes is not None, "check_by has checked it"
        ids, distances = first.search(codes, k, allowed=allowed).of(0)
        furthest = int(distances[-1]) if len(distances) else 0
        if radius is not None:
            furthest = min(furthest, radius) if len(ids) == k else radius
        if len(self._indexes) == 2 or radius is not None:
            # All items as far away as the last one: the other code orders them.
            ids, distances = first.within(codes, furthest, allowed=allowed).of(0)
        label, look = self._hamming(query, ids)
        other = look if by == "label" else label
        order = order_by_distance(distances if other is None else distances * (MAX_BITS + 1) + other, ids)[:k]
        return PairHits(
            ids[order],
            distances[order],
            None if label is None else label[order],
            None if look is None else look[order],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder, with one subfolder for each code."""
        for name, index in self._indexes.items():
            index.save(Path(path) / name)

    def load(self, path: str | os.PathLike[str]) -> Self:
        """Return a copy of this empty index with the codes of a folder.

        Raises
        ------
        ArtefactError
            If the folder holds codes of other lengths, or is damaged.
        """
        loaded = type(self)(self.label_bits, self.look_bits, ExactIndex if self._label is None else type(self._label))
        if self._label is not None:
            loaded._label = type(self._label).load(Path(path) / "label")
        if self._look is not None:
            loaded._look = ExactIndex.load(Path(path) / "look")
        for name, index in loaded._indexes.items():
            if index.n_bits != self._indexes[name].n_bits or not np.array_equal(index.ids, loaded.ids):
                raise ArtefactError(f"{path} holds other codes than those of this index.")
        return loaded

    def _search_both(self, query: CodePair, k: int, radius: int, allowed: ArrayLike | None) -> PairHits:
        """Compare every item; both indexes hold the same ids in the same rows."""
        assert self._label is not None, "there are both codes"
        assert self._look is not None, "there are both codes"
        assert query.label is not None, "there are both codes"
        assert query.look is not None, "there are both codes"
        self._label.check_length(query.label)
        self._look.check_length(query.look)
        rows = None if allowed is None else self._label.rows_among(allowed)
        label, look = self._label.codes, self._look.codes
        kernels = get_kernels(2 * len(self))
        if kernels is not None and k <= _MAX_COMPILED:
            return self._search_compiled(kernels, query, k, radius, rows)
        if rows is None and label.n_dead:
            rows = np.delete(np.arange(label.n_rows), label.dead_rows())
        found = scan_pairs(
            (label.words, look.words),
            (to_words(query.label), to_words(query.look)),
            self.distance.of,
            k,
            radius,
            rows,
        )
        return PairHits(self._label.ids_at(found.row), found.distance, found.label, found.look)

    def _search_compiled(
        self, kernels: ModuleType, query: CodePair, k: int, radius: int, rows: Integers | None
    ) -> PairHits:
        """Visit buckets of label bits by increasing distance, as long as their rows can be among the nearest."""
        assert self._label is not None, "there are both codes"
        assert self._look is not None, "there are both codes"
        assert query.label is not None, "there are both codes"
        assert query.look is not None, "there are both codes"
        labels, looks, skip = self._label.codes.words, self._look.codes.words, self._label.skipped(rows)
        asked = to_words(query.label)[0], to_words(query.look)[0]
        distances = self.distance.table
        rule = *self._rule, min(radius, self._largest)
        best, count, covered = np.empty(k, np.uint64), 0, 0
        if isinstance(self._label, BucketsIndex):
            table = self._label.compiled_table(kernels)
            if self._looks is None or self._looks[0] is not table:
                # Rows with equal label bits are read together, so their look bits lie side by side.
                self._looks = table, looks[table.members] if len(table.members) else looks[: table.n_rows]
            table, sorted_looks = self._looks
            covered = table.n_rows
            count = kernels.pair_nearest(
                table.arrays, self.label_bits, sorted_looks, skip, *asked, distances, rule, 0, best, count
            )
        if covered < len(labels):
            rest = (NO_NUMBERS, labels[covered:], NO_NUMBERS, NO_NUMBERS, labels[:0], NO_NUMBERS)
            count = kernels.pair_nearest(
                rest, self.label_bits, looks[covered:], skip, *asked, distances, rule, covered, best, count
            )
        found = np.sort(best[:count])
        keys, row = (found >> _HALF).view(np.int64), (found & _LOW).view(np.int64)
        far, looks_apart = np.divmod(keys, self.look_bits + 1)
        labels_apart = np.bitwise_count(labels[row] ^ asked[0]).sum(axis=1, dtype=np.int64)
        return PairHits(self._label.ids_at(row), far, labels_apart, looks_apart)

    def _hamming(self, query: CodePair, ids: NDArray[np.int64]) -> tuple[Integers | None, Integers | None]:
        """Return the Hamming distances of both codes to some items."""
        codes = self.codes_of(ids)

        def between(mine: BinaryCodes | None, theirs: BinaryCodes | None) -> Integers | None:
            """Return the distances of one code."""
            return None if mine is None or theirs is None else mine.hamming(theirs)[0].astype(np.int64)

        return between(query.label, codes.label), between(query.look, codes.look)
