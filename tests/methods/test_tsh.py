from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ddsh.errors import InvalidInput, UnknownName
from ddsh.labels import as_labels
from ddsh.methods.fasth import MARGINS
from ddsh.methods.tsh import TSH, relaxed_bit

seeds = st.integers(0, 2**32 - 1)


def symmetric(rng, n):
    W = np.triu(rng.normal(size=(n, n)), 1)
    return sparse.csr_array(W + W.T)


@given(seeds, st.integers(2, 9))
def test_a_bit_is_never_worse_than_the_rounded_eigenvector_and_rarely_far_from_the_best(seed, n):
    rng = np.random.default_rng(seed)
    W = symmetric(rng, n)
    bit = relaxed_bit(W, 50, rng)
    eigenvector = np.linalg.eigh(W.toarray())[1][:, 0]
    rounded = np.where(eigenvector > 0, 1, -1)
    values = [np.array(b) @ (W @ np.array(b)) for b in product([-1, 1], repeat=n)]
    assert bit @ (W @ bit) <= rounded @ (W @ rounded) + 1e-9
    assert bit @ (W @ bit) <= 0.5 * min(values)


def test_most_small_problems_are_solved_exactly():
    exact = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        W = symmetric(rng, 8)
        bit = relaxed_bit(W, 50, rng)
        best = min(np.array(b) @ (W @ np.array(b)) for b in product([-1, 1], repeat=8))
        exact += bit @ (W @ bit) == pytest.approx(best)
    assert exact >= 24


def test_large_problems_are_solved_by_lanczos_as_small_ones_by_a_dense_solver(rng):
    side = np.repeat([1, -1], 150)
    W = sparse.csr_array(-np.outer(side, side).astype(float))
    bit = relaxed_bit(W, 50, rng)
    assert abs(bit @ side) == 300


@pytest.mark.parametrize("loss", sorted(MARGINS))
def test_codes_of_similar_items_are_equal_and_those_of_others_far(loss):
    labels = as_labels(np.arange(120) % 4)
    codes = TSH(12, loss=loss).learn_codes(labels).astype(int)
    distances = (12 - codes @ codes.T) / 2
    similar = labels.similar(labels)
    assert distances[similar].mean() < 1
    assert distances[~similar].min() >= 4


def test_items_with_many_labels_are_nearer_to_those_they_share_labels_with(rng):
    labels = as_labels((rng.random((200, 4)) < 0.3).astype(int))
    codes = TSH(16).learn_codes(labels).astype(int)
    distances, similar = (16 - codes @ codes.T) / 2, labels.similar(labels)
    assert distances[similar].mean() < 0.7 * distances[~similar].mean()


def test_impossible_parameters_are_refused(rng):
    features, labels = rng.normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(UnknownName, match="Did you mean 'hinge'"):
        TSH(4, loss="hing").fit(features, labels)
    with pytest.raises(InvalidInput, match="n_steps must be 1 or more; got 0"):
        TSH(4, n_steps=0).fit(features, labels)
