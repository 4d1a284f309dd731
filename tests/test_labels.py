import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from ddsh.errors import InvalidInput
from ddsh.labels import MultiLabels, PairLabels, SingleLabels, as_labels, draw_stratified

matrices = arrays(np.uint8, st.tuples(st.integers(1, 8), st.just(4)), elements=st.integers(0, 1))


@given(matrices, matrices)
def test_similar_means_sharing_at_least_one_label(left, right):
    expected = [[bool(set(np.flatnonzero(a)) & set(np.flatnonzero(b))) for b in right] for a in left]
    for make in (np.asarray, sparse.csr_array, sparse.coo_matrix):
        assert as_labels(make(left)).similar(as_labels(make(right))).tolist() == expected


@given(st.lists(st.integers(-3, 3), min_size=1), st.lists(st.integers(-3, 3), min_size=1))
def test_single_labels_are_similar_when_equal(left, right):
    expected = [[a == b for b in right] for a in left]
    assert as_labels(left).similar(as_labels(right)).tolist() == expected


@given(st.lists(st.integers(-1, 2), min_size=1), st.lists(st.integers(-1, 2), min_size=1))
def test_items_without_a_label_are_similar_to_none_and_belong_to_no_class(left, right):
    one, other = (SingleLabels(np.array(values), missing=-1) for values in (left, right))
    assert one.similar(other).tolist() == [[a == b != -1 for b in right] for a in left]
    assert one.labelled().tolist() == [a != -1 for a in left]
    assert one.classes().tolist() == sorted(set(left) - {-1})
    assert sum(one.counts().values()) == int(one.labelled().sum())
    assert not one.having(-1).any()
    kinds, ids = one.distinct()
    assert kinds.take(ids).to_array().tolist() == left
    labelled = one.take(one.labelled())
    assert labelled.similar(labelled).tolist() == as_labels(labelled.to_array()).similar(labelled).tolist()


def test_an_item_without_a_label_is_similar_to_none_whose_label_has_the_same_number():
    without, with_label = SingleLabels(np.array([-1, 1]), missing=-1), as_labels([-1, 1])
    assert without.similar(with_label).tolist() == [[False, False], [False, True]]
    assert with_label.similar(without).tolist() == [[False, False], [False, True]]


@given(matrices)
def test_rows_of_zeros_are_the_ones_without_a_label(matrix):
    assert as_labels(matrix).labelled().tolist() == matrix.any(axis=1).tolist()


@given(matrices)
def test_distinct_label_sets_rebuild_the_labels(matrix):
    labels = as_labels(matrix)
    distinct, ids = labels.distinct()
    assert np.array_equal(distinct.to_array()[ids], matrix)
    assert len(distinct) == len(np.unique(matrix, axis=0))


def test_one_hot_matrices_and_vectors_agree(rng):
    vector = rng.integers(0, 5, 30)
    single, multi = as_labels(vector), as_labels(np.eye(5, dtype=int)[vector])
    assert isinstance(single, SingleLabels)
    assert isinstance(multi, MultiLabels)
    assert np.array_equal(single.similar(single), multi.similar(multi))
    assert single.counts() == multi.counts()
    assert np.array_equal(single.having(3), multi.having(3))
    assert single.classes().tolist() == multi.classes().tolist()


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, 2.0]),
        np.array([[1], [2]]),
        np.array([[0], [1]]),
        [True, False],
        ["cat", "dog"],
        np.array(["a", "b"], object),
        np.array([107.0, 2.0**53 - 1]),
        [2**53, 2**60],
    ],
)
def test_labels_are_read_in_the_forms_people_have(values):
    labels = as_labels(values)
    assert isinstance(labels, SingleLabels)
    assert labels.similar(labels).tolist() == [[True, False], [False, True]]


def test_an_item_without_labels_is_similar_to_nothing():
    labels = as_labels([[0, 0], [1, 1]])
    assert labels.similar(labels).tolist() == [[False, False], [False, True]]


