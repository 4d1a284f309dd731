import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ddsh.index._matches import MAX_MATCHES, Matches, batches
from ddsh.index._scan import _sample, scan, search_radii


def words_of(rng, n_rows, n_words):
    return rng.integers(0, 1 << 64, (n_rows, n_words), np.uint64) & np.uint64(0x0F0F)


@given(n_rows=st.integers(1, 4000), size=st.integers(1, 4000), n_words=st.integers(1, 3))
def test_a_sample_is_as_large_as_asked_and_made_of_rows(n_rows, size, n_words):
    words = np.arange(n_rows * n_words, dtype=np.uint64).reshape(n_rows, n_words)
    sample = _sample(words, min(size, n_rows)).T
    assert min(size, n_rows) <= len(sample) <= n_rows
    assert np.isin(sample[:, 0], words[:, 0]).all()
    assert len(np.unique(sample[:, 0])) == len(sample)


def test_a_sample_comes_from_all_over():
    sample = _sample(np.arange(1_000_000, dtype=np.uint64)[:, None], 1000)[0]
    assert len(np.unique(sample // 100_000)) == 10


@given(n_rows=st.integers(0, 6000), k=st.integers(1, 400), radius=st.integers(0, 64), seed=st.integers(0, 20))
def test_the_reach_holds_the_nearest_and_no_more_than_the_radius(n_rows, k, radius, seed):
    rng = np.random.default_rng(seed)
    words, queries = words_of(rng, n_rows, 1), words_of(rng, 3, 1)
    radii = search_radii(words, queries, k, radius)
    for query, reached in zip(queries, radii, strict=True):
        distances = np.sort(np.bitwise_count(words[:, 0] ^ query[0]))
        furthest = distances[k - 1] if k <= n_rows else 64
        assert min(int(furthest), radius) <= reached <= radius


@given(expected=st.lists(st.integers(0, 2 * MAX_MATCHES), max_size=40))
def test_batches_follow_each_other_and_fit_into_memory(expected):
    parts = list(batches(np.array(expected)))
    rows = [row for part in parts for row in range(part.start, part.stop)]
    assert rows == list(range(len(expected)))
    for part in parts:
        assert part.stop - part.start == 1 or sum(expected[part]) <= MAX_MATCHES


def test_queries_that_all_find_everything_are_answered_a_few_at_a_time():
    words = np.zeros((MAX_MATCHES // 3, 1), np.uint64)
    sizes = []

    def collect(words, queries, radii):
        sizes.append(len(queries))
        return Matches.none()

    scan(words, np.zeros((10, 1), np.uint64), np.zeros(10, np.int64), 5, collect)
    assert sizes == [3, 3, 3, 1]
