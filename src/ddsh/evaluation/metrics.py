"""Metrics of Hamming rankings, as functions of counts by distance.

A ranking by Hamming distance is a sequence of tie blocks: all items at one distance. Before a block come
``seen`` items, ``hits`` of them relevant; it has ``n`` items, ``r`` of them relevant. Every function here is
exact: the expectation over random orders within each block, in closed form, and the worst and best order.
:func:`rank_stably` keeps the order of the database within ties instead, as the authors' evaluation does.

A metric is one entry of :data:`METRICS`.

References
----------
McSherry, F. and Najork, M. "Computing Information Retrieval Performance Measures Efficiently in the Presence
of Tied Scores." ECIR 2008.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator
from scipy.special import gammaln

from ddsh.codes import BinaryCodes
from ddsh.evaluation.counts import Counts
from ddsh.labels import Labels

__all__ = [
    "METRICS",
    "APConvention",
    "AveragePrecision",
    "Curve",
    "HarmonicNumbers",
    "Metric",
    "Ranking",
    "average_precision",
    "average_precision_of",
    "by_radius",
    "curve_by_rank",
    "expected_gains",
    "found_at",
    "pooled_by_radius",
    "precision_at",
    "rank_stably",
    "success",
]

if TYPE_CHECKING:
    Floats: TypeAlias = NDArray[np.float64]
else:  # results store such arrays as JSON
    Floats = Annotated[
        np.ndarray, PlainValidator(lambda values: np.asarray(values, np.float64)), PlainSerializer(np.ndarray.tolist)
    ]
Ints: TypeAlias = NDArray[np.int64]
Count: TypeAlias = Ints | np.int64
APConvention: TypeAlias = Literal["retrieved", "min_k"]

_MAX_STORED = 1 << 20
_FEW_STORED = 1 << 12
_EULER = np.longdouble("0.57721566490153286060651209008240243")


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision of each query over the orders of ties.

    Parameters
    ----------
    expected : ndarray of float
        Mean over all orders within tie blocks.
    low, high : ndarray of float
        The worst and the best order.
    """

    expected: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Curve:
    """Mean precision and recall over queries, at each radius (0, 1, ...) or at each rank (1, 2, ...).

    Parameters
    ----------
    precision, recall : ndarray of float
        One value per radius or rank.
    rank : list of int, optional
        The ranks, if only some are stored.
    """

    precision: Floats
    recall: Floats
    rank: list[int] | None = None