def test_a_sparse_matrix_may_hold_explicit_zeros_and_repeated_entries():
    matrix = sparse.csr_array((np.array([1, 1, 0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert as_labels(matrix).to_array().tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize(
    "values",
    [
        [0.5, 1.0],
        [[1], [1, 0]],
        [np.nan, 1.0],
        [1e300],
        [2.0**53],  # the next whole number is the same float
        [[0, 2], [1, 0]],
        np.zeros((2, 2, 2)),
        np.array(5),
        None,
        np.array([None, "a"], object),
        np.array([[["a"]]]),
        np.array([b"a"]),
        np.array([["a", "b"]]),
        sparse.csr_array(np.array([[3.0, 0.0]])),
    ],
)
def test_values_that_are_no_labels_are_refused(values):
    with pytest.raises(InvalidInput, match="abel"):
        as_labels(values)


@pytest.mark.parametrize(
    ("left", "right"),
    [([1, 2], [[1, 0]]), ([[1, 0]], [1]), ([[1, 0]], [[1, 0, 0]]), (["1"], [1])],
)
def test_labels_of_different_kinds_are_not_compared(left, right):
    with pytest.raises(InvalidInput, match="one kind"):
        as_labels(left).similar(as_labels(right))


def test_the_repr_has_the_sizes():
    assert repr(as_labels([0, 2, 2])) == "SingleLabels(3 items, 2 classes)"
    assert repr(as_labels([[1, 1, 1], [0, 0, 0]])) == "MultiLabels(2 items, 3 classes)"


def test_a_matrix_of_pairs_must_be_square():
    assert len(PairLabels(sparse.csr_array(np.ones((300, 300))))) == 300
    with pytest.raises(InvalidInput, match=r"square; got \(2, 3\)"):
        PairLabels(sparse.csr_array(np.ones((2, 3))))


def test_shared_labels_are_counted():
    several = as_labels(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]]))
    assert several.n_shared(several).tolist() == [[2, 2, 0], [2, 3, 1], [0, 1, 1]]
    single = as_labels([0, 1, 0])
    assert single.n_shared(single).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_overlap_is_jaccard_or_cosine_of_the_label_sets():
    mine, theirs = as_labels([[1, 1, 0, 0], [1, 0, 0, 0]]), as_labels([[1, 0, 1, 1], [0, 0, 0, 0]])
    np.testing.assert_allclose(mine.overlap(theirs, "jaccard"), [[1 / 4, 0], [1 / 3, 0]])
    np.testing.assert_allclose(mine.overlap(theirs, "cosine"), [[1 / 6**0.5, 0], [1 / 3**0.5, 0]])


def test_a_stratified_draw_keeps_the_share_of_each_class():
    values = np.repeat([0, 1, 2], [80, 15, 5])
    chosen = draw_stratified(as_labels(values), 20, np.random.default_rng(0))
    assert np.bincount(values[chosen]).tolist() == [16, 3, 1]
    both = as_labels(np.array([[1, 1, 0]] * 10 + [[0, 1, 0]] * 30 + [[0, 0, 1]] * 60))
    drawn = both.take(draw_stratified(both, 10, np.random.default_rng(0)))
    assert drawn.counts() == {0: 1, 1: 4, 2: 6}


@given(matrices, st.data())
def test_a_stratified_draw_has_as_many_rows_as_were_wanted(matrix, data):
    n_rows = data.draw(st.integers(0, len(matrix)))
    assert draw_stratified(as_labels(matrix), n_rows, np.random.default_rng(0)).sum() == n_rows


def test_a_stratified_draw_of_many_small_classes_is_filled_up():
    assert draw_stratified(as_labels(np.arange(10)), 4, np.random.default_rng(0)).sum() == 4


def test_pairs_say_which_items_are_similar_and_have_no_classes():
    matrix = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
    pairs = PairLabels(matrix)
    called = PairLabels(lambda first, second: matrix[first][:, second].toarray() > 0, n_items=3)
    for labels in (pairs, called):
        assert (labels.similar(labels) == (matrix.toarray() > 0)).all()
        assert labels.take(np.array([2, 0])).similar(labels).tolist() == [[False, False, True], [True, True, False]]
        assert labels.to_array().tolist() == labels.distinct()[1].tolist() == [0, 1, 2]
        assert labels.labelled().all()
        assert not labels.having(0).any()
        assert labels.classes().size == 0
    with pytest.raises(InvalidInput, match="Give n_items"):
        PairLabels(lambda first, second: first)
    with pytest.raises(InvalidInput, match="of one kind"):
        pairs.similar(as_labels([1, 2, 3]))
    assert as_labels(pairs) is pairs


def test_single_labels_overlap_wholly_or_not_at_all():
    labels = as_labels([1, 2])
    assert labels.overlap(labels, "jaccard").tolist() == [[1.0, 0.0], [0.0, 1.0]]
