import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.errors import InvalidInput
from ddsh.evaluation import score
from ddsh.labels import PairLabels, as_labels
from ddsh.methods.lfh import LFH, gradient, update_others, update_sampled


def log_posterior(U, similar, beta, pairs=None):
    """The paper's objective over ordered pairs of different items, all or some of them."""
    theta = U @ U.T / 2
    terms = similar * theta - np.logaddexp(0, theta)
    counted = ~np.eye(len(U), dtype=bool) if pairs is None else pairs & ~np.eye(len(U), dtype=bool)
    return terms[counted].sum() - np.square(U).sum() / (2 * beta)


@pytest.fixture
def problem(rng):
    """Factors of 40 items, their labels, and which of them are similar."""
    labels = rng.integers(0, 4, 40)
    return rng.normal(size=(40, 6)), as_labels(labels), labels[:, None] == labels


def test_the_gradient_equals_finite_differences(problem):
    U, _, similar = problem
    others = np.arange(40) != 5
    found = gradient(U[5], U[others], similar[5, others], beta=30.0)
    for place in range(6):
        step = np.zeros_like(U)
        step[5, place] = 1e-5
        rise = log_posterior(U + step, similar, 30.0) - log_posterior(U - step, similar, 30.0)
        assert found[place] == pytest.approx(rise / 2e-5, rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]), st.sampled_from([0.1, 1.0, 5.0]))
def test_every_update_of_a_row_raises_the_posterior(seed, beta, scale):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 12)
    similar = labels[:, None] == labels
    U = scale * rng.normal(size=(12, 4))
    before = log_posterior(U, similar, beta)
    for row in rng.permutation(12):
        update_sampled(U, as_labels(labels), np.array([row]), beta)
        after = log_posterior(U, similar, beta)
        assert after >= before - 1e-9 * abs(before)
        before = after


def test_an_update_of_all_rows_is_one_update_after_the_other(problem):
    U, labels, similar = problem
    alone, together = U.copy(), U.copy()
    for row in range(40):
        update_sampled(alone, labels, np.array([row]), 30.0)
    update_sampled(together, labels, np.arange(40), 30.0)
    assert np.allclose(alone, together)
    assert log_posterior(together, similar, 30.0) > log_posterior(U, similar, 30.0)


def test_updates_by_sampled_columns_raise_the_posterior_of_their_pairs(problem):
    U, labels, similar = problem
    omega = np.array([3, 11, 25])
    sampled = np.isin(np.arange(40), omega)
    pairs = sampled[:, None] | sampled
    values = [log_posterior(U, similar, 30.0, pairs)]
    for update in (update_others, update_sampled):
        update(U, labels, omega, 30.0)
        values.append(log_posterior(U, similar, 30.0, pairs))
    assert values[0] < values[1] < values[2]


def test_only_the_rows_meant_are_updated(problem):
    U, labels, _ = problem
    omega = np.array([3, 11, 25])
    others, sampled = U.copy(), U.copy()
    update_others(others, labels, omega, 30.0)
    update_sampled(sampled, labels, omega, 30.0)
    assert np.array_equal(np.flatnonzero((others == U).all(axis=1)), omega)
    assert np.array_equal(np.flatnonzero((sampled != U).any(axis=1)), omega)


@pytest.mark.parametrize("n_bits", [12, 24])
def test_the_codes_of_the_training_items_separate_the_classes(rng, n_bits):
    labels = as_labels(rng.permutation(np.arange(1000) % 10))
    codes = LFH(n_bits, extension="linear").fit(rng.normal(size=(1000, 3)), labels).codes_
    assert score(codes, codes, labels, labels).map > 0.9


def test_items_that_share_a_label_of_several_are_nearer(rng):
    labels = (rng.random((400, 4)) < 0.3).astype(int)
    signs = LFH(24, n_columns=60).learn_codes(as_labels(labels)).astype(int)
    similar = labels @ labels.T > 0
    products = signs @ signs.T
    assert products[similar].mean() > products[~similar].mean() + 6


def test_similarity_may_be_given_pair_by_pair_and_is_never_asked_for_as_a_whole():
    most = 0

    def similar(first, second):
        nonlocal most
        most = max(most, len(first) * len(second))
        return first[:, None] % 3 == second[None, :] % 3

    n = 20_000
    signs = LFH(8, n_iterations=5).learn_codes(PairLabels(similar, n))
    assert most <= n * 256
    assert signs.shape == (n, 8)


def test_blocks_stay_small_even_if_all_columns_are_sampled():
    sizes = []

    def similar(first, second):
        sizes.append(len(first) * len(second))
        return first[:, None] % 2 == second[None, :] % 2

    LFH(2, n_columns=3000, n_iterations=1).learn_codes(PairLabels(similar, 3000))
    assert max(sizes) <= 1 << 22
    assert sum(sizes) == 3000**2


@pytest.mark.parametrize("n_items", [3, 10])
@pytest.mark.parametrize("n_bits", [1, 40])
def test_few_items_are_enough(n_items, n_bits):
    signs = LFH(n_bits).learn_codes(as_labels(np.arange(n_items) % 2))
    assert signs.shape == (n_items, n_bits)
    assert (np.abs(signs) == 1).all()


def test_as_many_columns_as_bits_can_be_asked_for_as_in_the_paper():
    assert LFH(12).describe_params()["n_columns"] == 256
    assert LFH(12, n_columns="n_bits").describe_params()["n_columns"] == 12


@pytest.mark.parametrize("option", ["n_columns", "beta", "n_iterations"])
def test_numbers_that_are_not_above_zero_are_refused(option):
    with pytest.raises(InvalidInput, match=f"{option} must be above 0; got 0"):
        LFH(8, **{option: 0}).fit([[1.0], [2.0]], [0, 1])
