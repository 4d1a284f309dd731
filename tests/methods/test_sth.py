import numpy as np
import pytest
from scipy import linalg
from sklearn.metrics.pairwise import cosine_similarity

from ddsh.errors import InvalidInput
from ddsh.methods.sth import STH, eigenmaps, join_neighbors


def test_items_are_joined_if_one_is_among_the_nearest_of_the_other(rng):
    features = rng.normal(size=(30, 4)) + 2
    W = join_neighbors(features, 3).toarray()
    cosines = cosine_similarity(features)
    np.fill_diagonal(cosines, -2)
    nearest = np.argsort(-cosines, axis=1)[:, :3]
    joined = np.zeros((30, 30), bool)
    joined[np.arange(30)[:, None], nearest] = True
    joined |= joined.T
    assert np.array_equal(W > 0, joined)
    assert W[joined] == pytest.approx(cosines[joined])


@pytest.mark.parametrize("n_items", [40, 300])
def test_eigenmaps_solve_the_generalised_eigenvalue_problem(rng, n_items):
    W = join_neighbors(rng.normal(size=(n_items, 3)) + 3, 8)
    places = eigenmaps(W, 4)
    D = np.diag(W.toarray().sum(axis=0))
    values, vectors = linalg.eigh(D - W.toarray(), D)
    assert values[0] == pytest.approx(0, abs=1e-9)
    overlap = vectors[:, 1:5].T @ D @ places
    assert np.abs(overlap) == pytest.approx(np.eye(4), abs=1e-5)


def test_the_bits_that_are_learned_split_the_items_in_half(rng):
    features = rng.normal(size=(100, 30)) + 1
    # As many features as needed to tell the items apart: the support vector machines make no error.
    bits = STH(4, C=1e4).fit(np.hstack([features, 3 * np.eye(100)])).transform(np.hstack([features, 3 * np.eye(100)]))
    assert bits.sum(axis=0).tolist() == [50, 50, 50, 50]


def test_groups_get_codes_of_their_own_and_new_items_follow(rng):
    labels = np.arange(160) % 4
    features = 5 * np.eye(4, 10)[labels] + 0.3 * rng.normal(size=(160, 10)) + 1
    codes = STH(6, n_neighbors=10).fit(features[:80]).encode(features)
    distances = codes.hamming(codes)
    same = labels[:, None] == labels
    assert distances[same].mean() < 0.5 * distances[~same].mean()


def test_equal_items_get_one_code():
    features = np.ones((20, 3))
    codes = STH(4).fit(features).encode(features)
    assert codes.hamming(codes).sum() == 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be 1 or more; got 0"),
        ({"C": 0}, "C must be above 0; got 0"),
        ({"n_bits": 50}, "n_bits is 50 and n_samples=50"),
    ],
)
def test_impossible_parameters_are_refused(rng, params, message):
    with pytest.raises(InvalidInput, match=message):
        STH(**{"n_bits": 4} | params).fit(rng.normal(size=(50, 3)))
