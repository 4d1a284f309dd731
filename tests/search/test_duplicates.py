"""Near-duplicates, and images that only share a code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from small_photos import draw

from ddsh import ImageSearch
from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.search.duplicates import SIDE, group_duplicates, tiny_copy


def test_a_photo_that_was_resized_or_saved_anew_keeps_its_look(rng):
    photo = np.asarray(Image.fromarray(draw(rng, (90, 120, 60))).resize((320, 240), Image.Resampling.BICUBIC))
    smaller = np.asarray(Image.fromarray(photo).resize((160, 120), Image.Resampling.LANCZOS))
    other = np.asarray(Image.fromarray(draw(rng, (90, 120, 60))).resize((320, 240), Image.Resampling.BICUBIC))
    same = BinaryCodes.from_bits(np.zeros((3, 8), np.uint8))
    assert [
        part.tolist() for part in group_duplicates(same, [tiny_copy(each) for each in (photo, smaller, other)], 0, 4.0)
    ] == [[0, 1]]


def test_grey_and_colour_have_looks_of_one_length():
    assert len(tiny_copy(np.zeros((5, 9, 1), np.uint8))) == len(tiny_copy(np.zeros((1, 1, 3), np.uint8))) == 3 * SIDE**2


@given(st.integers(1, 30), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_groups_are_those_of_all_pairs(n, radius, seed):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n, 5), np.uint8)
    values = rng.integers(0, 12, n)
    copies = [bytes([value] * (3 * SIDE**2)) for value in values]
    close = (BinaryCodes.from_bits(bits).hamming(BinaryCodes.from_bits(bits)) <= radius) & (
        np.abs(values[:, None] - values) <= 2
    )
    reach = np.linalg.matrix_power(close.astype(float), n) > 0
    expected = {tuple(np.flatnonzero(row)) for row in reach if row.sum() > 1}
    found = group_duplicates(BinaryCodes.from_bits(bits), copies, radius, 2.0)
    assert [tuple(part) for part in found] == sorted(expected)


def test_copies_are_found_in_an_index_and_images_of_one_code_are_not(tmp_path, deep_model, rng):
    pictures = [draw(rng, colour).repeat(8, 0).repeat(8, 1) for colour in [(200, 30, 30)] * 4]
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    Image.fromarray(pictures[2]).resize((96, 96)).save(tmp_path / "smaller.jpg", quality=90)
    with ImageSearch.create(tmp_path / "index", deep_model) as search:
        search.add(sorted(tmp_path.glob("*.*g")))
        groups = search.duplicates(search.n_bits)
        assert [[entry.path.rsplit("/", 1)[1] for entry in members] for members in groups] == [["2.png", "smaller.jpg"]]
        assert len(search.duplicates(search.n_bits, tolerance=255)[0]) == 5


def test_a_radius_or_tolerance_below_zero_is_refused(search):
    with pytest.raises(InvalidInput, match="radius must be 0 or more"):
        search.duplicates(-1)
    with pytest.raises(InvalidInput, match="tolerance must be 0 or more"):
        search.duplicates(tolerance=float("nan"))
