"""Look bits: unsupervised, deterministic, from any number of images."""

import numpy as np
import pytest

from ddsh.errors import InvalidInput
from ddsh.look import Look


def _parts(n_images, widths=(40, 60)):
    """Features in two parts of very different sizes."""
    rng = np.random.default_rng(0)
    scales = (1, 1e4)
    return [scale * rng.gamma(2, 1, (n_images, width)) for scale, width in zip(scales, widths, strict=True)]


@pytest.mark.parametrize("n_images", [1, 2, 20, 127, 128, 512, 700])
@pytest.mark.parametrize("n_bits", [64, 128])
def test_any_number_of_images_will_do(n_images, n_bits):
    parts = _parts(n_images)
    look = Look(n_bits).fit(parts)
    codes = look.encode(parts)
    assert codes.bits().shape == (n_images, n_bits)
    assert Look(n_bits).fit(parts).encode(parts) == codes
    if n_images > 1:
        assert len(np.unique(codes.packed, axis=0)) == n_images
    if n_images >= 512:
        assert (np.abs(codes.bits().mean(axis=0) - 0.5) < 0.35).all()


@pytest.mark.parametrize("n_fit", [20, 800])
def test_near_copies_have_nearer_codes_than_other_images(n_fit):
    parts = _parts(800)
    noise = np.random.default_rng(1)
    changed = [part * noise.uniform(0.9, 1.1, part.shape) for part in parts]
    look = Look(128).fit([part[:n_fit] for part in parts])
    distances = look.encode(changed).hamming(look.encode(parts))
    assert (distances.argmin(axis=1) == np.arange(800)).mean() > 0.95


def test_both_parts_count_whatever_their_scale():
    parts = _parts(600)
    look = Look(64).fit(parts)
    code = look.encode(parts)
    for part in range(2):
        mixed = [array if number == part else array[::-1] for number, array in enumerate(parts)]
        distance = np.diagonal(look.encode(mixed).hamming(code)).mean()
        assert 8 < distance < 28, "half of the features are those of another image"


def test_identical_images_can_be_learned_from():
    parts = [np.ones((600, 30)), np.ones((600, 20))]
    assert len(np.unique(Look(64).fit(parts).encode(parts).packed, axis=0)) == 1


def test_arrays_restore_the_codes():
    parts = _parts(600)
    look = Look(64, stages=[7, 12]).fit(parts)
    restored = Look(64, stages=[7, 12]).set_weights(look.get_weights())
    assert restored.encode(parts) == look.encode(parts)
    with pytest.raises(InvalidInput, match="other shapes than 32 bits"):
        Look(32).set_weights(look.get_weights())
    with pytest.raises(InvalidInput, match=r"widths \(40, 60\); got \(40,\)"):
        look.encode(parts[:1])


def test_bits_and_familiarity_of_one_projection_are_those_of_each():
    parts = _parts(300)
    look = Look(64).fit(parts)
    codes, familiarity = look.encode_with_familiarity(parts)
    assert codes == look.encode(parts)
    assert np.array_equal(familiarity, look.familiarity(parts))
