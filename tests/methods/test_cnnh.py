import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.cnnh import CNNH, descend_column

seeds = st.integers(0, 2**32 - 1)


def _objective(H, S):
    residual = H @ H.T - H.shape[1] * S
    return np.square(residual[~np.eye(len(S), dtype=bool)]).sum()


def _problem(seed, n=9, n_bits=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    return rng.uniform(-1, 1, (n, n_bits)), np.where(labels[:, None] == labels, 1.0, -1.0), rng


@given(seeds)
def test_a_column_never_raises_the_objective_and_stays_in_the_cube(seed):
    H, S, _ = _problem(seed)
    for bit in range(4):
        before = _objective(H, S)
        H[:, bit] = descend_column(H, S, bit)
        assert _objective(H, S) <= before + 1e-9
        assert np.abs(H).max() <= 1


@given(seeds)
def test_the_last_entry_is_the_best_of_the_interval(seed):
    H, S, _ = _problem(seed)
    H[:, 2] = descend_column(H, S, 2)
    found = _objective(H, S)
    for value in np.linspace(-1, 1, 41):
        other = H.copy()
        other[-1, 2] = value
        assert found <= _objective(other, S) + 1e-9


def test_codes_of_two_classes_are_opposite():
    labels = np.arange(20) % 2
    signs = CNNH(6).learn_codes(as_labels(labels)).astype(int)
    assert np.array_equal(signs @ signs.T, 6 * np.where(labels[:, None] == labels, 1, -1))


def test_no_sweep_is_refused(images):
    with pytest.raises(InvalidInput, match="n_sweeps must be 1 or more"):
        CNNH(8, n_sweeps=0).fit(*images)
