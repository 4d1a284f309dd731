"""Index of two codes: every order equals the one that is defined, for all sizes."""

import math
from fractions import Fraction
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, InvalidInput
from ddsh.index import INDEXES, _engine, _pair_scan, get_index, load_kernels
from ddsh.index.pairs import ORDERS, PairDistance, PairIndex


@pytest.fixture(autouse=True, params=["numpy", "numba"], scope="module")
def engine(request):
    """What searches: NumPy alone, or the compiled kernels."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(_engine, "_module", None)
            patch.setattr(_engine, "_loader", Thread())
        elif not load_kernels():
            pytest.skip("numba is not installed")
        yield


def _draw(rng, n_codes, label_bits, look_bits, n_kinds=6):
    """Codes near a few kinds, as learned ones are, so that many distances are equal."""

    def near(n_bits):
        kinds = rng.integers(0, 2, (n_kinds, n_bits), np.uint8)
        flips = rng.random((n_codes, n_bits)) < rng.choice([0.01, 0.2])
        return BinaryCodes.from_bits(kinds[rng.integers(0, n_kinds, n_codes)] ^ flips.astype(np.uint8))

    return CodePair(near(label_bits) if label_bits else None, near(look_bits) if look_bits else None)


def _expected(codes, ids, query, by, k, radius, allowed):
    """The first ids and distances by definition, one item at a time."""
    rows = []
    n_label, n_look = codes.label.n_bits, codes.look.n_bits
    for row, number in enumerate(ids):
        if allowed is not None and number not in allowed:
            continue
        label = int((codes.label.bits()[row] != query.label.bits()[0]).sum())
        look = int((codes.look.bits()[row] != query.look.bits()[0]).sum())
        weight, near, width = max(1, round(6 * n_look / n_label)), max(0, n_look // 4 - 6), max(1, 3 * n_look // 32)
        part = 1 if label > 3 * n_label // 8 else Fraction(min(width, max(0, look - near)), width)
        both = look + math.floor(weight * part) * label
        key = {"both": (both, look), "label": (label, look), "look": (look, label)}[by]
        if radius is None or key[0] <= radius:
            rows.append((*key, int(number), label, look))
    return sorted(rows)[:k]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 100),
    st.sampled_from([1, 12, 32, 64, 70]),
    st.sampled_from([8, 64, 128, 256]),
    st.sampled_from(sorted(INDEXES)),
)
def test_every_order_is_the_one_that_is_defined(seed, n_codes, label_bits, look_bits, kind):
    rng = np.random.default_rng(seed)
    codes, query = _draw(rng, n_codes, label_bits, look_bits), _draw(rng, 1, label_bits, look_bits)
    if rng.random() < 0.5:
        query = codes[rng.integers(0, n_codes, 1)]
    ids = rng.permutation(3 * n_codes)[:n_codes]
    index = PairIndex(label_bits, look_bits, get_index(kind))
    index.add(codes, ids)
    gone = rng.permutation(ids)[: rng.integers(0, n_codes)]
    index.remove(gone)
    kept = ~np.isin(ids, gone)
    codes, ids = codes[kept], ids[kept]
    for by in ORDERS:
        k = int(rng.integers(1, n_codes + 3))
        radius = None if rng.random() < 0.5 else int(rng.integers(0, label_bits + look_bits))
        allowed = None if rng.random() < 0.5 else rng.permutation(3 * n_codes)[:n_codes]
        hits = index.search(query, k, by=by, radius=radius, allowed=allowed)
        found = zip(hits.distances, hits.ids, hits.label_distances, hits.look_distances, strict=True)
        expected = _expected(codes, ids, query, by, k, radius, allowed)
        assert [tuple(map(int, row)) for row in found] == [(row[0], *row[2:]) for row in expected]
        if len(hits.ids):
            rows = [ids.tolist().index(number) for number in hits.ids.tolist()]
            assert index.codes_of(hits.ids) == codes[rows]


def test_large_indexes_are_compared_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    codes, query = _draw(rng, 500, 12, 64), _draw(rng, 1, 12, 64)
    index = PairIndex(12, 64, get_index("buckets"))
    index.add(codes, np.arange(500))
    whole = index.search(query, 40)
    monkeypatch.setattr(_pair_scan, "_ROWS_AT_ONCE", 7)
    parts = index.search(query, 40)
    assert np.array_equal(parts.ids, whole.ids)
    assert np.array_equal(parts.distances, whole.distances)


@pytest.mark.parametrize(("label_bits", "look_bits"), [(12, 64), (12, 0), (0, 64)])
def test_an_index_survives_a_folder(tmp_path, label_bits, look_bits):
    rng = np.random.default_rng(0)
    index = PairIndex(label_bits, look_bits, get_index("buckets"))
    index.add(_draw(rng, 50, label_bits, look_bits), np.arange(50))
    index.save(tmp_path)
    loaded = PairIndex(label_bits, look_bits, get_index("buckets")).load(tmp_path)
    query = _draw(rng, 1, label_bits, look_bits)
    assert len(loaded) == 50
    assert np.array_equal(loaded.search(query, 9).ids, index.search(query, 9).ids)
    with pytest.raises(ArtefactError):
        PairIndex(label_bits + 1, look_bits, get_index("buckets")).load(tmp_path)


def test_one_code_alone_is_searched_by_that_code():
    rng = np.random.default_rng(0)
    codes = _draw(rng, 30, 16, 64)
    for name, bits in (("label", (16, 0)), ("look", (0, 64))):
        index = PairIndex(*bits, get_index("exact"))
        index.add(codes, np.arange(30))
        hits = index.search(codes[:1], None)
        distances = getattr(codes, name)[:1].hamming(getattr(codes, name))[0].astype(int)
        assert hits.ids.tolist() == np.lexsort((np.arange(30), distances)).tolist()
        other = {"label": "look", "look": "label"}[name]
        assert getattr(hits, f"{other}_distances") is None
        with pytest.raises(InvalidInput, match=f"no {other} bits"):
            index.search(codes[:1], 3, by=other)


def test_what_does_not_fit_is_refused():
    rng = np.random.default_rng(0)
    index = PairIndex(16, 64, get_index("exact"))
    with pytest.raises(InvalidInput, match="the codes have none"):
        index.add(_draw(rng, 3, 16, 0), np.arange(3))
    with pytest.raises(InvalidInput, match="needs label bits, look bits or both"):
        PairIndex(0, 0, get_index("exact"))
    with pytest.raises(InvalidInput, match="label bits, look bits or both"):
        CodePair(None, None)
    with pytest.raises(InvalidInput, match="by must be one of both, label, look; got 'colour'"):
        index.search(_draw(rng, 1, 16, 64), 1, by="colour")


@pytest.mark.parametrize(("label_bits", "look_bits"), [(12, 64), (12, 0), (0, 64)])
def test_an_index_says_what_it_holds(label_bits, look_bits):
    index = PairIndex(label_bits, look_bits, get_index("buckets"))
    index.add(_draw(np.random.default_rng(0), 5, label_bits, look_bits), np.arange(5))
    assert index.name == ("buckets" if label_bits else "exact")
    assert repr(index) == f"PairIndex(5 codes of {label_bits} label and {look_bits} look bits)"


@pytest.mark.parametrize("by", ORDERS)
@pytest.mark.parametrize("gone", [[4], list(range(0, 300, 2))])
def test_removed_codes_are_not_found_by_either_code(by, gone):
    rng = np.random.default_rng(0)
    codes, query = _draw(rng, 300, 12, 64), _draw(rng, 1, 12, 64)
    index, fresh = (PairIndex(12, 64, get_index("buckets")) for _ in range(2))
    index.add(codes, np.arange(300))
    index.search(query, 3)
    index.remove(gone)
    left = np.setdiff1d(np.arange(300), gone)
    fresh.add(codes[left], left)
    for k, radius in ((20, None), (None, None), (None, 30)):
        found, expected = (one.search(query, k, by=by, radius=radius) for one in (index, fresh))
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.distances.tolist() == expected.distances.tolist()
    assert index.contains([*gone[:1], left[0]]).tolist() == [False, True]
    with pytest.raises(InvalidInput, match="1 of 2 ids are not in the index"):
        index.remove([left[0], gone[0]])
    assert len(index) == len(left)


def test_a_near_copy_comes_before_an_image_with_the_same_label_bits():
    distance = PairDistance(32, 128)
    facts = (distance.label_weight, distance.near_look, distance.far_look, distance.near_label, distance.largest)
    assert facts == (24, 26, 38, 12, 24 * 32 + 128)
    label, look = np.array([12, 0, 12, 12, 13], np.uint8), np.array([26, 40, 32, 38, 3], np.uint8)
    assert distance.of(label, look).tolist() == [26, 40, 12 * 12 + 32, 12 * 24 + 38, 13 * 24 + 3]
    assert (PairDistance(32, 64).near_look, PairDistance(32, 64).far_look) == (10, 16)
    assert (PairDistance(32, 16).near_look, PairDistance(32, 8).near_look) == (0, 0)


@pytest.mark.parametrize(("label_bits", "look_bits"), [(32, 128), (12, 64), (48, 256), (7, 9), (1, 1)])
def test_the_distance_rises_with_both_codes(label_bits, look_bits):
    distance = PairDistance(label_bits, look_bits)
    assert distance.table.shape == (label_bits + 1, look_bits + 1)
    assert (np.diff(distance.table, axis=0) >= 0).all()
    assert (np.diff(distance.table, axis=1) >= 1).all()
    assert distance.table[0].tolist() == list(range(look_bits + 1))
    assert distance.table.max() == distance.largest
    for label in range(label_bits + 1):
        for furthest in (-1, 0, 5, distance.largest):
            assert distance.look_limit(label, furthest) == (distance.table[label] <= furthest).sum() - 1


def test_near_copies_that_look_as_much_alike_are_ordered_by_id():
    label = BinaryCodes.from_bits(np.array([[1] + [0] * 31, [0] * 32], np.uint8))
    for n_flipped in (0, 3):
        look = BinaryCodes.from_bits(np.array([[1] * n_flipped + [0] * (128 - n_flipped)] * 2, np.uint8))
        index = PairIndex(32, 128, get_index("buckets"))
        index.add(CodePair(label, look), np.array([4, 9]))
        zeros = CodePair(label[[1]], BinaryCodes.from_bits(np.zeros((1, 128), np.uint8)))
        assert index.search(zeros, 2).ids.tolist() == [4, 9]
        assert index.search(zeros, 2).distances.tolist() == [n_flipped, n_flipped]
