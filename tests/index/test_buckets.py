from itertools import combinations
from math import comb
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.index import BucketsIndex, ExactIndex, _engine, _hashtable
from ddsh.index._codes_by_id import to_words
from ddsh.index._hashtable import HashTable, KeyMaker


@pytest.fixture(autouse=True)
def _numpy(monkeypatch):
    """Search with NumPy; the compiled tables have tests of their own."""
    monkeypatch.setattr(_engine, "_module", None)
    monkeypatch.setattr(_engine, "_loader", Thread())


def some_words(rng, n_rows, n_bits):
    return to_words(BinaryCodes.from_bits(rng.integers(0, 2, (n_rows, n_bits))))


def same(found, expected):
    return all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("ids", "distances"))


@pytest.fixture
def many(rng):
    """Codes of 16 bits, so many that probing up to three bits away costs less than a scan."""
    return BinaryCodes.from_bits(rng.integers(0, 2, (60_000, 16)))


@pytest.fixture
def truth(many):
    index = ExactIndex(16)
    index.add(many)
    return index


@pytest.fixture
def index(many):
    index = BucketsIndex(16)
    index.add(many)
    return index


@settings(max_examples=25)
@given(n_bits=st.integers(1, 40), seed=st.integers(0, 50))
def test_flipping_bits_changes_a_key_as_the_flips_say(n_bits, seed):
    rng = np.random.default_rng(seed)
    maker = KeyMaker.seeded(n_bits, seed)
    bits = rng.integers(0, 2, (1, n_bits))
    for size in (0, 1, 2):
        flipped = [bits[0] ^ np.isin(np.arange(n_bits), chosen) for chosen in combinations(range(n_bits), size)]
        if flipped:
            expected = maker.keys(to_words(BinaryCodes.from_bits(np.array(flipped))))
            keys = maker.keys(to_words(BinaryCodes.from_bits(bits))) ^ maker.flips(size)
            assert np.array_equal(np.sort(keys), np.sort(expected))


def test_the_numbers_leave_no_part_of_a_key_empty(rng):
    keys = np.sort(KeyMaker.seeded(64, 0).keys(some_words(rng, 100_000, 64)))
    for part in (keys >> np.uint64(48), keys & np.uint64(0xFFFF)):
        assert len(np.unique(part)) > 0.75 * 65_536


@pytest.mark.parametrize(("k", "n_queries"), [(1, 300), (3, 40), (20, 40), (200, 40), (2000, 10), (59_000, 2)])
def test_probing_finds_the_same_as_the_scan(index, truth, many, k, n_queries):
    assert same(index.search(many[:n_queries], k), truth.search(many[:n_queries], k))


@pytest.mark.parametrize("radius", [0, 1, 2, 3, 4, 16])
def test_probing_a_radius_finds_the_same_as_the_scan(index, truth, many, radius):
    assert same(index.within(many[:5], radius), truth.within(many[:5], radius))


def test_probes_are_made_as_long_as_they_cost_less_than_a_scan(rng):
    table = HashTable.build(some_words(rng, 60_000, 16), 16)
    assert table._levels_to_probe(10, 16) == 4
    assert table._levels_to_probe(None, 3) == 4
    assert table._levels_to_probe(None, 10) == 0
    small = HashTable.build(some_words(rng, 20, 16), 16)
    assert small._levels_to_probe(10, 16) == 0


def test_a_filter_is_heeded_while_probing(index, truth, many, rng):
    for count in (50, 5000, 50_000):
        allowed = rng.permutation(60_000)[:count]
        asked = many[:100]
        assert same(index.search(asked, 20, allowed=allowed), truth.search(asked, 20, allowed=allowed))
        assert same(index.within(asked, 2, allowed=allowed), truth.within(asked, 2, allowed=allowed))


def test_codes_added_after_the_table_was_built_are_found(index, truth, many, rng):
    index.search(many[:1], 1)
    table = index._table
    more = BinaryCodes.from_bits(rng.integers(0, 2, (5000, 16)))
    for one in (index, truth):
        one.add(more)
    allowed = np.arange(0, 65_000, 2)
    assert same(index.search(more[:50], 20), truth.search(more[:50], 20))
    assert same(index.search(more[:50], 20, allowed=allowed), truth.search(more[:50], 20, allowed=allowed))
    assert index._table is table


def test_the_table_is_built_anew_when_an_eighth_was_added(index, truth, many):
    index.search(many[:1], 1)
    table = index._table
    for one in (index, truth):
        one.add(many[:8000])
    assert same(index.search(many[:9], 20), truth.search(many[:9], 20))
    assert index._table is not table
    assert len(index._table.members) == 68_000


