import numpy as np
import pytest
from scipy import sparse

from ddsh.errors import InvalidInput
from ddsh.labels import PairLabels, as_labels
from ddsh.methods._classes import class_matrix, hadamard, hash_centres, majority_vote


@pytest.mark.parametrize("side", [1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 128])
def test_rows_of_a_hadamard_matrix_are_orthogonal(side):
    matrix = hadamard(side)
    assert matrix is not None
    assert set(np.unique(matrix)) <= {-1, 1}
    assert np.array_equal(matrix.astype(int) @ matrix.T.astype(int), side * np.eye(side))


@pytest.mark.parametrize("side", [3, 6, 10, 22])
def test_other_sides_have_none(side):
    assert hadamard(side) is None


@pytest.mark.parametrize(("n_classes", "n_bits"), [(10, 12), (10, 32), (32, 32), (100, 64)])
def test_centres_differ_in_half_of_the_bits_or_in_all(n_classes, n_bits, rng):
    centres = hash_centres(n_classes, n_bits, rng).astype(int)
    products = centres @ centres.T
    assert set(np.unique(products)) <= {0, n_bits, -n_bits}
    assert np.trace(products) == n_classes * n_bits
    if n_classes <= n_bits:
        assert np.count_nonzero(products) == n_classes


def test_no_bit_of_the_centres_is_the_same_for_all_classes(rng):
    centres = hash_centres(10, 32, rng)
    assert (np.abs(centres.sum(axis=0)) < 10).all()


@pytest.mark.parametrize(("n_classes", "n_bits"), [(10, 22), (300, 16), (5, 7)])
def test_centres_without_a_hadamard_matrix_differ(n_classes, n_bits, rng):
    centres = hash_centres(n_classes, n_bits, rng)
    assert centres.shape == (n_classes, n_bits)
    assert (np.abs(centres.sum(axis=1)) <= 1).all()
    assert len(np.unique(centres, axis=0)) > 0.9 * n_classes


def test_one_class_has_one_centre(rng):
    assert hash_centres(1, 7, rng).shape == (1, 7)


def test_the_code_of_an_item_is_the_majority_of_its_classes(rng):
    centres = np.array([[1, 1, 1, -1], [1, -1, 1, -1], [1, -1, -1, 1]], np.int8)
    classes = sparse.csc_array(np.array([[0, 1, 0], [1, 1, 1], [0, 1, 1]], float))
    codes = majority_vote(classes, centres, rng)
    assert codes[0].tolist() == [1, -1, 1, -1]
    assert codes[1].tolist() == [1, -1, 1, -1]
    assert codes[2, :2].tolist() == [1, -1]
    assert set(codes[2, 2:]) <= {-1, 1}, "ties are drawn"


def test_classes_are_columns_of_a_matrix():
    assert class_matrix(as_labels(["b", "a", "b"]), "csq").toarray().tolist() == [[0, 1], [1, 0], [0, 1]]


def test_pairs_have_no_classes():
    with pytest.raises(InvalidInput, match="csq learns from classes, and pairs have none"):
        class_matrix(PairLabels(np.eye(3)), "csq")
