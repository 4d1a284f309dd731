import numpy as np
import pytest

from ddsh.errors import InvalidInput
from ddsh.methods._kernels import kernel_map
from ddsh.methods.klsh import KLSH, centre_kernel, inverse_root


def test_the_kernel_is_centred_as_the_features_of_a_linear_kernel_would_be(rng):
    features = rng.normal(size=(20, 4)) + 3
    centred = features - features.mean(axis=0)
    assert centre_kernel(features @ features.T) == pytest.approx(centred @ centred.T)


def test_the_inverse_root_is_that_of_the_part_that_can_be_inverted(rng):
    factor = rng.normal(size=(6, 4))
    matrix = factor @ factor.T
    root = inverse_root(matrix)
    assert root @ root == pytest.approx(np.linalg.pinv(matrix))


def test_outputs_are_the_kernel_of_a_centred_item_with_the_weights_of_the_sample(rng):
    features = rng.normal(size=(40, 5))
    method = KLSH(8, n_anchors=15, n_summed=4).fit(features)
    K = kernel_map(method.anchors_, method.anchors_, method.width_)
    k = kernel_map(features, method.anchors_, method.width_)
    centred = k - K.mean(axis=0) - k.mean(axis=1, keepdims=True) + K.mean()
    assert method.project(features) == pytest.approx(centred @ method.projection_, abs=1e-8)
    assert method.projection_.sum(axis=0) == pytest.approx(np.zeros(8), abs=1e-6)


def test_the_chance_that_a_bit_differs_is_the_angle_in_the_space_of_the_kernel(rng):
    features = rng.normal(size=(60, 3))
    method = KLSH(1024, n_anchors=60, n_summed=25).fit(features)
    K = centre_kernel(kernel_map(method.anchors_, method.anchors_, method.width_))
    # In whitened coordinates all items of the sample are nearly orthogonal, so that half of the bits differ.
    codes = method.encode(method.anchors_)
    differ = codes.hamming(codes)[~np.eye(60, dtype=bool)] / 1024
    white = inverse_root(K) @ K @ inverse_root(K)
    cosines = white / np.sqrt(np.outer(white.diagonal(), white.diagonal()))
    angles = np.arccos(np.clip(cosines, -1, 1))[~np.eye(60, dtype=bool)] / np.pi
    assert differ.mean() == pytest.approx(angles.mean(), abs=0.03)


def test_near_items_share_more_bits_than_far_ones(rng):
    labels = np.arange(200) % 4
    features = 4 * rng.normal(size=(4, 10))[labels] + rng.normal(size=(200, 10))
    codes = KLSH(64).fit(features).encode(features)
    same = labels[:, None] == labels
    distances = codes.hamming(codes)
    assert distances[same].mean() < 0.8 * distances[~same].mean()


@pytest.mark.parametrize("name", ["n_anchors", "n_summed"])
def test_impossible_parameters_are_refused(rng, name):
    with pytest.raises(InvalidInput, match=f"{name} must be 1 or more; got 0"):
        KLSH(4, **{name: 0}).fit(rng.normal(size=(50, 3)))