def test_codes_removed_after_the_table_was_built_are_not_found(index, truth, many, rng):
    index.search(many[:1], 1)
    for one in (index, truth):
        one.add(many[:100])
    n_buckets = len(index._table)
    gone = rng.permutation(60_100)[:20_000]
    for one in (index, truth):
        one.remove(gone)
    assert same(index.search(many[:50], 20), truth.search(many[:50], 20))
    assert same(index.search(many[:3], 30_000), truth.search(many[:3], 30_000))
    assert len(index._table) == n_buckets


def test_the_table_is_built_anew_when_most_buckets_are_empty(index, truth, many):
    index.search(many[:1], 1)
    n_buckets = len(index._table)
    for one in (index, truth):
        one.remove(np.arange(50_000))
    assert same(index.search(many[:50], 20), truth.search(many[:50], 20))
    assert len(index._table) < n_buckets / 2


def test_the_table_is_saved_and_mapped(many, tmp_path):
    codes = BinaryCodes(many.packed[:, :1].copy(), 8)
    index, truth = BucketsIndex(8), ExactIndex(8)
    for one in (index, truth):
        one.add(codes)
    index.save(tmp_path / "index")
    opened = BucketsIndex.load(tmp_path / "index")
    table = opened._table
    assert not table.members.flags.writeable
    assert same(opened.search(codes[:9], 20), truth.search(codes[:9], 20))
    assert opened._table is table
    opened.remove([0, 5])
    truth.remove([0, 5])
    assert same(opened.search(codes[:9], 20), truth.search(codes[:9], 20))


def test_a_table_of_codes_that_are_mostly_different_is_not_saved(index, tmp_path):
    index.save(tmp_path / "index")
    assert len(list((tmp_path / "index").glob("*.npy"))) == 2
    assert BucketsIndex.load(tmp_path / "index")._table is None


def test_numbers_that_give_two_codes_one_key_are_noticed():
    words = np.array([[1], [2], [4], [1]], np.uint64)
    assert HashTable.with_keys(words, KeyMaker(np.array([5, 6, 7], np.uint64))).separates(words)
    assert not HashTable.with_keys(words, KeyMaker(np.array([5, 5, 7], np.uint64))).separates(words)


def test_codes_that_share_a_key_by_chance_are_told_apart():
    # Of more than 64 numbers of 64 bits, some cancel each other: a code with just those bits has the key of zero.
    numbers = KeyMaker.seeded(65, 0).numbers
    basis = {}
    for bit, number in enumerate(numbers.tolist()):
        chosen = 1 << bit
        while number and number.bit_length() in basis:
            other, others_bits = basis[number.bit_length()]
            number, chosen = number ^ other, chosen ^ others_bits
        if not number:
            break
        basis[number.bit_length()] = number, chosen
    words = np.array([[0, 0], [chosen % 2**64, chosen >> 64]], np.uint64)
    assert KeyMaker(numbers).keys(words).tolist() == [0, 0]
    table = HashTable.build(words, 65)
    assert len(table) == 2
    assert table.find(words, 1, 65).row.tolist() == [0, 1]


def test_flips_that_share_a_key_find_nothing_twice_and_nothing_wrong():
    # Flipping bits 0 and 1, or bits 2 and 3, leaves the key as it is.
    numbers = np.random.default_rng(0).integers(0, 1 << 64, 16, np.uint64)
    numbers[1], numbers[3] = numbers[0], numbers[2]
    words = np.arange(0b0101, 1 << 16, 16, dtype=np.uint64)[:, None]
    table = HashTable.with_keys(words, KeyMaker(numbers))
    assert table.separates(words)
    query = np.array([[0b0110]], np.uint64)
    assert len(table._probe(query, 0)) == 0
    assert table.buckets[table._probe(query, 2).row, 0].tolist() == [0b0101]
    assert table._probe(words[:1], 2).distance.tolist() == [2] * comb(12, 2)


def test_the_size_of_an_index_grows_by_its_table(index, many):
    codes = index.nbytes
    assert codes == 12 * len(many)
    index.search(many[:1], 1)
    assert index.nbytes == codes + sum(array.nbytes for array in index._table.to_arrays().values())


@pytest.mark.parametrize(
    ("n_codes", "k", "radius", "n_levels"),
    [
        (4384, 10, 16, 3),  # 1 + 16 + 120 probes cost as much as comparing half of the codes
        (4383, 10, 16, 2),
        (2192, None, 2, 3),  # and those of all within two bits as much as comparing all
        (2191, None, 2, 0),
        (2192, None, 3, 0),
        (4384, 10, 1, 2),
    ],
)
def test_probes_may_cost_so_much_and_no_more(n_codes, k, radius, n_levels):
    table = HashTable.build(np.arange(n_codes, dtype=np.uint64)[:, None], 16)
    assert table._levels_to_probe(k, radius) == n_levels


