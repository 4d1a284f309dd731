import numpy as np
import pytest

from ddsh.errors import InvalidInput
from ddsh.methods.sph import SPH, forces, is_independent, shared_fractions


def test_every_sphere_holds_half_of_the_training_items(rng):
    features = rng.normal(size=(400, 10))
    assert (SPH(16).fit(features).encode(features).bits().sum(axis=0) == 200).all()


def test_any_two_spheres_share_about_a_quarter_of_the_items(rng):
    features = rng.normal(size=(1000, 30))
    inside = SPH(16).fit(features).encode(features).bits().astype(bool)
    started = SPH(16, n_iterations=0).fit(features).encode(features).bits().astype(bool)
    assert is_independent(shared_fractions(inside), 0.1, 0.15)
    assert not is_independent(shared_fractions(started), 0.1, 0.15)


def test_a_bit_is_one_inside_the_sphere(rng):
    features = rng.normal(size=(100, 4)) + 7
    method = SPH(5).fit(features)
    distances = np.linalg.norm(features[:, None] - method.centre_ - method.pivots_, axis=2)
    assert np.array_equal(method.encode(features).bits(), distances < np.sqrt(method.squared_radii_))


def test_forces_are_those_of_the_paper_written_out(rng):
    pivots, shared = rng.normal(size=(4, 3)), rng.random((4, 4))
    expected = np.zeros((4, 3))
    for i in range(4):
        for j in range(4):
            expected[i] += 0.5 * (shared[i, j] - 0.25) / 0.25 * (pivots[i] - pivots[j]) / 4
    assert forces(pivots, shared) == pytest.approx(expected)


def test_spheres_that_share_too_much_move_apart():
    pivots = np.array([[0.0, 0.0], [1.0, 0.0]])
    moved = pivots + forces(pivots, np.array([[0.5, 0.4], [0.4, 0.5]]))
    assert np.linalg.norm(moved[1] - moved[0]) > 1
    moved = pivots + forces(pivots, np.array([[0.5, 0.1], [0.1, 0.5]]))
    assert np.linalg.norm(moved[1] - moved[0]) < 1


def test_one_bit_has_no_pair_to_compare(rng):
    features = rng.normal(size=(50, 3))
    assert SPH(1).fit(features).encode(features).bits().sum() == 25


@pytest.mark.parametrize("name", ["n_iterations", "mean_tolerance", "std_tolerance"])
def test_impossible_parameters_are_refused(rng, name):
    with pytest.raises(InvalidInput, match=f"{name} must be 0 or more; got -1"):
        SPH(4, **{name: -1}).fit(rng.normal(size=(50, 3)))
