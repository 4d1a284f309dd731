import numpy as np
import pytest
from scipy import linalg

from ddsh.errors import InvalidInput
from ddsh.methods.sh import SH, lowest_frequencies


def test_long_sides_of_the_box_get_several_bits():
    side, frequency = lowest_frequencies(np.array([4.0, 2.0, 1.0]), 5)
    # In units of pi: k/4 on the first side, k/2 on the second, k on the third.
    assert side.tolist() == [0, 1, 0, 0, 2]
    assert frequency / np.pi == pytest.approx([1 / 4, 1 / 2, 2 / 4, 3 / 4, 1])


def test_outputs_are_the_eigenvectors_of_the_laplacian_of_a_uniform_line():
    x = np.linspace(3, 5, 400)[:, None]
    affinity = np.exp(-np.square(x - x.T) / (2 * 0.01**2))
    # Weights next to the ends are doubled by reflection: the paper's eigenfunctions are those of a box with such ends.
    mirrored = affinity + np.exp(-np.square(x + x.T - 6) / 2e-4) + np.exp(-np.square(x + x.T - 10) / 2e-4)
    _, vectors = linalg.eigh(np.diag(mirrored.sum(0)) - mirrored, np.diag(mirrored.sum(0)))
    outputs = SH(3).fit(x).project(x)
    for k in range(3):
        assert abs(np.corrcoef(outputs[:, k], vectors[:, k + 1])[0, 1]) > 0.999


def test_a_single_feature_has_any_number_of_bits_each_finer_than_the_last():
    x = np.linspace(0, 1, 1000)[:, None]
    bits = SH(8).fit(x).encode(x).bits().astype(int)
    assert np.abs(np.diff(bits, axis=0)).sum(axis=0).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_bits_do_not_depend_on_place_and_scale(rng):
    features = rng.uniform(size=(60, 5)) * [5, 4, 3, 2, 1]
    assert SH(12).fit(4 * features + 8).encode(4 * features + 8) == SH(12).fit(features).encode(features)


def test_equal_items_are_refused():
    with pytest.raises(InvalidInput, match="all items are equal"):
        SH(4).fit(np.ones((20, 3)))
