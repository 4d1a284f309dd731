import numpy as np
import pytest
from scipy import linalg

from ddsh.errors import InvalidInput
from ddsh.methods._anchor_graph import (
    anchor_weights,
    cluster_anchors,
    graph_directions,
    inverse_degrees,
    nearest_width,
)


@pytest.fixture
def graph(rng):
    features = rng.normal(size=(60, 4))
    anchors = cluster_anchors(features, 12, 20, 0)
    width = nearest_width(features, anchors, 3)
    return features, anchors, width, anchor_weights(features, anchors, 3, width)


def test_weights_are_normalised_kernels_of_the_nearest_anchors(graph):
    features, anchors, width, Z = graph
    for row, x in enumerate(features):
        squares = np.square(anchors - x).sum(axis=1)
        nearest = np.argsort(squares)[:3]
        kernel = np.exp(-squares[nearest] / width**2)
        expected = np.zeros(len(anchors))
        expected[nearest] = kernel / kernel.sum()
        assert Z.toarray()[row] == pytest.approx(expected)


def test_an_item_far_from_all_anchors_still_has_weights(graph):
    _, anchors, width, _ = graph
    Z = anchor_weights(np.full((1, 4), 1e6), anchors, 3, width)
    assert Z.sum() == pytest.approx(1)


def test_the_directions_are_the_eigenvectors_of_the_graph_without_the_constant_one(graph):
    *_, Z = graph
    A = Z.toarray() @ np.diag(inverse_degrees(Z)) @ Z.toarray().T
    assert A.sum(axis=1) == pytest.approx(np.ones(60))
    values, vectors = linalg.eigh(A)
    functions = Z @ graph_directions("agh", Z, 4)
    assert functions.T @ functions == pytest.approx(60 * np.eye(4), abs=1e-8)
    assert functions.sum(axis=0) == pytest.approx(np.zeros(4), abs=1e-8)
    overlap = vectors[:, -5:-1][:, ::-1].T @ functions / np.sqrt(60)
    assert np.abs(overlap) == pytest.approx(np.eye(4), abs=1e-6)
    assert values[-1] == pytest.approx(1)


def test_separate_parts_of_a_graph_are_told_apart(rng):
    features = np.vstack([rng.normal(size=(20, 3)), 100 + rng.normal(size=(20, 3))])
    Z = anchor_weights(features, features, 10, 1.0)
    function = (Z @ graph_directions("agh", Z, 1))[:, 0]
    assert function[:20] == pytest.approx(np.full(20, function[0]), abs=1e-6)
    assert function[20:] == pytest.approx(np.full(20, -function[0]), abs=1e-6)


def test_few_items_are_their_own_anchors_once_each(rng):
    features = rng.normal(size=(10, 3))
    assert len(cluster_anchors(np.vstack([features, features]), 300, 20, 0)) == 10


def test_fewer_distinct_items_than_clusters_have_fewer_functions(rng):
    features = np.repeat(rng.normal(size=(5, 3)), 20, axis=0)
    Z = anchor_weights(features, cluster_anchors(features, 10, 20, 0), 3, 1.0)
    with pytest.raises(InvalidInput, match="only 4 independent functions"):
        graph_directions("agh", Z, 5)


def test_an_anchor_without_items_has_no_share(graph):
    features, anchors, width, _ = graph
    Z = anchor_weights(features, np.vstack([anchors, np.full((1, 4), 1e3)]), 3, width)
    assert inverse_degrees(Z)[-1] == 0
    assert np.isfinite(graph_directions("agh", Z, 4)).all()


def test_more_functions_than_the_graph_has_are_refused(graph):
    with pytest.raises(InvalidInput, match="agh finds only 11 independent functions on a graph of 12 anchors"):
        graph_directions("agh", graph[3], 12)
