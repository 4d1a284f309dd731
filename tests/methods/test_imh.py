import numpy as np
import pytest

from ddsh.errors import InvalidInput, UnknownName
from ddsh.evaluation import score
from ddsh.methods._anchor_graph import anchor_weights
from ddsh.methods.imh import IMH
from ddsh.methods.lsh import LSH


@pytest.fixture
def blobs(rng):
    labels = np.arange(300) % 5
    telling = 3 * rng.normal(size=(5, 6))[labels] + rng.normal(size=(300, 6))
    return np.hstack([telling, rng.normal(size=(300, 20))]), labels


@pytest.mark.parametrize("embedding", ["tsne", "eigenmaps"])
def test_an_item_gets_the_weighted_mean_of_its_nearest_centres(blobs, embedding):
    features, _ = blobs
    method = IMH(4, embedding=embedding, n_anchors=30, n_nearest=3).fit(features)
    assert method.projection_.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-6)
    for row in range(5):
        squares = np.square(method.anchors_ - features[row]).sum(axis=1)
        nearest = np.argsort(squares)[:3]
        weights = np.exp(-squares[nearest] / method.width_**2)
        expected = weights @ method.projection_[nearest] / weights.sum()
        assert method.project(features[row : row + 1])[0] == pytest.approx(expected)


@pytest.mark.parametrize("embedding", ["tsne", "eigenmaps"])
def test_new_items_of_a_class_are_nearer_than_with_random_directions(blobs, embedding):
    features, labels = blobs

    def held_out_map(method):
        codes = method.fit(features[:150]).encode(features)
        return score(codes[150:], codes[:150], labels[150:], labels[:150]).map

    assert held_out_map(IMH(12, embedding=embedding, n_anchors=40)) > held_out_map(LSH(12))


def test_eigenmaps_are_functions_on_the_graph_of_the_centres(blobs):
    method = IMH(3, embedding="eigenmaps", n_anchors=30, n_nearest=4).fit(blobs[0])
    places = method.projection_
    assert places.T @ places == pytest.approx(30 * np.eye(3), abs=1e-6)


def test_two_items_are_too_few_for_t_sne_and_get_equal_codes(rng):
    features = rng.normal(size=(2, 3))
    codes = IMH(4, embedding="tsne").fit(features).encode(features)
    assert codes.hamming(codes).sum() == 0


def test_weights_of_new_items_use_the_learned_centres(blobs):
    method = IMH(4, embedding="eigenmaps", n_anchors=30).fit(blobs[0])
    Z = anchor_weights(blobs[0], method.anchors_, 5, method.width_)
    assert method.project(blobs[0]) == pytest.approx(Z @ method.projection_)


def test_impossible_parameters_are_refused(blobs):
    with pytest.raises(UnknownName, match=r"Did you mean 'tsne'"):
        IMH(4, embedding="tnse").fit(blobs[0])
    with pytest.raises(InvalidInput, match="n_anchors must be 1 or more; got 0"):
        IMH(4, n_anchors=0).fit(blobs[0])
    with pytest.raises(InvalidInput, match="imh finds only 19 independent functions"):
        IMH(20, embedding="eigenmaps", n_anchors=20).fit(blobs[0])
