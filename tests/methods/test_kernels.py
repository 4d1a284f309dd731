import numpy as np
import pytest

from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width


def squared_distances(features, anchors):
    return np.square(features[:, None] - anchors[None]).sum(axis=2)


def test_anchors_are_different_rows_in_their_order(rng):
    features = np.arange(40.0)[:, None]
    anchors = choose_anchors(features, 15, rng)[:, 0]
    assert len(anchors) == 15
    assert (np.diff(anchors) > 0).all()
    assert np.isin(anchors, features).all()


def test_the_generator_decides_which_rows_are_anchors():
    features = np.arange(40.0)[:, None]
    first, again, other = (choose_anchors(features, 15, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_row_is_an_anchor_where_there_are_too_few(rng):
    features = rng.normal(size=(5, 3))
    assert np.array_equal(choose_anchors(features, 1000, rng), features)


def test_the_kernel_is_what_its_formula_says(rng):
    features, anchors = rng.normal(size=(30, 4)), rng.normal(size=(7, 4))
    expected = np.exp(-squared_distances(features, anchors) / (2 * 1.7**2))
    assert kernel_map(features, anchors, 1.7) == pytest.approx(expected, rel=1e-12)


def test_the_kernel_keeps_its_digits_far_from_the_origin(rng):
    features, anchors = rng.normal(size=(30, 4)), rng.normal(size=(7, 4))
    far = kernel_map(features + 1e7, anchors + 1e7, 1.0)
    assert far == pytest.approx(kernel_map(features, anchors, 1.0), abs=1e-6)


def test_blocks_of_rows_join_to_the_whole(rng):
    features, anchors = rng.normal(size=(2500, 3)), rng.normal(size=(6, 3))
    weights = rng.normal(size=(6, 2))
    whole = kernel_map(features, anchors, 1.0)
    assert whole == pytest.approx(np.exp(-squared_distances(features, anchors) / 2), rel=1e-12)
    assert kernel_product(features, anchors, 1.0, weights) == pytest.approx(whole @ weights, abs=1e-12)


def test_single_precision_features_give_the_same_kernel(rng):
    features = rng.normal(size=(30, 4)).astype(np.float32)
    anchors = choose_anchors(features, 7, rng)
    assert anchors.dtype == kernel_map(features, anchors, 1.0).dtype == np.float64
    assert np.array_equal(kernel_map(features, anchors, 1.0), kernel_map(features.astype(np.float64), anchors, 1.0))


def test_a_pair_at_the_root_mean_square_distance_has_similarity_one_over_e(rng):
    features, anchors = rng.normal(size=(50, 4)) + 3, rng.normal(size=(9, 4))
    width = rbf_width(features, anchors)
    assert np.exp(-squared_distances(features, anchors).mean() / (2 * width**2)) == pytest.approx(np.exp(-1))


def test_equal_features_have_width_one():
    features = np.full((5, 3), 2.0)
    assert rbf_width(features, features) == 1
    assert (kernel_map(features, features, 1.0) == 1).all()
