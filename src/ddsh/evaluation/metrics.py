"""Scores of Hamming rankings as pure functions of counts by distance.

A ranking by Hamming distance is a sequence of tie blocks: all items at one distance. Before a block come
``seen`` items, ``hits`` of them relevant; it has ``n`` items, ``r`` of them relevant. Every function here is
exact: expectations over a random order within each block in closed form, and the worst and best order.

References
----------
McSherry, F. and Najork, M. "Computing Information Retrieval Performance Measures Efficiently in the Presence
of Tied Scores." ECIR 2008.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ddsh.evaluation.counts import Counts

Floats: TypeAlias = NDArray[np.float64]
Harmonic: TypeAlias = NDArray[np.longdouble]
Ints: TypeAlias = NDArray[np.int64]
Count: TypeAlias = Ints | np.int64
APConvention: TypeAlias = Literal["retrieved", "min_k"]


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
    """

    precision: Floats
    recall: Floats


def harmonic_numbers(n: int) -> Harmonic:
    """Return H(0), H(1), ..., H(n), where H(k) = 1 + 1/2 + ... + 1/k.

    In extended precision: differences of neighbours are multiplied by ranks, which costs as many digits as a rank has.
    """
    numbers = np.zeros(n + 1, np.longdouble)
    np.cumsum(1 / np.arange(1, n + 1, dtype=np.longdouble), out=numbers[1:])
    return numbers


def average_precision(
    counts: Counts, harmonic: Harmonic, top_k: int | None = None, convention: APConvention = "retrieved"
) -> AveragePrecision:
    """Return the average precision of each query: expected, worst and best over the order of ties.

    Parameters
    ----------
    counts : Counts
        Items and relevant items at each distance.
    harmonic : ndarray of longdouble
        :func:`harmonic_numbers` up to the size of the database.
    top_k : int, optional
        Score only the first `top_k` items.
    convention : {"retrieved", "min_k"}
        Divide by the relevant items among the first `top_k`, or by ``min(top_k, relevant items)``.
        The same thing without `top_k`.

    Returns
    -------
    AveragePrecision
        Three vectors; 0 for a query without relevant items.
    """
    n, r = counts.total, counts.relevant
    seen, hits = np.cumsum(n, axis=1) - n, np.cumsum(r, axis=1) - r
    k = len(harmonic) - 1 if top_k is None else min(top_k, len(harmonic) - 1)
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
    """The tie block that rank `k` cuts in two: how many relevant items fall before the cut is a matter of chance."""

    n: np.int64
    r: np.int64
    seen: np.int64
    hits: np.int64
    k: int

    def scores(self, harmonic: Harmonic, done: list[float], divisor: int | None) -> tuple[float, float, float]:
        """Return the query's expected, lowest and highest AP, given its sums over the blocks before this one."""
        slots = int(self.k - self.seen)
        found = np.arange(max(0, slots - int(self.n - self.r)), min(slots, int(self.r)) + 1)
        by = np.maximum(self.hits + found, 1) if divisor is None else max(divisor, 1)
        expected = done[0] + _expected_sum(np.int64(slots), found, self.seen, self.hits, harmonic)
        low = done[1] + _run_sum(self.hits, self.seen + slots - found, found, harmonic)
        high = done[2] + _run_sum(self.hits, self.seen, found, harmonic)
        chance = _hypergeometric(found, self.n, self.r, slots)
        return float(chance @ (expected / by)), float((low / by).min()), float((high / by).max())


def _expected_sum(n: Count, r: Count, seen: Count, hits: Count, harmonic: Harmonic) -> Floats:
    """Return the expected sum of the precisions at a block's relevant items.

    Position j of the block holds a relevant item with chance r/n, and then (j - 1)(r - 1)/(n - 1) of those before
    it are relevant: sum over j of r/n (hits + 1 + (j - 1)(r - 1)/(n - 1)) / (seen + j).
    """
    span = harmonic[seen + n] - harmonic[seen]
    others = (r - 1) / np.maximum(n - 1, 1) * (n - (seen + 1) * span)
    return np.asarray(r / np.maximum(n, 1) * ((hits + 1) * span + others), np.float64)


def _run_sum(hits: Count, start: Count, r: Count, harmonic: Harmonic) -> Floats:
    """Return the sum of the precisions at r relevant items in a row that follow the first `start` items."""
    return np.asarray(r + (hits - start) * (harmonic[start + r] - harmonic[start]), np.float64)


def _hypergeometric(found: Ints, n: np.int64, r: np.int64, slots: int) -> Floats:
    """Return the chance of each number of relevant items among `slots` of n items, r of them relevant."""
    log_ways = (
        -gammaln(found + 1) - gammaln(r - found + 1) - gammaln(slots - found + 1) - gammaln(n - r - slots + found + 1)
    )
    ways = np.exp(log_ways - log_ways.max())
    result: Floats = ways / ways.sum()
    return result


def by_radius(counts: Counts) -> Curve:
    """Return the *sum* over queries of precision and recall within each radius.

    A query that finds nothing within a radius has precision 0 there; one without relevant items has recall 0.
    """
    found, hits = np.cumsum(counts.total, axis=1), np.cumsum(counts.relevant, axis=1)
    precision = hits / np.maximum(found, 1)
    recall = hits / np.maximum(hits[:, -1:], 1)
    return Curve(precision.sum(axis=0), recall.sum(axis=0))


def expected_gains(counts: Counts, n_database: int) -> Floats:
    """Return the expected relevance at each rank, summed over queries: as it is, and as a share of the relevant items.

    Within a tie block the expectation is constant, so a query is a step function; the steps of all queries are
    added up first and summed over ranks once.

    Returns
    -------
    ndarray of float, shape (2, n_database)
        For precision, and for recall.
    """
    n, r = counts.total, counts.relevant
    starts = (np.cumsum(n, axis=1) - n).ravel()
    steps = np.diff(r / np.maximum(n, 1), axis=1, prepend=0.0)
    shares = steps / np.maximum(r.sum(axis=1, keepdims=True), 1)
    gains = np.zeros((2, n_database))
    for row, part in zip(gains, (steps, shares), strict=True):
        row[:] = np.cumsum(np.bincount(starts, part.ravel(), minlength=n_database + 1)[:n_database])
    return gains


def success(counts: Counts, radii: tuple[int, ...]) -> Ints:
    """Return how many queries find at least one relevant item within each radius."""
    hits = np.cumsum(counts.relevant, axis=1)
    last = hits.shape[1] - 1
    return np.array([np.count_nonzero(hits[:, min(radius, last)]) for radius in radii], np.int64)


def curve_by_rank(gains: Floats) -> Curve:
    """Return precision and recall at each rank from :func:`expected_gains` of all queries, divided by their number."""
    found = np.cumsum(gains, axis=1)
    return Curve(found[0] / np.arange(1, gains.shape[1] + 1), found[1])
