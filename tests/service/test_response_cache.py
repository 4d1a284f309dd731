"""In-memory caches."""

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from ddsh.service.response_cache import MIN_SECONDS, ExpiringValue, cache_bytes


def test_a_value_is_computed_again_after_it_was_cleared():
    calls = []
    value = ExpiringValue(lambda: calls.append(1) or len(calls))
    assert [value.get(), value.get()] == [1, 1]
    value.clear()
    assert value.get() == 2


def test_several_threads_compute_a_value_once():
    calls = []

    def compute():
        time.sleep(0.02)
        calls.append(1)

    value = ExpiringValue(compute)
    threads = [threading.Thread(target=value.get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def test_an_expired_value_is_computed_again(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ddsh.service.response_cache.time.monotonic", lambda: now[0])
    calls = []
    value = ExpiringValue(lambda: calls.append(1) or len(calls))
    for moment, expected in ((0.0, 1), (MIN_SECONDS, 1), (MIN_SECONDS + 0.1, 2)):
        now[0] = moment
        assert value.get() == expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 140)), max_size=40))
def test_cached_results_are_correct_and_never_exceed_the_byte_limit(steps):
    make = cache_bytes(100, key=lambda name, size: (name, size))(lambda name, size: bytes(size))
    for name, size in steps:
        assert make(name, size) == bytes(size)
        assert sum(map(len, make.cache.values())) == make.cache.currsize <= 100


def test_the_most_recently_used_results_stay_cached():
    calls = []

    @cache_bytes(100, key=lambda name: name)
    def make(name):
        calls.append(name)
        return bytes(40)

    for name in "abaca":
        make(name)
    assert calls == ["a", "b", "c"]
    make("b")
    assert calls == ["a", "b", "c", "b"]


def test_a_result_larger_than_the_cache_is_returned():
    make = cache_bytes(10, key=lambda size: size)(bytes)
    assert make(1000) == bytes(1000)
