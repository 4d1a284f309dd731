"""Metrics by their definitions, on small rankings."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.codes import BinaryCodes
from ddsh.evaluation import metrics
from ddsh.evaluation.counts import Counts
from ddsh.labels import as_labels

EPSILON = float(np.finfo(np.longdouble).eps)


def _harmonic(k):
    """H(k) to thirty digits."""
    return np.longdouble(sum(10**40 // j for j in range(1, k + 1))) / np.longdouble(10) ** 40


@pytest.mark.parametrize("n", [5000, metrics._MAX_STORED, metrics._MAX_STORED + 1, 10**9])
def test_harmonic_numbers_are_right_to_the_last_digits(n):
    k = np.array([0, 1, 2, 17, 4095, 4096, 4097, 4999, 5000])
    found = metrics.HarmonicNumbers(n)[k]
    expected = np.array([_harmonic(one) for one in k.tolist()])
    assert found.dtype == np.longdouble
    is_stored = k <= (n if n <= metrics._MAX_STORED else 4096)  # as sums of so many terms, each rounded
    assert (np.abs(found - expected) < np.where(is_stored, 1000, 20) * EPSILON).all()


def test_only_so_many_harmonic_numbers_are_stored():
    sizes = [len(metrics.HarmonicNumbers(n)._numbers) for n in (1, 1 << 20, (1 << 20) + 1)]
    assert sizes == [2, (1 << 20) + 1, 4097]


blocks = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3).filter(
    lambda drawn: 1 <= sum(map(sum, drawn)) <= 7
)
"""Relevant and other items at each distance, so few that all orders can be tried."""


def _orders(drawn):
    """Every order of the items that keeps the order of the distances, as rows of relevance."""
    rows = [()]
    for relevant, others in drawn:
        ways = sorted(set(permutations([1] * relevant + [0] * others)))
        rows = [(*row, *way) for row in rows for way in ways]
    return np.array(rows)


def _precision(row, top_k, convention):
    found = np.flatnonzero(row[:top_k])
    divisor = len(found) if convention == "retrieved" or top_k is None else min(top_k, int(row.sum()))
    return sum((rank + 1) / (place + 1) for rank, place in enumerate(found)) / max(divisor, 1)


def _counts(drawn):
    relevant, others = np.array([drawn, drawn[::-1]]).transpose(2, 0, 1)
    return Counts(relevant + others, relevant)


@given(blocks, st.sampled_from([None, 1, 2, 3, 5, 9]), st.sampled_from(["retrieved", "min_k"]))
def test_average_precision_is_the_mean_the_least_and_the_most_over_all_orders(drawn, top_k, convention):
    n_items = sum(map(sum, drawn))
    k = None if top_k is None else min(top_k, n_items)
    found = metrics.average_precision(_counts(drawn), metrics.HarmonicNumbers(n_items), top_k, convention)
    for query, one in enumerate((drawn, drawn[::-1])):
        values = [_precision(row, k, convention) for row in _orders(one)]
        assert found.expected[query] == pytest.approx(np.mean(values), abs=1e-12)
        assert found.low[query] == pytest.approx(min(values), abs=1e-12)
        assert found.high[query] == pytest.approx(max(values), abs=1e-12)


@given(blocks)
def test_gains_curves_and_precision_at_a_rank_are_means_over_all_orders(drawn):
    n_items, counts = sum(map(sum, drawn)), _counts(drawn)
    means = np.array([_orders(one).mean(axis=0) for one in (drawn, drawn[::-1])])
    shares = means / max(1, sum(relevant for relevant, _ in drawn))
    ranks = np.arange(1, n_items + 1)
    gains = metrics.expected_gains(counts, n_items)
    assert np.allclose(gains, [means.sum(axis=0), shares.sum(axis=0)], atol=1e-12)
    assert np.allclose(metrics.found_at(counts, ranks), np.cumsum(gains, axis=1), atol=1e-12)
    curve = metrics.curve_by_rank(gains / 2)
    assert np.allclose(curve.precision, np.cumsum(means.mean(axis=0)) / ranks, atol=1e-12)
    assert np.allclose(curve.recall, np.cumsum(shares.mean(axis=0)), atol=1e-12)
    for k in ranks.tolist():
        assert np.allclose(metrics.precision_at(counts, k), means[:, :k].sum(axis=1) / k, atol=1e-12)
    assert np.allclose(metrics.precision_at(counts, n_items + 9), means.mean(axis=1), atol=1e-12)


@given(blocks)
def test_curves_by_radius_count_what_lies_within_it(drawn):
    counts = _counts(drawn)
    curve, pooled = metrics.by_radius(counts), metrics.pooled_by_radius(counts)
    for radius in range(len(drawn)):
        found = [
            (sum(map(sum, one[: radius + 1])), sum(hit for hit, _ in one[: radius + 1])) for one in (drawn, drawn[::-1])
        ]
        n_relevant = sum(hit for hit, _ in drawn)
        assert curve.precision[radius] == pytest.approx(sum(hits / max(n, 1) for n, hits in found))
        assert curve.recall[radius] == pytest.approx(sum(hits / max(n_relevant, 1) for _, hits in found))
        assert pooled[:, radius].tolist() == [*(sum(column) for column in zip(*found, strict=True)), 2 * n_relevant]
        n_lucky = sum(hits > 0 for _, hits in found)
        assert metrics.success(counts, (radius, radius + 50)).tolist() == [n_lucky, 2 * (n_relevant > 0)]


@given(st.integers(0, 1000), st.sampled_from([None, 1, 3, 20]), st.sampled_from(["retrieved", "min_k"]))
def test_a_stable_ranking_keeps_the_order_of_the_database(seed, top_k, convention):
    rng = np.random.default_rng(seed)
    bits, labels = rng.integers(0, 2, (9, 3)), rng.integers(0, 3, 9)
    asked, wanted = rng.integers(0, 2, (4, 3)), rng.integers(0, 4, 4)
    found = metrics.rank_stably(
        BinaryCodes.from_bits(asked),
        as_labels(wanted),
        BinaryCodes.from_bits(bits),
        as_labels(labels),
        top_k,
        convention,
    )
    rows = [
        (labels == one)[np.argsort((bits != code).sum(axis=1), kind="stable")]
        for code, one in zip(asked, wanted, strict=True)
    ]
    assert found.average_precision == pytest.approx([_precision(row, top_k, convention) for row in rows])
    assert np.allclose(found.gains[0], np.sum(rows, axis=0))
    assert np.allclose(found.gains[1], np.sum([row / max(1, row.sum()) for row in rows], axis=0))


def test_the_metrics_of_results_are_those_of_their_names():
    relevant = np.zeros((3, 5), np.int64)
    relevant[[0, 1], [2, 3]] = 7
    counts = Counts(relevant + 50, relevant)
    precision = metrics.AveragePrecision(*np.arange(9.0).reshape(3, 3))
    ranking = metrics.Ranking(counts, precision, np.arange(3.0) + 20)
    found = {name: metric.values(ranking).tolist() for name, metric in metrics.METRICS.items()}
    assert (found["map"], found["map_low"], found["map_high"]) == ([0, 1, 2], [3, 4, 5], [6, 7, 8])
    assert (found["map_all"], found["success_within_2"]) == ([20, 21, 22], [True, False, False])
    assert found["precision_at_100"] == pytest.approx([0, 0, 0])
    assert metrics.METRICS["precision_at_100"].values(
        metrics.Ranking(Counts(np.full((1, 2), 100), np.array([[30, 100]])), precision, precision.low)
    ) == pytest.approx([0.3])