class HarmonicNumbers:
    """H(0), H(1), ..., H(n), where H(k) = 1 + 1/2 + ... + 1/k.

    In extended precision, because differences of neighbours are multiplied by ranks and lose as many digits. Of more
    than a million, the first ones are stored and the others computed when they are asked for, as
    ``ln k + gamma + 1/2k - 1/12k^2 + 1/120k^4``; the next term is smaller than 1e-23.

    Parameters
    ----------
    n : int
        The last one.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._n_stored = n if n <= _MAX_STORED else _FEW_STORED
        self._numbers = np.zeros(self._n_stored + 1, np.longdouble)
        np.cumsum(1 / np.arange(1, self._n_stored + 1, dtype=np.longdouble), out=self._numbers[1:])

    def __getitem__(self, k: Count) -> NDArray[np.longdouble]:
        if self._n_stored == self.n:
            return self._numbers[k]
        large = np.maximum(k, self._n_stored).astype(np.longdouble)
        inverse = 1 / (large * large)
        computed = np.log(large) + _EULER + 1 / (2 * large) - inverse * (1 - inverse / 10) / 12
        return np.where(k <= self._n_stored, self._numbers[np.minimum(k, self._n_stored)], computed)


def average_precision(
    counts: Counts, harmonic: HarmonicNumbers, top_k: int | None = None, convention: APConvention = "retrieved"
) -> AveragePrecision:
    """Return the expected, worst and best average precision of each query.

    Parameters
    ----------
    counts : Counts
        Items and relevant items at each distance.
    harmonic : HarmonicNumbers
        Up to the size of the database.
    top_k : int, optional
        Score only the first `top_k` items.
    convention : {"retrieved", "min_k"}
        Divide by the relevant items among the first `top_k`, or by ``min(top_k, relevant items)``.
        Both are equal without `top_k`.

    Returns
    -------
    AveragePrecision
        Three vectors; 0 for a query without relevant items.
    """
    n, r = counts.total, counts.relevant
    seen, hits = np.cumsum(n, axis=1) - n, np.cumsum(r, axis=1) - r
    k = harmonic.n if top_k is None else min(top_k, harmonic.n)
    whole = seen + n <= k
    sums = (
        _expected_sum(n, r, seen, hits, harmonic),
        _run_sum(hits, seen + n - r, r, harmonic),
        _run_sum(hits, seen, r, harmonic),
    )
    done = [np.where(whole, part, 0.0).sum(axis=1) for part in sums]
    all_relevant = r.sum(axis=1)
    found = np.where(whole, r, 0).sum(axis=1)
    divisor = found if convention == "retrieved" else np.minimum(all_relevant, k)
    expected, low, high = (part / np.maximum(divisor, 1) for part in done)
    for row, block in zip(*np.nonzero((seen < k) & (k < seen + n)), strict=True):
        cut = _Cut(n[row, block], r[row, block], seen[row, block], hits[row, block], k)
        fixed = None if convention == "retrieved" else divisor[row]
        expected[row], low[row], high[row] = cut.scores(harmonic, [part[row] for part in done], fixed)
    return AveragePrecision(expected, low, high)


@dataclass(frozen=True)
class _Cut:
    """The tie block that contains rank `k`; its relevant items before `k` are random."""

    n: np.int64
    r: np.int64
    seen: np.int64
    hits: np.int64
    k: int

    def scores(self, harmonic: HarmonicNumbers, done: list[float], divisor: int | None) -> tuple[float, float, float]:
        """Return expected, lowest and highest AP, given the sums over the blocks before."""
        slots = int(self.k - self.seen)
        found = np.arange(max(0, slots - int(self.n - self.r)), min(slots, int(self.r)) + 1)
        by = np.maximum(self.hits + found, 1) if divisor is None else max(divisor, 1)
        expected = done[0] + _expected_sum(np.int64(slots), found, self.seen, self.hits, harmonic)
        low = done[1] + _run_sum(self.hits, self.seen + slots - found, found, harmonic)
        high = done[2] + _run_sum(self.hits, self.seen, found, harmonic)
        chance = _hypergeometric(found, self.n, self.r, slots)
        return float(chance @ (expected / by)), float((low / by).min()), float((high / by).max())


def _expected_sum(n: Count, r: Count, seen: Count, hits: Count, harmonic: HarmonicNumbers) -> Floats:
    """Return the expected sum of the precisions at a block's relevant items.

    Position j of the block is relevant with probability r/n, and then (j - 1)(r - 1)/(n - 1) of those before it are
    relevant: sum over j of r/n (hits + 1 + (j - 1)(r - 1)/(n - 1)) / (seen + j).
    """
    span = harmonic[seen + n] - harmonic[seen]
    others = (r - 1) / np.maximum(n - 1, 1) * (n - (seen + 1) * span)
    return np.asarray(r / np.maximum(n, 1) * ((hits + 1) * span + others), np.float64)


def _run_sum(hits: Count, start: Count, r: Count, harmonic: HarmonicNumbers) -> Floats:
    """Return the sum of the precisions at r consecutive relevant items after `start` items."""
    return np.asarray(r + (hits - start) * (harmonic[start + r] - harmonic[start]), np.float64)


def _hypergeometric(found: Ints, n: np.int64, r: np.int64, slots: int) -> Floats:
    """Return the probability of each number of relevant items among `slots` of n items."""
    log_ways = (
        -gammaln(found + 1) - gammaln(r - found + 1) - gammaln(slots - found + 1) - gammaln(n - r - slots + found + 1)
    )
    ways = np.exp(log_ways - log_ways.max())
    result: Floats = ways / ways.sum()
    return result


def by_radius(counts: Counts) -> Curve:
    """Return the sum over queries of precision and recall within each radius.

    A query that finds nothing within a radius has precision 0 there; one without relevant items has recall 0.
    """
    found, hits = np.cumsum(counts.total, axis=1), np.cumsum(counts.relevant, axis=1)
    precision = hits / np.maximum(found, 1)
    recall = hits / np.maximum(hits[:, -1:], 1)
    return Curve(precision.sum(axis=0), recall.sum(axis=0))


def pooled_by_radius(counts: Counts) -> Ints:
    """Return items found, relevant items found, and relevant items, summed over queries, within each radius.

    The authors' precision-recall curve pools all pairs of a query and an item: precision is the second row divided by
    the first, recall the second by the third. Queries that find nothing do not lower it.
    """
    found, hits = np.cumsum(counts.total, axis=1).sum(axis=0), np.cumsum(counts.relevant, axis=1).sum(axis=0)
    return np.stack([found, hits, np.full_like(hits, hits[-1])])


def expected_gains(counts: Counts, n_database: int) -> Floats:
    """Return the expected relevance at each rank, summed over queries.

    Within a tie block the expectation is constant, so each query is a step function; the steps of all queries are
    summed first and accumulated over ranks once.

    Returns
    -------
    ndarray of float, shape (2, n_database)
        Relevance, for precision, and relevance divided by the relevant items of the query, for recall.
    """
    n, r = counts.total, counts.relevant
    starts = (np.cumsum(n, axis=1) - n).ravel()
    steps = np.diff(r / np.maximum(n, 1), axis=1, prepend=0.0)
    shares = steps / np.maximum(r.sum(axis=1, keepdims=True), 1)
    gains = np.zeros((2, n_database))
    for row, part in zip(gains, (steps, shares), strict=True):
        row[:] = np.cumsum(np.bincount(starts, part.ravel(), minlength=n_database + 1)[:n_database])
    return gains


def found_at(counts: Counts, ranks: Ints) -> Floats:
    """Return the expected relevant items among the first items, summed over queries, at some ranks.

    Unlike :func:`expected_gains` it takes no memory for the other ranks.

    Returns
    -------
    ndarray of float, shape (2, n_ranks)
        Relevant items, for precision, and relevant items divided by all of the query, for recall.
    """
    n, r = counts.total, counts.relevant
    seen, rates, all_relevant = np.cumsum(n, axis=1) - n, r / np.maximum(n, 1), np.maximum(r.sum(axis=1), 1)
    found = np.array([(np.clip(rank - seen, 0, n) * rates).sum(axis=1) for rank in ranks.tolist()])
    return np.stack([found.sum(axis=1), (found / all_relevant).sum(axis=1)])


def success(counts: Counts, radii: tuple[int, ...]) -> Ints:
    """Return the number of queries with a relevant item within each radius."""
    hits = np.cumsum(counts.relevant, axis=1)
    last = hits.shape[1] - 1
    return np.array([np.count_nonzero(hits[:, min(radius, last)]) for radius in radii], np.int64)


def curve_by_rank(gains: Floats) -> Curve:
    """Return precision and recall at each rank from the mean of :func:`expected_gains`."""
    found = np.cumsum(gains, axis=1)
    return Curve(found[0] / np.arange(1, gains.shape[1] + 1), found[1])


@dataclass(frozen=True)
class StableRanking:
    """Scores of rankings that keep the order of the database within ties.

    Parameters
    ----------
    average_precision : ndarray of float
        Average precision of each query.
    gains : ndarray of float, shape (2, n_database)
        Relevance at each rank, and relevance divided by the relevant items of the query, summed over queries.
    """

    average_precision: Floats
    gains: Floats


def rank_stably(
    query_codes: BinaryCodes,
    query_labels: Labels,
    database_codes: BinaryCodes,
    database_labels: Labels,
    top_k: int | None,
    convention: APConvention,
) -> StableRanking:
    """Rank the database for each query, ties in database order, and score the rankings."""
    precisions = np.empty(len(query_codes))
    gains = np.zeros((2, len(database_codes)))
    label_sets, set_of = database_labels.distinct()
    for rows, distances in query_codes.hamming_blocks(database_codes):
        similar = query_labels.take(rows).similar(label_sets)
        for row, (row_distances, row_similar) in enumerate(zip(distances, similar, strict=True), rows.start):
            order = np.argsort(row_distances, kind="stable")
            places = np.flatnonzero(row_similar[set_of[order]])
            gains[0, places] += 1.0
            gains[1, places] += 1.0 / max(len(places), 1)
            precisions[row] = average_precision_of(places, top_k, convention)
    return StableRanking(precisions, gains)


def average_precision_of(places: NDArray[np.intp], top_k: int | None, convention: APConvention) -> float:
    """Return AP from the sorted positions (from 0) of the relevant items."""
    found = places if top_k is None else places[places < top_k]
    divisor = len(found) if convention == "retrieved" or top_k is None else min(top_k, len(places))
    precisions = np.arange(1, len(found) + 1) / (found + 1)
    return float(precisions.sum() / max(divisor, 1))


def precision_at(counts: Counts, k: int) -> Floats:
    """Return the expected precision of each query among the first `k` items."""
    n, r = counts.total, counts.relevant
    seen = np.cumsum(n, axis=1) - n
    taken = np.clip(k - seen, 0, n)
    precision: Floats = (taken * (r / np.maximum(n, 1))).sum(axis=1) / np.minimum(k, n.sum(axis=1))
    return precision


@dataclass(frozen=True)
class Ranking:
    """Rankings of queries, the input of metrics.

    Parameters
    ----------
    counts : Counts
        Items and relevant items at each distance.
    precision : AveragePrecision
        Average precision of each query, of the first `top_k` items if the protocol says so.
    whole : ndarray of float
        Expected average precision of each query over the whole database.
    """

    counts: Counts
    precision: AveragePrecision
    whole: Floats


@dataclass(frozen=True)
class Metric:
    """A score of each query; results contain its mean over queries.

    Parameters
    ----------
    title : str
        Heading of its column in tables.
    values : callable
        Function of a :class:`Ranking` that returns one value per query.
    """

    title: str
    values: Callable[[Ranking], Any]


METRICS: Mapping[str, Metric] = {
    "map": Metric("MAP", lambda ranking: ranking.precision.expected),
    "map_low": Metric("MAP, worst ties", lambda ranking: ranking.precision.low),
    "map_high": Metric("MAP, best ties", lambda ranking: ranking.precision.high),
    "map_all": Metric("MAP, whole database", lambda ranking: ranking.whole),
    "precision_at_100": Metric("P@100", lambda ranking: precision_at(ranking.counts, 100)),
    "success_within_2": Metric("success r=2", lambda ranking: ranking.counts.relevant[:, :3].any(axis=1)),
}
"""Metrics of every result by name, for results, tables and the report."""