@pytest.mark.parametrize("n_codes", [1000, 1023, 1024])
def test_the_filter_passes_every_key_of_the_table_and_few_others(rng, n_codes):
    table = HashTable.build(np.arange(n_codes, dtype=np.uint64)[:, None], 32)
    assert 8 * len(table.filter) == 32 * 2 ** n_codes.bit_length()
    others = rng.integers(0, 1 << 64, 100_000, np.uint64)
    first, last = _hashtable._first_bits, _hashtable._last_bits
    passed = [table._has_bit(first, keys) & table._has_bit(last, keys) for keys in (table.by_key[0], others)]
    assert passed[0].all()
    assert 0 < passed[1].mean() < 1 / 200
    assert np.bitwise_count(table.filter).sum() > 1.9 * n_codes


@pytest.mark.parametrize("n_buckets", [30, 31])
def test_a_table_survives_its_arrays_and_others_are_refused(rng, n_buckets):
    words = np.repeat(some_words(rng, n_buckets, 70), 3, axis=0)
    table = HashTable.build(words, 70)
    arrays = table.to_arrays()
    for old in (arrays, arrays | {name: arrays[name].astype(np.int64) for name in ("starts", "members")}):
        restored = HashTable.from_arrays(old, words, 70)
        assert restored.starts.dtype == restored.members.dtype == np.uint32
        assert np.array_equal(restored.find(words, 5, 70).row, table.find(words, 5, 70).row)
    for name, array in arrays.items():
        for wrong in (array[1:], array.astype(np.float64), array[..., None]):
            with pytest.raises(
                InvalidInput, match=rf"the table of buckets is not one of {3 * n_buckets} codes of 70 bits"
            ):
                HashTable.from_arrays(arrays | {name: wrong}, words, 70)


@given(seed=st.integers(0, 1000), n_codes=st.integers(1, 60))
def test_a_table_may_lose_rows_get_other_numbers_and_another_order(seed, n_codes):
    rng = np.random.default_rng(seed)
    words = some_words(rng, n_codes, 5)
    table = HashTable.build(words, 5)
    assert table.is_compact == (2 * len(np.unique(words)) <= n_codes)
    kept, order = rng.random(n_codes) < 0.6, rng.permutation(len(table))
    rows = rng.permutation(n_codes)
    changed = table.restricted(kept).reordered(order)
    assert np.array_equal(changed.buckets, table.buckets[order])
    for bucket, code in enumerate(changed.buckets[:, 0]):
        members = changed.members[changed.starts[bucket] : changed.starts[bucket + 1]]
        assert members.tolist() == np.flatnonzero(kept & (words[:, 0] == code)).tolist()
    assert changed.renumbered(rows).members.tolist() == rows[changed.members].tolist()
    assert table.reordered(np.arange(len(table))) is table


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), k=st.sampled_from([None, 1, 7, 40]), radius=st.integers(0, 12))
def test_a_table_finds_what_its_definition_says(seed, k, radius):
    rng = np.random.default_rng(seed)
    words, queries = some_words(rng, 400, 12)[rng.integers(0, 400, 900)], some_words(rng, 4, 12)
    found = HashTable.build(words, 12).find(queries, k, radius)
    distances = np.bitwise_count(queries[:, None, 0] ^ words[None, :, 0]).astype(int)
    expected = []
    for query, near in enumerate(distances):
        order = np.lexsort((np.arange(900), near))
        expected += [(query, row, near[row]) for row in order[near[order] <= radius][:k].tolist()]
    assert list(zip(found.query.tolist(), found.row.tolist(), found.distance.tolist(), strict=True)) == expected


def test_so_many_keys_are_looked_up_at_a_time_that_memory_stays_small(rng, monkeypatch):
    asked, look_up = [], HashTable._has_bit

    def counted(table, point, keys):
        asked.append(keys.size)
        return look_up(table, point, keys)

    monkeypatch.setattr(HashTable, "_has_bit", counted)
    words = some_words(rng, 600, 16)
    table = HashTable.build(words, 16)
    assert len(table._probe(words, 0)) >= 600
    assert asked[0] == 600
    asked.clear()
    table._probe(words, 2)
    n_flips = comb(16, 2)
    assert sorted(asked)[-2:] == [2**15 // n_flips * n_flips] * 2
    assert sum(asked[::2]) == 600 * n_flips
