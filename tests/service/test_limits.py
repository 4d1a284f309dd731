"""Thread pools with bounded queues, alone and in a running service."""

import asyncio
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress

import pytest
from fastapi import HTTPException

from ddsh.service import Settings
from ddsh.service.limits import BoundedPool, Bytes

PATIENCE = 60
TOKEN = "a-token-of-24-characters"


def test_a_pool_never_runs_more_calls_than_allowed_and_refuses_the_rest():
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
        pool = BoundedPool(n_threads=2, n_waiting=3, timeout=10)
        inside = [asyncio.create_task(pool.run_in_slot(work)) for _ in range(5)]
        await asyncio.sleep(0.05)
        with pytest.raises(HTTPException) as caught:
            await pool.run_in_slot(work)
        release.set()
        answers = await asyncio.gather(*inside)
        again = await pool.run_in_slot(lambda: "again")
        pool.close()
        return answers, again, caught.value.status_code

    assert asyncio.run(visit()) == (["done"] * 5, "again", 503)
    assert most == 2


def test_a_call_that_times_out_keeps_its_thread_and_one_that_times_out_waiting_never_starts():
    release, begun = threading.Event(), []

    async def visit():
        pool = BoundedPool(n_threads=1, n_waiting=1, timeout=1)
        slow = asyncio.create_task(pool.run_in_slot(lambda: release.wait(30)))
        await asyncio.sleep(0.01)
        waits = asyncio.create_task(pool.run_in_slot(lambda: begun.append(1)))
        outcomes = await asyncio.gather(slow, waits, return_exceptions=True)
        release.set()
        after = await pool.run_in_slot(lambda: "after")
        pool.close()
        return [type(outcome) for outcome in outcomes], after

    assert asyncio.run(visit()) == ([HTTPException, HTTPException], "after")
    assert begun == []


def test_an_exception_reaches_the_caller_and_frees_the_slot():
    async def visit():
        pool = BoundedPool(n_threads=1, n_waiting=0, timeout=5)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await pool.run_in_slot(lambda: 1 // 0)
        pool.close()

    asyncio.run(visit())


def test_uploads_beyond_the_queue_are_refused_until_a_slot_is_free(until, small, photo, monkeypatch):
    service, release = small.app.state.service, threading.Event()
    decode = service.decoder.decode
    monkeypatch.setattr(service.decoder, "decode", lambda data: release.wait(PATIENCE) and decode(data))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(small.post, "/search?k=1", photo)
        until(lambda: service.encoding.n_requests == 1)
        reply = small.post("/search?k=1", photo)
        reply.refuses(503, "Too many requests")
        assert int(reply.headers["retry-after"]) > 0
        assert small.get("/search?id=1&k=1").status == 200
        release.set()
        assert first.result().status == 200
    assert small.post("/search?k=1", photo).status == 200


def _begin_upload(site, size, sent=b""):
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    connection.putrequest("POST", "/search?k=1")
    connection.putheader("Content-Length", str(size))
    connection.endheaders(sent)
    return closing(connection)


def test_clients_that_send_nothing_do_not_keep_others_from_uploading(small, photo):
    with ExitStack() as stack:
        slow = [stack.enter_context(_begin_upload(small, len(photo), photo[:10])) for _ in range(20)]
        assert [small.post("/search?k=1", photo).status for _ in range(5)] == [200] * 5
        slow[7].send(photo[10:])
        assert slow[7].getresponse().status == 200


def test_uploads_beyond_the_memory_for_them_are_refused_until_there_is_room(until, small, photo):
    with _begin_upload(small, 30_000, bytes(29_999)):  # of the 30,000 bytes there are
        until(lambda: small.post("/search?k=1", photo).status == 503)
        small.post("/search?k=1", photo).refuses(503, "Too many uploads")
    until(lambda: small.post("/search?k=1", photo).status == 200)


def test_bytes_are_free_again_after_a_request_whatever_happened():
    memory = Bytes(10)
    for error in (None, ValueError(), asyncio.CancelledError()):
        with suppress(ValueError, asyncio.CancelledError), memory.reserved() as hold:
            hold(6)
            hold(4)
            if error is not None:
                raise error
    with memory.reserved() as hold, memory.reserved() as hold_other:
        hold(10)
        with pytest.raises(HTTPException, match="503"):
            hold_other(1)


def test_concurrent_uploads_within_the_queue_are_all_answered(run_service, shared_index, photo):
    with run_service(shared_index, Settings(workers=2, max_waiting=30)) as site, ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: site.post("/search?k=3", photo), range(32)))
    assert {reply.status for reply in replies} == {200}
    assert len({json.dumps(reply.json["hits"]) for reply in replies}) == 1


def test_searches_go_on_while_images_are_added_and_removed(run_service, index, photo):
    token = {"Authorization": f"Bearer {TOKEN}"}
    with run_service(index, Settings(token=TOKEN)) as site:
        stop = threading.Event()
        seen = set()

        def look():
            while not stop.is_set():
                seen.add(site.post("/search?k=1", photo).status)

        thread = threading.Thread(target=look)
        thread.start()
        for _ in range(5):
            number = site.ask("POST", "/items", photo, token).json["id"]
            assert site.ask("DELETE", f"/items/{number}", headers=token).status == 200
        stop.set()
        thread.join(PATIENCE)
    assert seen == {200}


def test_a_request_that_takes_too_long_gets_503(lock_index, run_service, index, photo):
    with run_service(index, Settings(token=TOKEN, timeout=0.02)) as site, lock_index(index):
        reply = site.ask("POST", "/items", photo, {"Authorization": f"Bearer {TOKEN}"})
        reply.refuses(503, "0.02 seconds")
