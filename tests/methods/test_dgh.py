import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.errors import InvalidInput
from ddsh.methods._anchor_graph import anchor_weights, inverse_degrees
from ddsh.methods.dgh import DGH, nearest_balanced, objective, smooth, solve_codes

seeds = st.integers(0, 2**32 - 1)


def problem(seed, n_items=40, n_bits=4):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_items, 3))
    Z = anchor_weights(features, features[:15], 3, 1.0)
    B = rng.choice([-1.0, 1.0], (n_items, n_bits))
    return B, rng.normal(size=(n_items, n_bits)), Z, rng


def test_products_with_the_graph_need_no_graph():
    B, _, Z, _ = problem(0)
    A = Z.toarray() @ np.diag(inverse_degrees(Z)) @ Z.toarray().T
    assert smooth(B, Z) == pytest.approx(A @ B)


@given(seeds, st.floats(0, 10))
def test_the_objective_never_falls_in_a_step_on_codes(seed, rho):
    B, Y, Z, _ = problem(seed)
    values = [objective(B, Y, Z, rho)]
    for _ in range(10):
        B = solve_codes(B, Y, Z, rho, n_steps=1)
        values.append(objective(B, Y, Z, rho))
    assert (np.diff(values) >= -1e-9).all()


@given(seeds, st.integers(1, 6))
def test_the_real_matrix_is_balanced_uncorrelated_and_the_nearest_of_those(seed, n_bits):
    B, _, _, rng = problem(seed, n_bits=n_bits)
    Y = nearest_balanced(B, rng)
    assert Y.sum(axis=0) == pytest.approx(np.zeros(n_bits), abs=1e-8)
    assert pytest.approx(40 * np.eye(n_bits), abs=1e-8) == Y.T @ Y
    centred = B - B.mean(axis=0)
    # The maximum of tr(B'Y) is the sum of the singular values, by von Neumann's inequality.
    assert np.vdot(B, Y) == pytest.approx(np.sqrt(40) * np.linalg.svd(centred)[1].sum())


def test_equal_and_constant_bits_are_completed(rng):
    B = rng.choice([-1.0, 1.0], (40, 4))
    B[:, 1], B[:, 2] = -B[:, 0], 1
    Y = nearest_balanced(B, rng)
    assert Y.sum(axis=0) == pytest.approx(np.zeros(4), abs=1e-8)
    assert pytest.approx(40 * np.eye(4), abs=1e-8) == Y.T @ Y


def test_the_objective_of_a_fit_never_falls(rng):
    method = DGH(8, n_anchors=30).fit(rng.normal(size=(200, 5)))
    assert len(method.objectives_) > 2
    assert (np.diff(method.objectives_) >= -1e-9).all()


def test_a_new_item_gets_the_weighted_majority_of_the_codes_around_its_anchors(rng):
    features = rng.normal(size=(100, 5))
    method = DGH(6, n_anchors=20).fit(features)
    Z = anchor_weights(features[:7], method.anchors_, method.n_nearest, method.width_)
    assert method.project(features[:7]) == pytest.approx(Z @ method.projection_)
    assert np.abs(method.projection_).max() <= 1 + 1e-9


@pytest.mark.parametrize(("name", "least"), [("rho", 0), ("n_rounds", 1), ("n_steps", 1), ("n_anchors", 1)])
def test_impossible_parameters_are_refused(rng, name, least):
    with pytest.raises(InvalidInput, match=f"{name} must be {least} or more; got -1"):
        DGH(4, **{name: -1}).fit(rng.normal(size=(50, 3)))
