from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.evaluation import score
from ddsh.labels import PairLabels
from ddsh.methods._kernels import choose_anchors, kernel_map, rbf_width
from ddsh.methods.itq import ITQ
from ddsh.methods.sdh import SDH, KernelMachine, best_bit, fit_classifier, solve_codes

seeds = st.integers(0, 2**32 - 1)


def problem(seed, n_items, n_bits, n_classes=3, nu=0.1):
    """Codes, labels, a classifier and outputs; the objective of codes; and what the step on codes is given."""
    rng = np.random.default_rng(seed)
    B = rng.choice([-1.0, 1.0], (n_items, n_bits))
    Y = rng.integers(0, 2, (n_items, n_classes))
    W, F = rng.normal(size=(n_bits, n_classes)), rng.normal(size=(n_items, n_bits))

    def objective(codes):
        return np.square(Y - codes @ W).sum() + nu * np.square(codes - F).sum()

    return B, objective, Y @ W.T + nu * F, W @ W.T


@given(seeds, st.integers(1, 7), st.integers(1, 5))
def test_a_bit_is_the_best_of_all_its_values(seed, n_items, n_bits):
    B, objective, pull, coupling = problem(seed, n_items, n_bits)
    bit = seed % n_bits
    columns = np.array(list(product([-1.0, 1.0], repeat=n_items)))
    values = [objective(np.column_stack([B[:, :bit], column, B[:, bit + 1 :]])) for column in columns]
    assert np.array_equal(best_bit(B, pull, coupling, bit), columns[np.argmin(values)])


def test_a_bit_stays_where_both_values_are_equally_good(rng):
    B = rng.choice([-1.0, 1.0], (20, 3))
    assert np.array_equal(best_bit(B, np.zeros((20, 3)), np.eye(3), 1), B[:, 1])


@given(seeds, st.integers(1, 40), st.integers(1, 8))
def test_the_objective_never_rises_in_a_step_on_codes(seed, n_items, n_bits):
    B, objective, pull, coupling = problem(seed, n_items, n_bits)
    values = [objective(B)]
    for _ in range(10):
        B = solve_codes(B, pull, coupling, n_sweeps=1)
        values.append(objective(B))
    assert (np.diff(values) <= 1e-9 * values[0]).all()


def test_sweeps_end_where_no_bit_can_be_improved(rng):
    B, _, pull, coupling = problem(0, 40, 6)
    codes = solve_codes(B, pull, coupling, n_sweeps=1000)
    assert np.array_equal(solve_codes(codes, pull, coupling, n_sweeps=1), codes)
    assert not np.array_equal(codes, B)


def test_the_codes_given_to_the_step_are_left_alone():
    B, _, pull, coupling = problem(0, 40, 6)
    before = B.copy()
    solve_codes(B, pull, coupling, n_sweeps=3)
    assert np.array_equal(B, before)


def test_the_classifier_is_a_ridge_regression_of_the_labels(rng):
    B, Y = rng.choice([-1.0, 1.0], (50, 6)), rng.integers(0, 2, (50, 3))
    expected = Ridge(2.0, fit_intercept=False).fit(B, Y).coef_.T
    assert fit_classifier(B, sparse.csc_array(Y.astype(float)), 2.0) == pytest.approx(expected)


def test_the_kernel_machine_is_a_ridge_regression_of_the_codes_with_a_free_offset(rng):
    kernel, B = rng.random((50, 8)), rng.choice([-1.0, 1.0], (50, 6))
    expected = Ridge(0.5).fit(kernel, B)
    machine = KernelMachine(kernel, ridge=0.5)
    projection, offset = machine.fit(B)
    assert projection == pytest.approx(expected.coef_.T)
    assert offset == pytest.approx(expected.intercept_)
    assert machine.outputs(B) == pytest.approx(expected.predict(kernel))


@pytest.fixture
def blobs(rng):
    """Features of five classes in a few directions, drowned by other directions that tell nothing."""
    labels = np.arange(600) % 5
    telling = rng.normal(size=(5, 6))[labels] + 0.4 * rng.normal(size=(600, 6))
    return np.hstack([telling, 3 * rng.normal(size=(600, 6))]), labels


def held_out_map(encode, labels):
    """MAP of the last third of the items in the middle third; the first is for training."""
    codes = encode()
    return score(codes[400:], codes[200:400], labels[400:], labels[200:400]).map


def test_codes_of_new_items_beat_random_bits_and_itq(blobs, rng):
    features, labels = blobs
    random = held_out_map(lambda: BinaryCodes.from_bits(rng.integers(0, 2, (600, 12))), labels)
    itq = held_out_map(lambda: ITQ(12).fit(features[:200]).encode(features), labels)
    sdh = held_out_map(lambda: SDH(12).fit(features[:200], labels[:200]).encode(features), labels)
    assert random < itq < sdh
    assert sdh > 2 * random


