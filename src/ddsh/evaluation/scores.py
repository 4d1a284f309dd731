"""Scores of query codes against database codes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput, UnknownName
from ddsh.evaluation import metrics
from ddsh.evaluation.counts import Counts, Groups, count_by_distance
from ddsh.evaluation.metrics import METRICS, APConvention, AveragePrecision, Curve, Floats, Ranking, rank_stably
from ddsh.labels import Labels, LabelsLike, as_labels

__all__ = ["PRECISION_AT", "RADII", "PrecisionRecall", "Scores", "Ties", "score"]

Ties: TypeAlias = Literal["expected", "stable"]
RADII = (0, 1, 2)
PRECISION_AT = (1, 10, 100, 500, 1000)
_BLOCK_COUNTS = 1 << 20
_BLOCK_ITEMS = 1 << 19
_MAX_CURVE = 1 << 20
"""Ranks of the longest curve that has a point at every rank."""
_CURVE_POINTS = 200


@dataclass(frozen=True)
class PrecisionRecall:
    """Both precision-recall curves of the field, averaged over queries.

    Parameters
    ----------
    by_radius : Curve
        Within Hamming radius 0, 1, ..., n_bits (hash lookup).
    by_rank : Curve
        Among the first 1, 2, ..., n_database items (Hamming ranking); of more than a million items at 200 ranks.
    by_radius_pooled : Curve, optional
        Within each radius, pooled over all pairs of a query and an item, as the authors of DDSH do; `by_radius` is the
        mean over queries, with precision 0 for a query that finds nothing.
    """

    by_radius: Curve
    by_rank: Curve
    by_radius_pooled: Curve | None = None


@dataclass(frozen=True)
class Scores:
    """All scores of a set of codes.

    Parameters
    ----------
    map : float
        Mean average precision, with ties ordered by `ties`.
    map_low, map_high : float
        Mean average precision with the worst and the best order of ties.
    precision_at, recall_at : dict of int to float
        Mean precision and recall among the first k items.
    success_rate : dict of int to float
        Fraction of queries with at least one relevant item within each radius.
    precision_recall : PrecisionRecall
        The two precision-recall curves.
    average_precision : ndarray of float
        Average precision of each query.
    n_query, n_database, n_bits : int
        Number of queries and database items, and code length.
    n_without_relevant : int
        Queries without any relevant item; they count as 0.
    top_k : int or None
        Number of ranks scored by `map`; None for all.
    ties : {"expected", "stable"}
        Order of ties.
    ap_convention : {"retrieved", "min_k"}
        Divisor of AP.
    metrics : dict of str to float
        Every metric of :data:`~ddsh.evaluation.METRICS`; empty with stable ties.
    """

    map: float
    map_low: float
    map_high: float
    precision_at: dict[int, float] = field(default_factory=dict)
    recall_at: dict[int, float] = field(default_factory=dict)
    success_rate: dict[int, float] = field(default_factory=dict)
    precision_recall: PrecisionRecall | None = None
    average_precision: Floats | None = None
    n_query: int = 0
    n_database: int = 0
    n_bits: int = 0
    n_without_relevant: int = 0
    top_k: int | None = None
    ties: Ties = "expected"
    ap_convention: APConvention = "retrieved"
    metrics: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = f"{self.n_query:,} queries, {self.n_database:,} items, {self.n_bits} bits"
        return f"Scores(map={self.map:.4f}, ties {self.map_low:.4f} .. {self.map_high:.4f}; {counts})"

    def thinned(self) -> "Scores":
        """Return a smaller copy for results: fewer points of the curve by rank, AP rounded."""
        curves = self.precision_recall
        if curves is None or self.average_precision is None:
            return self
        by_rank = curves.by_rank
        if by_rank.rank is None:
            ranks = _curve_ranks(self.n_database)
            by_rank = Curve(by_rank.precision[ranks - 1], by_rank.recall[ranks - 1], ranks.tolist())
        return replace(
            self,
            precision_recall=PrecisionRecall(curves.by_radius, by_rank, curves.by_radius_pooled),
            average_precision=self.average_precision.round(6),
        )


def score(
    query_codes: BinaryCodes,
    database_codes: BinaryCodes,
    query_labels: LabelsLike,
    database_labels: LabelsLike,
    *,
    top_k: int | None = None,
    ties: Ties = "expected",
    ap_convention: APConvention = "retrieved",
    precision_at: Sequence[int] = PRECISION_AT,
    radii: Sequence[int] = RADII,
    leave_one_out: bool = False,
) -> Scores:
    """Return exact scores of Hamming ranking and hash lookup.

    An item is relevant to a query if they share at least one label. A query without relevant items counts as 0, and a
    query that finds nothing within a radius has precision 0 there.

    Parameters
    ----------
    query_codes, database_codes : BinaryCodes
        Codes of the same length.
    query_labels, database_labels : Labels, vector, or 0/1 matrix
        One or more labels per item; see :func:`ddsh.labels.as_labels`.
    top_k : int, optional
        Average precision of the first `top_k` items only (5000 for NUS-WIDE in the paper).
    ties : {"expected", "stable"}
        Order of items at the same distance: ``expected`` is the exact mean over all orders, ``stable`` the order of
        the database (the authors' evaluation, which is biased if the database is sorted by class).
    ap_convention : {"retrieved", "min_k"}
        With `top_k`, divide AP by the relevant items among the first `top_k` (the usual convention), or by
        ``min(top_k, relevant items)``.
    precision_at : sequence of int
        Ranks k for precision and recall; a larger k than the database means all of it.
    radii : sequence of int
        Hamming radii for the success rate.
    leave_one_out : bool
        Query and database are the same items; each query is left out of its own ranking.

    Returns
    -------
    Scores
        All scores.

    References
    ----------
    Jiang, Q.-Y., Cui, X. and Li, W.-J. "Deep Discrete Supervised Hashing." IEEE TIP 2018, section "Baselines and
    Evaluation Protocol". Differs from the paper in the default order of ties (expectation instead of one order).
    """
    queries, database = as_labels(query_labels), as_labels(database_labels)
    for what, codes, labels in (("query", query_codes, queries), ("database", database_codes, database)):
        if len(codes) == 0:
            raise InvalidInput(f"The {what} set is empty; there is nothing to score.")
        if len(codes) != len(labels):
            raise InvalidInput(
                f"{len(codes)} {what} codes but {len(labels)} {what} labels; give one label row per code."
            )
    query_codes.check_same_length(database_codes)
    if leave_one_out and (ties == "stable" or len(query_codes) != len(database_codes) or len(query_codes) < 2):
        raise InvalidInput("leave_one_out takes the same two or more items as query and database, ties expected.")
    if ties not in ("expected", "stable"):
        raise UnknownName("order of ties", ties, ("expected", "stable"))
    if ap_convention not in ("retrieved", "min_k"):
        raise UnknownName("AP convention", ap_convention, ("retrieved", "min_k"))
    if top_k is not None and not _whole((top_k,), 1):
        raise InvalidInput(f"top_k must be a whole number, at least 1; got {top_k}.")
    if not _whole(precision_at, 1):
        raise InvalidInput(f"Every k of precision_at must be a whole number, at least 1; got {tuple(precision_at)}.")
    if not _whole(radii, 0):
        raise InvalidInput(f"A Hamming radius is a whole number, 0 or more; got {tuple(radii)}.")
    n_ranked, ranks = len(database_codes) - leave_one_out, None
    if ties == "expected" and n_ranked > _MAX_CURVE:
        asked = np.array([min(int(k), n_ranked) for k in precision_at], np.int64)
        ranks = np.union1d(_curve_ranks(n_ranked), asked)
    tally = _Tally(database_codes, database, top_k, ap_convention, tuple(radii), leave_one_out, ranks)
    step = max(1, _BLOCK_COUNTS // (query_codes.n_bits + 1))
    for start in range(0, len(query_codes), step):
        rows = slice(start, min(start + step, len(query_codes)))
        tally.add(query_codes[rows], queries.take(rows), ties)
    return tally.scores(ties, precision_at)


class _Tally:
    """Sums of the scores of blocks of queries against one database."""

    def __init__(
        self,
        codes: BinaryCodes,
        labels: Labels,
        top_k: int | None,
        convention: APConvention,
        radii: tuple[int, ...],
        leave_one_out: bool,
        ranks: NDArray[np.int64] | None,
    ) -> None:
        self.codes, self.labels, self.leave_one_out = codes, labels, leave_one_out
        self.top_k, self.convention, self.radii = top_k, convention, radii
        self.n_ranked = len(codes) - leave_one_out
        self.harmonic = metrics.HarmonicNumbers(self.n_ranked)
        self.ranks = ranks  # of the curve by rank; None for all
        self.gains: Floats = np.zeros((2, 1))
        self.radius = np.zeros((2, codes.n_bits + 1))
        self.pooled = np.zeros((3, codes.n_bits + 1), np.int64)
        self.successes = np.zeros(len(radii), np.int64)
        self.precisions: list[AveragePrecision] = []
        self.metrics = dict.fromkeys(METRICS, 0.0)
        self.without_relevant = 0

    def _count(self, groups: Groups) -> Counts:
        """Count the database by distance from groups of queries, in blocks that bound the memory."""
        n_items = len(self.codes)
        blocks = [slice(start, min(start + _BLOCK_ITEMS, n_items)) for start in range(0, n_items, _BLOCK_ITEMS)]
        parts = (count_by_distance(groups, Groups.of(self.codes[rows], self.labels.take(rows))) for rows in blocks)
        counts = next(parts)
        for part in parts:
            counts.total[:] += part.total
            counts.relevant[:] += part.relevant
        return counts.take(groups.group_of)

    def add(self, codes: BinaryCodes, labels: Labels, ties: Ties) -> None:
        """Add a block of queries."""
        groups = Groups.of(codes, labels)
        counts = self._count(groups)
        if self.leave_one_out:
            counts.total[:, 0] -= 1
            counts.relevant[:, 0] -= groups.labels.similar(groups.labels).diagonal()[groups.label_ids][groups.group_of]
        precision = metrics.average_precision(counts, self.harmonic, self.top_k, self.convention)
        if ties == "stable":
            ranking = rank_stably(codes, labels, self.codes, self.labels, self.top_k, self.convention)
            precision = AveragePrecision(ranking.average_precision, precision.low, precision.high)
            self.gains = self.gains + ranking.gains
        else:
            if self.ranks is None:
                self.gains = self.gains + metrics.expected_gains(counts, self.n_ranked)
            else:
                self.gains = self.gains + metrics.found_at(counts, self.ranks)
            whole = precision if self.top_k is None else metrics.average_precision(counts, self.harmonic)
            for name, metric in METRICS.items():
                self.metrics[name] += float(np.sum(metric.values(Ranking(counts, precision, whole.expected))))
        self.precisions.append(precision)
        curve = metrics.by_radius(counts)
        self.radius += np.stack([curve.precision, curve.recall])
        self.pooled += metrics.pooled_by_radius(counts)
        self.successes += metrics.success(counts, self.radii)
        self.without_relevant += int((counts.relevant.sum(axis=1) == 0).sum())

    def scores(self, ties: Ties, precision_at: Sequence[int]) -> Scores:
        """Return the means over all added queries."""
        expected, low, high = (
            np.concatenate([getattr(block, name) for block in self.precisions]) for name in ("expected", "low", "high")
        )
        n_query, n_database = len(expected), self.n_ranked
        if self.ranks is None:
            by_rank = metrics.curve_by_rank(self.gains / n_query)
            ranks = {int(k): min(int(k), n_database) - 1 for k in precision_at}
        else:
            found = self.gains / n_query
            by_rank = Curve(found[0] / self.ranks, found[1], self.ranks.tolist())
            ranks = {int(k): int(np.searchsorted(self.ranks, min(int(k), n_database))) for k in precision_at}
        return Scores(
            map=float(expected.mean()),
            map_low=float(low.mean()),
            map_high=float(high.mean()),
            precision_at={k: float(by_rank.precision[rank]) for k, rank in ranks.items()},
            recall_at={k: float(by_rank.recall[rank]) for k, rank in ranks.items()},
            success_rate={radius: int(hits) / n_query for radius, hits in zip(self.radii, self.successes, strict=True)},
            precision_recall=PrecisionRecall(
                Curve(*(self.radius / n_query)),
                by_rank,
                Curve(self.pooled[1] / np.maximum(self.pooled[0], 1), self.pooled[1] / np.maximum(self.pooled[2], 1)),
            ),
            average_precision=expected,
            n_query=n_query,
            n_database=n_database,
            n_bits=self.codes.n_bits,
            n_without_relevant=self.without_relevant,
            top_k=self.top_k,
            ties=ties,
            ap_convention=self.convention,
            metrics={} if ties == "stable" else {name: total / n_query for name, total in self.metrics.items()},
        )


def _curve_ranks(n_items: int) -> NDArray[np.int64]:
    """Return the ranks of a short curve, closer together at the start."""
    return np.unique(np.geomspace(1, n_items, _CURVE_POINTS).round().astype(np.int64))


def _whole(values: Sequence[int], least: int) -> bool:
    return all(isinstance(value, int | np.integer) and value >= least for value in values)
