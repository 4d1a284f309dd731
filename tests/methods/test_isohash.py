import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.errors import InvalidInput
from ddsh.methods._pca import random_rotation
from ddsh.methods.isohash import IsoHash, lift_and_project

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 12))
def test_the_distance_of_the_two_sets_never_rises(seed, n_bits):
    variances = np.sort(np.random.default_rng(seed).exponential(size=n_bits))[::-1]
    _, gaps = lift_and_project(variances, random_rotation(n_bits, seed % 100), 50)
    assert (np.diff(gaps) <= 1e-9).all()


@given(seeds, st.integers(2, 12))
def test_all_variances_become_equal_by_a_rotation(seed, n_bits):
    variances = np.sort(np.random.default_rng(seed).uniform(0.1, 5, n_bits))[::-1]
    rotation, gaps = lift_and_project(variances, random_rotation(n_bits, seed % 100), 3000)
    assert rotation @ rotation.T == pytest.approx(np.eye(n_bits), abs=1e-9)
    assert gaps[-1] < 1e-3
    assert (rotation.T * variances @ rotation).diagonal() == pytest.approx(variances.mean(), rel=2e-3)


def test_two_variances_become_equal_at_an_angle_of_45_degrees():
    rotation, _ = lift_and_project(np.array([9.0, 1.0]), random_rotation(2, 0), 500)
    assert np.abs(rotation) == pytest.approx(np.full((2, 2), 0.5**0.5), abs=1e-6)


def test_outputs_of_the_training_items_have_equal_variances(rng):
    features = rng.normal(size=(300, 20)) * 0.8 ** np.arange(20) + 3
    method = IsoHash(8).fit(features)
    outputs = method.project(features)
    assert outputs.mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert outputs.var(axis=0) == pytest.approx(outputs.var(axis=0).mean(), rel=1e-3)
    assert method.projection_.T @ method.projection_ == pytest.approx(np.eye(8), abs=1e-9)


def test_more_bits_than_directions_are_refused(rng):
    with pytest.raises(InvalidInput, match=r"isohash has at most one bit for each direction.*5 for n_samples=30"):
        IsoHash(6).fit(rng.normal(size=(30, 5)))
