import numpy as np
import pytest

from ddsh.errors import InvalidInput
from ddsh.methods._anchor_graph import anchor_weights, inverse_degrees
from ddsh.methods.agh import AGH, split_thresholds


@pytest.fixture
def features(rng):
    return rng.normal(size=(120, 6))


def test_one_layer_has_uncorrelated_outputs_of_mean_zero(features):
    outputs = AGH(8, n_layers=1, n_anchors=20).fit(features).project(features)
    assert outputs.T @ outputs == pytest.approx(120 * np.eye(8), abs=1e-8)
    assert outputs.sum(axis=0) == pytest.approx(np.zeros(8), abs=1e-8)


def test_the_first_half_of_two_layers_is_one_layer(features):
    two = AGH(8, n_anchors=20).fit(features).encode(features).bits()
    one = AGH(4, n_layers=1, n_anchors=20).fit(features).encode(features).bits()
    assert np.array_equal(two[:, :4], one)


def test_the_second_layer_splits_both_sides_of_the_first(features):
    bits = AGH(8, n_anchors=20).fit(features).encode(features).bits()
    for k in range(4):
        assert len(np.unique(bits[:, [k, 4 + k]], axis=0)) == 4


def cut(y, above, below, Z):
    """The objective f'Lf of the second layer, and the sum of f."""
    f = np.where(y > 0, y - above, below - y)
    laplacian = np.eye(len(y)) - Z.toarray() @ np.diag(inverse_degrees(Z)) @ Z.toarray().T
    return f @ laplacian @ f, f.sum()


def test_the_thresholds_are_the_best_of_all_that_balance_the_second_bit(features):
    method = AGH(8, n_anchors=20).fit(features)
    Z = anchor_weights(features, method.anchors_, method.n_nearest, method.width_)
    y = (Z @ method.projection_)[:, 0]
    above, below = split_thresholds(y, Z)
    assert (above, below) == pytest.approx(tuple(method.thresholds_[:, 0]))
    best, total = cut(y, above, below, Z)
    assert total == pytest.approx(0, abs=1e-8)
    share = (y > 0).mean()
    for step in (-0.5, -0.01, 0.01, 0.5):
        # The sum stays zero if both thresholds move like this.
        other, total = cut(y, above + step * (1 - share), below + step * share, Z)
        assert total == pytest.approx(0, abs=1e-8)
        assert other > best


def test_an_odd_number_of_bits_leaves_one_function_unsplit(features):
    method = AGH(7, n_anchors=20).fit(features)
    assert method.projection_.shape == (20, 4)
    assert method.thresholds_.shape == (2, 3)
    assert method.encode(features).n_bits == 7


def test_two_rings_that_no_plane_separates_get_different_bits(rng):
    angle = rng.uniform(0, 2 * np.pi, 400)
    radius = np.repeat([1.0, 3.0], 200)
    rings = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    bits = AGH(1, n_layers=1, n_anchors=60, n_nearest=2).fit(rings).encode(rings).bits()[:, 0]
    assert bits[:200].mean() in (0, 1)
    assert bits[200:].mean() == 1 - bits[:200].mean()


@pytest.mark.parametrize(("n_bits", "n_layers"), [(20, 1), (40, 2)])
def test_more_bits_than_functions_are_refused(features, n_bits, n_layers):
    with pytest.raises(InvalidInput, match="agh finds only 19 independent functions"):
        AGH(n_bits, n_layers=n_layers, n_anchors=20).fit(features)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_layers": 3}, "n_layers must be 1 or 2; got 3"),
        ({"n_anchors": 0}, "n_anchors must be 1 or more; got 0"),
        ({"n_nearest": 0}, "n_nearest must be 1 or more; got 0"),
    ],
)
def test_impossible_parameters_are_refused(features, params, message):
    with pytest.raises(InvalidInput, match=message):
        AGH(4, **params).fit(features)
