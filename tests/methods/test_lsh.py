import numpy as np
import pytest

from ddsh.methods.lsh import LSH


def test_a_code_of_the_negated_centred_features_is_the_complement(rng):
    features = rng.normal(size=(50, 7)) + 5
    method = LSH(64).fit(features)
    mirrored = 2 * features.mean(axis=0) - features
    assert np.array_equal(method.encode(mirrored).bits(), 1 - method.encode(features).bits())


def test_the_chance_that_a_bit_differs_is_the_angle(rng):
    angle = 1.0
    pair = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    method = LSH(1024).fit(np.vstack([pair, -pair]))
    codes = method.encode(pair)
    assert codes.hamming(codes)[0, 1] / 1024 == pytest.approx(angle / np.pi, abs=0.05)


def test_another_seed_gives_other_codes(rng):
    features = rng.normal(size=(50, 7))
    assert LSH(32, seed=0).fit(features).encode(features) != LSH(32, seed=1).fit(features).encode(features)
