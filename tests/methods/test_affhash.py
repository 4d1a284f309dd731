from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ddsh.errors import InvalidInput
from ddsh.evaluation import score
from ddsh.labels import as_labels
from ddsh.methods.affhash import AFFHash, solve_coordinates

seeds = st.integers(0, 2**32 - 1)


def _problem(seed, n=7, n_bits=3):
    rng = np.random.default_rng(seed)
    Y = np.triu(rng.choice([-1, 0, 1], (n, n)), 1)
    return rng.choice([-1.0, 1.0], (n, n_bits)), sparse.csr_array(Y + Y.T), rng.normal(size=(n, n_bits))


def _objective(Z, pairs, pull):
    Y = pairs.toarray()
    loss = np.square(Z @ Z.T - Z.shape[1] * Y)[np.triu(Y, 1) != 0].sum()
    return loss - 2 * np.sum(Z * pull)


@given(seeds)
def test_codes_never_raise_the_objective(seed):
    Z, pairs, pull = _problem(seed)
    assert _objective(solve_coordinates(Z, pairs, pull, 1), pairs, pull) <= _objective(Z, pairs, pull) + 1e-9


@given(seeds)
def test_after_enough_sweeps_no_single_bit_lowers_the_objective(seed):
    Z, pairs, pull = _problem(seed)
    solved = solve_coordinates(Z, pairs, pull, 30)
    found = _objective(solved, pairs, pull)
    for row, bit in product(range(7), range(3)):
        other = solved.copy()
        other[row, bit] *= -1
        assert found <= _objective(other, pairs, pull) + 1e-9


def test_a_strong_pull_decides(rng):
    Z, pairs, pull = _problem(0)
    assert np.array_equal(solve_coordinates(Z, pairs, 1e6 * pull, 1), np.sign(pull))


def test_codes_and_functions_come_to_agree(rng):
    labels = np.arange(120) % 4
    features = rng.normal(size=(4, 10))[labels] + 0.8 * rng.normal(size=(120, 10))
    method = AFFHash(8, n_similar=10, n_dissimilar=10).fit(features, labels)
    assert method.agreements_[-1] >= method.agreements_[0]
    assert method.agreements_[-1] > 0.95
    codes = method.encode(features)
    assert score(codes, codes, as_labels(labels), as_labels(labels), leave_one_out=True).map > 0.8


def test_a_mu_that_does_not_grow_is_refused(rng):
    with pytest.raises(InvalidInput, match="growth must be above 1"):
        AFFHash(8, growth=1.0).fit(rng.normal(size=(9, 4)), np.arange(9) % 3)
