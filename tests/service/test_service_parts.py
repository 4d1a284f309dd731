"""Gates, memory, forms and settings by themselves."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running_service import form

from ddsh.errors import DdshError, InvalidInput
from ddsh.service import Settings, find_token
from ddsh.service.answers import N_LABELS, Facts
from ddsh.service.forms import BadForm, file_of_form
from ddsh.service.gates import Gate
from ddsh.service.memory import BytesCache, Remembered
from ddsh.service.problems import Problem

TOKEN = "a-token-of-24-characters"


def test_a_gate_never_lets_more_work_run_than_allowed_and_turns_the_rest_away():
    lock, release = threading.Lock(), threading.Event()
    running, most = 0, 0

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait(10)
        with lock:
            running -= 1
        return "done"

    async def visit():
        gate = Gate(running=2, waiting=3, seconds=10)
        inside = [asyncio.create_task(gate.do(work)) for _ in range(5)]
        await asyncio.sleep(0.05)
        with pytest.raises(Problem, match="Too many requests") as caught:
            await gate.do(work)
        release.set()
        answers = await asyncio.gather(*inside)
        again = await gate.do(lambda: "again")
        gate.close()
        return answers, again, caught.value.status

    assert asyncio.run(visit()) == (["done"] * 5, "again", 503)
    assert most == 2


def test_work_that_takes_too_long_keeps_its_thread_and_what_waited_in_vain_is_never_begun():
    release, begun = threading.Event(), []

    async def visit():
        gate = Gate(running=1, waiting=1, seconds=0.1)
        slow = asyncio.create_task(gate.do(lambda: release.wait(10)))
        await asyncio.sleep(0.01)
        waits = asyncio.create_task(gate.do(lambda: begun.append(1)))
        outcomes = await asyncio.gather(slow, waits, return_exceptions=True)
        release.set()
        after = await gate.do(lambda: "after")
        gate.close()
        return [type(outcome) for outcome in outcomes], after

    assert asyncio.run(visit()) == ([Problem, Problem], "after")
    assert begun == []


def test_an_error_in_the_work_reaches_the_request_and_frees_the_place():
    async def visit():
        gate = Gate(running=1, waiting=0, seconds=5)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await gate.do(lambda: 1 // 0)
        gate.close()

    asyncio.run(visit())


def test_what_is_remembered_is_asked_again_when_it_was_forgotten():
    asked = []
    remembered = Remembered(lambda: asked.append(1) or len(asked))
    assert [remembered.get(), remembered.get()] == [1, 1]
    remembered.forget()
    assert remembered.get() == 2


def test_many_threads_ask_once():
    asked = []

    def ask():
        time.sleep(0.02)
        asked.append(1)

    remembered = Remembered(ask)
    threads = [threading.Thread(target=remembered.get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == [1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=40))
def test_a_cache_returns_what_was_made_and_never_holds_more_than_it_may(steps):
    cache = BytesCache(100)
    for key, size in steps:
        value = cache.get(f"{key}-{size}", lambda size=size: bytes(size))
        assert value == bytes(size)
        assert sum(map(len, cache._values.values())) == cache._n_bytes <= 100


def test_a_cache_keeps_what_was_used_last():
    cache, made = BytesCache(100), []

    def make():
        made.append(1)
        return bytes(40)

    for key in ("a", "b", "a", "c", "a"):
        cache.get(key, make)
    assert len(made) == 3
    cache.get("b", make)
    assert len(made) == 4


@given(st.binary(max_size=300))
def test_a_file_comes_out_of_a_form_as_it_went_in(data):
    body, headers = form(data)
    assert file_of_form(headers["Content-Type"], body, "image") == data


@given(st.binary(max_size=100), st.integers(1, 60))
def test_a_form_that_is_cut_short_is_refused(data, n_missing):
    body, headers = form(data)
    with pytest.raises(BadForm):
        file_of_form(headers["Content-Type"], body[: -min(n_missing + 4, len(body))], "image")


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=x"]
)
def test_a_form_without_its_separator_is_refused(kind):
    with pytest.raises(BadForm):
        file_of_form(kind, form(b"data")[0], "image")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"encodes": 0}, "encodes"),
        ({"waiting": -1}, "waiting"),
        ({"max_upload_bytes": 0}, "max_upload_bytes"),
        ({"max_pixels": 200_000_000}, "100,000,000 at most"),
        ({"max_k": 0}, "max_k"),
        ({"token": "short"}, "16 or more"),
        ({"token": "with spaces in the middle"}, "without spaces"),
        ({"token": "tökentökentökentöken"}, "16 or more"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong, word):
    with pytest.raises(InvalidInput, match=word):
        Settings(**wrong)


def test_the_token_is_not_shown():
    assert TOKEN not in repr(Settings(token=TOKEN))
    with pytest.raises(InvalidInput) as caught:
        Settings(token="too-short")
    assert "too-short" not in str(caught.value)


def test_the_token_comes_from_the_file_or_from_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert find_token({"DDSH_TOKEN": "another-of-24-characters"}, file) == TOKEN
    assert find_token({"DDSH_TOKEN": TOKEN}, None) == TOKEN
    assert find_token({"DDSH_TOKEN": ""}, None) is None
    assert find_token({}, None) is None


@pytest.mark.parametrize("content", [None, "", "short", b"\xff" * 20], ids=["missing", "empty", "short", "no text"])
def test_a_token_file_without_a_token_is_refused(tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DdshError, match="token") as caught:
        find_token({}, file)
    assert str(file) in str(caught.value)


def test_of_very_many_labels_the_most_frequent_are_listed(site):
    labels = {f"label {number:05d}": 1 + number // 10 for number in range(5000)}
    facts = Facts.of(replace(site.search.info(), labels=labels), Settings())
    assert (facts.n_labels, len(facts.labels)) == (5000, N_LABELS)
    assert min(facts.labels.values()) >= max(count for name, count in labels.items() if name not in facts.labels)
