from itertools import product

import numpy as np
import pytest

from ddsh.errors import InvalidInput, UnknownName
from ddsh.evaluation import score
from ddsh.labels import PairLabels, as_labels
from ddsh.methods._extensions import Linear
from ddsh.methods.cosdish import COSDISH, code_gamma


def _signs(rng, *shape):
    return rng.choice(np.array([-1, 1], np.int8), shape)


def _learn(labels, n_bits=16, **options):
    return COSDISH(n_bits, extension=Linear(), **options).learn_codes(as_labels(labels))


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_codes_of_gamma_agree_most_of_all_codes_with_the_similarities(rng, weight):
    similar = rng.random((30, 7)) < 0.4
    B_omega, B_gamma = _signs(rng, 7, 4), _signs(rng, 30, 4)
    wanted = np.where(similar, 1, -weight) @ B_omega
    every = np.array(list(product([-1, 1], repeat=4)))
    best = (wanted @ every.T).max(axis=1)
    assert np.allclose((wanted * code_gamma(B_gamma, B_omega, similar, weight)).sum(axis=1), best)


def test_with_similarities_of_one_and_minus_one_gamma_has_the_least_absolute_error(rng):
    similar = rng.random((20, 6)) < 0.5
    B_omega = _signs(rng, 6, 4)
    S = np.where(similar, 1, -1)
    codes = code_gamma(_signs(rng, 20, 4), B_omega, similar, 1.0)
    every = np.array(list(product([-1, 1], repeat=4)))
    least = np.abs(4 * S[:, None, :] - (every @ B_omega.T)[None]).sum(axis=2).min(axis=1)
    assert np.array_equal(np.abs(4 * S - codes.astype(int) @ B_omega.T).sum(axis=1), least)


def test_an_item_that_is_similar_to_no_sampled_one_keeps_its_code(rng):
    B_omega = np.array([[1, -1, 1], [-1, 1, 1], [1, 1, -1], [-1, -1, -1]], np.int8)  # balanced
    B_gamma = _signs(rng, 50, 3)
    none = np.zeros((50, 4), np.bool_)
    assert np.array_equal(code_gamma(B_gamma, B_omega, none, 1 / 3), B_gamma)


@pytest.mark.parametrize("n_bits", [12, 24])
@pytest.mark.parametrize("dissimilar", ["balanced", "minus-one"])
def test_the_codes_of_the_training_items_separate_the_classes(rng, n_bits, dissimilar):
    labels = rng.permutation(np.arange(1000) % 10)
    hasher = COSDISH(n_bits, dissimilar=dissimilar, extension="linear").fit(rng.normal(size=(1000, 3)), labels)
    codes = hasher.codes_
    assert score(codes, codes, as_labels(labels), as_labels(labels)).map > 0.95


@pytest.mark.parametrize(("solver", "context"), [("local", "before"), ("local", "others"), ("clustering", "others")])
def test_other_solvers_separate_the_classes_with_enough_columns(rng, solver, context):
    labels = rng.permutation(np.arange(600) % 10)
    hasher = COSDISH(16, n_omega=100, solver=solver, context=context, extension="linear")
    codes = hasher.fit(rng.normal(size=(600, 3)), labels).codes_
    assert score(codes, codes, as_labels(labels), as_labels(labels)).map > 0.95


def test_learning_lowers_the_papers_objective(rng):
    labels = np.arange(300) % 5
    S = np.where(labels[:, None] == labels, 1.0, -0.25)

    def objective(signs):
        return np.square(16 * S - signs.astype(float) @ signs.T).mean()

    assert objective(_learn(labels)) < 0.5 * objective(_signs(rng, 300, 16))


def test_items_that_share_a_label_of_several_are_nearer(rng):
    labels = (rng.random((400, 4)) < 0.3).astype(int)
    signs = _learn(labels, n_bits=24, n_omega=60).astype(int)
    similar = labels @ labels.T > 0
    products = signs @ signs.T
    assert products[similar].mean() > products[~similar].mean() + 8


def test_similarity_may_be_given_pair_by_pair_and_is_never_asked_for_as_a_whole():
    most = 0

    def similar(first, second):
        nonlocal most
        most = max(most, len(first) * len(second))
        return first[:, None] % 3 == second[None, :] % 3

    n = 20_000
    signs = _learn(PairLabels(similar, n), n_bits=8)
    assert most == n * 8
    assert len(np.unique(signs[::3], axis=0)) < 100


@pytest.mark.parametrize("n_items", [3, 10])
@pytest.mark.parametrize("n_bits", [1, 7, 40])
def test_few_items_are_enough(n_items, n_bits):
    signs = _learn(np.arange(n_items) % 2, n_bits=n_bits)
    assert signs.shape == (n_items, n_bits)
    assert (np.abs(signs) == 1).all()


def test_an_odd_code_length_samples_an_even_number_of_columns(rng):
    labels = rng.permutation(np.arange(1000) % 20)
    signs = _learn(labels, n_bits=13)
    assert np.array_equal(signs, _learn(labels, n_bits=13, n_omega=14))


def test_another_seed_gives_other_codes():
    labels = np.arange(100) % 5
    assert np.array_equal(_learn(labels, seed=3), _learn(labels, seed=3))
    assert not np.array_equal(_learn(labels, seed=3), _learn(labels, seed=4))


@pytest.mark.parametrize("option", ["n_omega", "n_samplings", "n_alternations"])
def test_numbers_below_one_are_refused(option):
    with pytest.raises(InvalidInput, match=f"{option} must be at least 1; got 0"):
        COSDISH(8, **{option: 0}).fit([[1.0], [2.0]], [0, 1])


@pytest.mark.parametrize("option", ["solver", "context", "dissimilar"])
def test_unknown_choices_are_refused(option):
    with pytest.raises(UnknownName, match=f"Unknown {option} 'other'"):
        COSDISH(8, **{option: "other"}).fit([[1.0], [2.0]], [0, 1])
