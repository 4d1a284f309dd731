"""Positions of codes on a map."""

import numpy as np
import pytest

from ddsh.codes import BinaryCodes, CodePair
from ddsh.search.layout import lay_out


@pytest.mark.parametrize("kind", ["label", "look", "both"])
def test_equal_codes_share_a_place_and_clusters_lie_apart(rng, kind):
    bits = np.repeat(rng.integers(0, 2, (3, 64)), 50, axis=0)
    noisy = bits ^ (rng.random(bits.shape) < 0.05)
    noisy[1] = noisy[0]
    codes = BinaryCodes.from_bits(noisy)
    pair = CodePair(None if kind == "look" else codes, None if kind == "label" else codes)
    places = lay_out(pair)
    assert places.min() == 0
    assert places.max() == 1
    assert np.array_equal(places[0], places[1])
    assert np.array_equal(places, lay_out(pair))
    centres = places.reshape(3, 50, 2).mean(axis=1)
    spread = np.linalg.norm(places.reshape(3, 50, 2) - centres[:, None], axis=2).mean()
    assert np.linalg.norm(centres[0] - centres[1]) > 4 * spread


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_images_have_places_too(rng, n):
    places = lay_out(CodePair(BinaryCodes.from_bits(rng.integers(0, 2, (n, 1))), None))
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
