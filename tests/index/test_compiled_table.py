"""Hash tables of compiled kernels: every way to an answer gives the same one."""

from threading import Thread

import numpy as np
import pytest

from ddsh.codes import BinaryCodes
from ddsh.index import BucketsIndex, ExactIndex, _engine, load_kernels


@pytest.fixture(autouse=True)
def _numba():
    if not load_kernels():
        pytest.skip("numba is not installed")


def same(found, expected):
    return all(
        np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("offsets", "ids", "distances")
    )


def by_numpy(codes, monkeypatch, call):
    """What NumPy finds."""
    with monkeypatch.context() as patch:
        patch.setattr(_engine, "_module", None)
        patch.setattr(_engine, "_loader", Thread())
        index = ExactIndex(codes.n_bits)
        index.add(codes)
        return call(index)


def draw(rng, n_codes, n_bits, n_kinds=8, flipped=0.03):
    kinds = np.random.default_rng(n_bits).integers(0, 2, (n_kinds, n_bits), np.uint8)
    return BinaryCodes.from_bits(kinds[rng.integers(0, n_kinds, n_codes)] ^ (rng.random((n_codes, n_bits)) < flipped))


@pytest.mark.parametrize("n_bits", [12, 17, 32, 48, 64, 100])
@pytest.mark.parametrize("flipped", [0.005, 0.03, 0.5])
def test_every_distance_is_found_by_probes_rings_and_scans(rng, monkeypatch, n_bits, flipped):
    codes, queries = draw(rng, 40_000, n_bits, flipped=flipped), draw(rng, 12, n_bits, flipped=0.1)
    index = BucketsIndex(n_bits)
    index.add(codes)
    for k in (1, 100, 2000):
        assert same(index.search(queries, k), by_numpy(codes, monkeypatch, lambda exact, k=k: exact.search(queries, k)))
    for radius in (0, 1, 2, 3, 9):
        expected = by_numpy(codes, monkeypatch, lambda exact, r=radius: exact.within(queries, r))
        assert same(index.within(queries, radius), expected)


def test_a_ring_holds_the_codes_at_one_distance_from_their_nearest_centre(rng):
    index = BucketsIndex(48)
    index.add(draw(rng, 20_000, 48))
    index.search(index.codes_of([1]), 1)
    _, codes, starts, members, centres, ring_starts = index._compiled.arrays
    assert np.array_equal(np.sort(members), np.arange(20_000))
    assert np.array_equal(index._codes.words[members], np.repeat(codes, np.diff(starts), axis=0))
    distances = np.bitwise_count(codes[:, 0, None] ^ centres[:, 0])
    rings = np.repeat(np.arange(len(ring_starts) - 1), np.diff(ring_starts))
    assert np.array_equal(rings // 49, distances.argmin(axis=1))
    assert np.array_equal(rings % 49, distances.min(axis=1))


def test_a_saved_table_is_in_the_order_of_its_rings_and_stays_mapped(rng, tmp_path):
    index = BucketsIndex(48)
    index.add(draw(rng, 20_000, 48))
    index.search(index.codes_of([1]), 1)
    index.save(tmp_path)
    loaded = BucketsIndex.load(tmp_path)
    table = loaded._table
    loaded.search(index.codes_of([1]), 1)
    assert loaded._table is table
    assert loaded._compiled.members is table.members


@pytest.mark.parametrize("n_rows", [2, 64, 65, 3000])
def test_many_rows_at_one_distance_come_in_the_order_of_their_ids(rng, monkeypatch, n_rows):
    bits = np.zeros((10_000, 24), np.uint8)
    some = rng.permutation(10_000)[:n_rows]
    bits[:, 20:] = 1
    bits[some, 20:] = 0
    bits[some, rng.integers(0, 20, n_rows)] = 1
    codes, index = BinaryCodes.from_bits(bits), BucketsIndex(24)
    index.add(codes)
    query = BinaryCodes.from_bits(np.zeros((1, 24), np.uint8))
    assert index.within(query, 1).ids.tolist() == np.sort(some).tolist()
    assert same(index.search(query, n_rows), by_numpy(codes, monkeypatch, lambda exact: exact.search(query, n_rows)))


def test_the_size_of_an_index_is_that_of_its_arrays(rng):
    index = BucketsIndex(64)
    index.add(BinaryCodes.from_bits(rng.integers(0, 2, (5000, 64))))
    assert index.nbytes == 12 * 5000
    index.search(index.codes_of([1]), 1)
    assert index.nbytes == 12 * 5000 + index._compiled.arrays[0].nbytes
    exact = ExactIndex(64)
    exact.add(index.codes_of(np.arange(10)))
    assert exact.nbytes == 120


def test_codes_that_are_all_different_need_no_lists_of_members(rng, tmp_path):
    index = BucketsIndex(64)
    index.add(BinaryCodes.from_bits(rng.integers(0, 2, (5000, 64))))
    index.search(index.codes_of([1]), 1)
    assert len(index._compiled.members) == 0
    assert index._table is None
    index.save(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.npy")) == 5000 * 12 + 2 * 128


def test_one_code_that_half_of_all_share_does_not_fill_the_slots(rng, monkeypatch):
    bits = rng.integers(0, 2, (20_000, 64))
    bits[:8000] = bits[0]
    codes, index = BinaryCodes.from_bits(bits), BucketsIndex(64)
    index.add(codes)
    queries = codes[[0, 9000]]
    assert same(index.search(queries, 50), by_numpy(codes, monkeypatch, lambda exact: exact.search(queries, 50)))
    assert len(index._compiled.members) == 20_000


def test_removing_one_code_copies_nothing(rng):
    index = BucketsIndex(32)
    index.add(draw(rng, 10_000, 32))
    query = index.codes_of([17])
    assert 17 in index.search(query, 10_000).ids
    words, table = index._codes.words, index._compiled
    index.remove([17])
    assert np.shares_memory(index._codes.words, words)
    assert index._compiled is table
    assert 17 not in index.search(query, 10_000).ids
    assert len(index) == 9999


def test_ids_take_four_bytes_until_one_needs_eight(rng):
    index = ExactIndex(16)
    index.add(draw(rng, 10, 16), np.arange(10) + 2**32 - 10)
    assert index._codes.ids.itemsize == 4
    index.add(draw(rng, 1, 16), [2**32])
    assert index._codes.ids.itemsize == 8
    assert index.ids.tolist() == list(range(2**32 - 10, 2**32 + 1))
    assert index.contains([2**32, 2**32 + 1, 5]).tolist() == [True, False, False]


@pytest.mark.parametrize("allowed", [None, np.arange(0, 10_400, 3)])
def test_codes_added_after_the_table_was_built_are_found_without_a_new_one(rng, monkeypatch, allowed):
    codes, queries = draw(rng, 10_400, 32), draw(rng, 5, 32)
    index = BucketsIndex(32)
    index.add(codes[:10_000])
    index.search(queries, 1)
    table = index._compiled
    index.add(codes[10_000:])
    index.remove([17, 10_201])
    for found, call in (
        (index.search(queries, 30, allowed=allowed), lambda exact: exact.search(queries, 30, allowed=allowed)),
        (index.within(queries, 4, allowed=allowed), lambda exact: exact.within(queries, 4, allowed=allowed)),
    ):

        def after_removal(exact, call=call):
            exact.remove([17, 10_201])
            return call(exact)

        assert same(found, by_numpy(codes, monkeypatch, after_removal))
    assert index._compiled is table
