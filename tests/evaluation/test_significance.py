import numpy as np
import pytest
from scipy import stats

from ddsh.errors import InvalidInput
from ddsh.evaluation import Result, Scores
from ddsh.evaluation.significance import compare


def _result(label, precision, *, seed=0, n_bits=8, keep=True):
    mean = float(np.mean(precision))
    scores = Scores(mean, mean, mean, average_precision=np.asarray(precision) if keep else None)
    return Result(
        experiment="x",
        label=label,
        method="lsh",
        n_bits=n_bits,
        dataset="toy",
        protocol="toy",
        seed=seed,
        split=f"{seed:064d}",
        params={},
        scores=scores,
    )


def test_the_p_value_of_few_queries_is_that_of_all_sign_changes(rng):
    ours, theirs = rng.random(8), rng.random(8)
    found = compare([_result("a", ours)], [_result("b", theirs)])[0]
    difference = ours - theirs
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1).T
    exact = np.mean(np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12)
    assert found.query_p == pytest.approx(exact, abs=0.02)
    assert found.difference == pytest.approx(difference.mean())
    assert found.interval[0] <= found.difference <= found.interval[1]
    assert (found.n_queries, found.seeds, found.seed_p) == (8, (0,), None)


def test_seeds_are_compared_by_a_paired_t_test(rng):
    ours, theirs = rng.random((3, 40)) + 0.05, rng.random((3, 40))
    first = [_result("a", values, seed=seed) for seed, values in enumerate(ours)]
    second = [_result("b", values, seed=seed) for seed, values in enumerate(theirs)]
    found = compare(first, second)[0]
    assert found.seed_p == pytest.approx(stats.ttest_rel(ours.mean(axis=1), theirs.mean(axis=1)).pvalue)
    assert (found.seeds, found.n_queries) == ((0, 1, 2), 120)


def test_a_clear_lead_is_significant_and_none_is_not(rng):
    base = rng.random((3, 200))
    second = [_result("b", values, seed=seed) for seed, values in enumerate(base)]
    better = [_result("a", values + 0.03 + 0.01 * rng.random(200), seed=seed) for seed, values in enumerate(base)]
    noisy = [_result("a", values + 0.3 * rng.normal(size=200), seed=seed) for seed, values in enumerate(base)]
    assert compare(better, second)[0].is_significant
    assert not compare(noisy, second)[0].is_significant


def test_results_without_the_precision_of_each_query_are_compared_by_seed_alone():
    found = compare([_result("a", [0.5], keep=False)], [_result("b", [0.4], keep=False)])[0]
    assert (found.query_p, found.interval, found.n_queries, found.is_significant) == (None, None, 0, False)


def test_only_the_same_splits_and_lengths_are_compared():
    first = [_result("a", [0.5, 0.6]), _result("a", [0.5, 0.6], n_bits=12), _result("a", [0.5, 0.6], seed=1)]
    second = [_result("b", [0.4, 0.6], n_bits=12), _result("b", [0.4, 0.6]), _result("b", [0.4, 0.6], seed=7)]
    assert [(one.n_bits, one.seeds) for one in compare(first, second)] == [(8, (0,)), (12, (0,))]
    with pytest.raises(InvalidInput, match="in common"):
        compare(first[2:], second[:1])


def test_seeds_that_all_differ_by_the_same_need_no_test():
    level = [_result("a", [0.5, 0.7], seed=seed) for seed in range(3)]
    above = [_result("b", [0.5625, 0.7625], seed=seed) for seed in range(3)]
    assert compare(level, level)[0].seed_p == 1
    assert compare(above, level)[0].seed_p == 0


def test_one_seed_without_the_precision_of_each_query_is_no_test():
    for n_seeds, keep, is_tested in ((1, False, False), (2, False, True), (1, True, True)):
        runs = [[_result(label, [0.5, 0.4], seed=seed, keep=keep) for seed in range(n_seeds)] for label in "ab"]
        assert compare(*runs)[0].is_tested is is_tested