def test_items_of_a_class_share_a_code_that_no_other_class_has(rng):
    labels = np.arange(100) % 5
    features = 10 * rng.normal(size=(5, 8))[labels] + 0.1 * rng.normal(size=(100, 8))
    method = SDH(16).fit(features, labels)
    codes = method.encode(features)
    assert np.array_equal(codes.hamming(codes) == 0, labels[:, None] == labels[None, :])
    assert np.square(method.project(features) - codes.signs()).mean() < 0.1


def plainly_fitted_outputs(features, labels, method):
    """Outputs of the same method, written down item by item from the objective."""
    rng = np.random.Generator(np.random.PCG64(method.seed))
    anchors = choose_anchors(features, method.n_anchors, rng)
    kernel = kernel_map(features, anchors, rbf_width(features, anchors))
    B, Y = rng.choice([-1.0, 1.0], (len(features), method.n_bits)), np.eye(labels.max() + 1)[labels]
    for _ in range(method.n_rounds):
        W = Ridge(method.label_ridge, fit_intercept=False).fit(B, Y).coef_.T
        F = Ridge(method.kernel_ridge).fit(kernel, B).predict(kernel)
        for _, bit in product(range(method.n_sweeps), range(method.n_bits)):
            losses = []
            for value in (-1.0, 1.0):
                B[:, bit] = value
                losses.append(np.square(Y - B @ W).sum(axis=1) + method.nu * np.square(B - F).sum(axis=1))
            B[:, bit] = np.where(losses[0] < losses[1], -1.0, 1.0)
    return Ridge(method.kernel_ridge).fit(kernel, B).predict(kernel)


@pytest.mark.parametrize("nu", [0.0, 1e-2, 1.0])
def test_the_method_is_what_its_objective_says(blobs, nu):
    features, labels = blobs[0][:60], blobs[1][:60]
    method = SDH(6, n_anchors=20, n_rounds=3, n_sweeps=4, label_ridge=2.0, nu=nu, kernel_ridge=0.1)
    expected = plainly_fitted_outputs(features, labels, method)
    assert method.fit(features, labels).project(features) == pytest.approx(expected, abs=1e-8)


def test_items_with_many_labels_are_near_those_they_share_labels_with(rng):
    labels = (rng.random((600, 4)) < 0.3).astype(int)
    features = labels @ rng.normal(size=(4, 10)) + 0.2 * rng.normal(size=(600, 10))
    random = held_out_map(lambda: BinaryCodes.from_bits(rng.integers(0, 2, (600, 16))), labels)
    sdh = held_out_map(lambda: SDH(16).fit(features[:200], labels[:200]).encode(features), labels)
    assert sdh > 1.3 * random


def test_the_form_of_the_labels_does_not_matter(blobs):
    features, labels = blobs
    forms = [labels, np.array(list("abcde"))[labels], np.eye(5)[labels], sparse.csr_array(np.eye(5)[labels])]
    first, *others = [SDH(8).fit(features, form).encode(features) for form in forms]
    assert all(codes == first for codes in others)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(600, int), "all 600 items have the same labels"),
        (np.tile([1, 0, 1], (600, 1)), "all 600 items have the same labels"),
        (np.zeros((600, 3), int), "all 600 items have the same labels"),
        (PairLabels(sparse.eye_array(600)), "pairs have none.*ddsh"),
    ],
)
def test_labels_that_hold_nothing_to_learn_are_refused(blobs, labels, message):
    with pytest.raises(InvalidInput, match=message):
        SDH(8).fit(blobs[0], labels)


def test_one_class_and_items_without_it_are_enough(blobs):
    features, labels = blobs
    carriers = sparse.csr_array((labels < 2)[:, None].astype(int))
    codes = SDH(8).fit(features[:, :6], carriers).encode(features[:, :6])
    near = codes.hamming(codes) == 0
    assert near[labels < 2][:, labels < 2].mean() > 2 * near[labels < 2][:, labels >= 2].mean()


def test_there_are_never_more_anchors_than_items(blobs):
    features, labels = blobs
    assert SDH(8, n_anchors=50).fit(features, labels).anchors_.shape == (50, 12)
    assert SDH(8).fit(features, labels).anchors_.shape == (600, 12)


def test_another_seed_gives_other_codes(blobs):
    first, second = (SDH(8, n_anchors=50, seed=seed).fit(*blobs).encode(blobs[0]) for seed in (0, 1))
    assert first != second


def test_equal_features_get_equal_codes():
    features, labels = np.ones((20, 3)), np.arange(20) % 2
    codes = SDH(8).fit(features, labels).encode(features)
    assert (codes.hamming(codes) == 0).all()


@pytest.mark.parametrize("name", ["n_anchors", "n_rounds", "n_sweeps", "label_ridge", "kernel_ridge", "nu"])
def test_impossible_parameters_are_refused(blobs, name):
    with pytest.raises(InvalidInput, match=f"{name} must be .*; got -1"):
        SDH(8, **{name: -1}).fit(*blobs)
