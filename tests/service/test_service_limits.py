"""Limits of size, time and number, and what happens at them."""

import http.client
import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from running_service import PATIENCE, form, png, running, until

from ddsh.search.local import write_lock
from ddsh.service import Settings

SMALL = Settings(max_upload_bytes=20_000, max_pixels=1000, max_k=5, encodes=1, waiting=0)


@pytest.fixture(scope="module")
def small(made):
    """A service with narrow limits."""
    with running(made, SMALL) as service:
        yield service


@pytest.fixture(scope="module")
def hasty(made):
    """A service that does not wait for long."""
    with running(made, Settings(timeout=0.4)) as service:
        yield service


def _raw(port, *parts, pause=0.0):
    """Send bytes as they are, and return what comes back until the other side hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


def test_a_file_that_is_too_large_is_refused(small):
    for n_bytes in (20_001, 25_000, 31_000, 59_000, 5_000_000):
        reply = small.post("/search", bytes(n_bytes)) if n_bytes < 60_000 else _declared(small, n_bytes)
        reply.refuses(413, "larger than 0.02 MB")
    small.ask("POST", "/search", *form(bytes(20_001))).refuses(413, "larger than")


def _declared(site, n_bytes):
    """Say that a huge body will come, and wait for leave to send it."""
    headers = {"Content-Length": str(n_bytes), "Expect": "100-continue"}
    return site.ask("POST", "/search", headers=headers)


def test_a_file_that_is_too_large_is_refused_though_nobody_said_how_large_it_is(small):
    small.post("/search", (bytes(1000) for _ in range(50))).refuses(413, "larger than")


def test_an_image_with_too_many_pixels_is_refused(small):
    small.post("/search?k=1", png(np.zeros((40, 40, 3), np.uint8))).refuses(413, "40 x 40 pixels", "1,000")


def test_more_images_than_the_limit_are_refused(small, photo):
    small.post("/search?k=6", photo).refuses(422, "k is 5 at most here; got 6")
    assert len(small.post("/search?k=5", photo).json["hits"]) == 5


def test_a_body_that_does_not_arrive_is_not_waited_for(hasty):
    head = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    received = _raw(hasty.port, head, b"some")
    assert received.startswith(b"HTTP/1.1 408 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2]) == {"error": "The image did not arrive in 0.4 seconds."}


@pytest.mark.parametrize("start", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_headers_that_do_not_arrive_are_not_waited_for(hasty, start):
    began = time.monotonic()
    assert _raw(hasty.port, start) == b""
    assert time.monotonic() - began > 0.3


def test_headers_of_a_second_request_are_not_waited_for_either(hasty):
    first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert _raw(hasty.port, first, b"GET /hea", pause=0.05).count(b"HTTP/1.1 ") == 1


def test_a_client_that_goes_away_is_no_bug(small, caplog):
    with caplog.at_level(logging.INFO):
        with socket.create_connection(("127.0.0.1", small.port)) as connection:
            connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nsome")
        until(lambda: b'route="/search",status="499"' in small.get("/metrics").body)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_uploads_beyond_those_that_may_wait_are_turned_away_and_the_next_one_is_not(small, photo):
    with closing(http.client.HTTPConnection("127.0.0.1", small.port, timeout=PATIENCE)) as connection:
        _hold_the_only_place(small, connection, photo)
    until(lambda: small.post("/search?k=1", photo).status == 200)


def _hold_the_only_place(small, connection, photo):
    connection.putrequest("POST", "/search?k=1")
    connection.putheader("Content-Length", str(len(photo)))
    connection.endheaders(photo[:10])  # it holds the only place until all of it is there
    until(lambda: small.post("/search?k=1", photo).status == 503)
    reply = small.post("/search?k=1", photo)
    reply.refuses(503, "Too many requests")
    assert int(reply.headers["retry-after"]) > 0
    assert small.get("/search?id=1&k=1").status == 200
    connection.send(photo[10:])
    assert connection.getresponse().status == 200


def test_many_uploads_at_the_same_time_are_all_answered_where_there_is_room(made, photo):
    with running(made, Settings(encodes=2, waiting=30)) as site, ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: site.post("/search?k=3", photo), range(32)))
    assert {reply.status for reply in replies} == {200}
    assert len({json.dumps(reply.json["hits"]) for reply in replies}) == 1


def test_searches_go_on_while_images_are_added_and_removed(index, photo):
    token = {"Authorization": "Bearer a-token-of-24-characters"}
    with running(index, Settings(token="a-token-of-24-characters")) as site:
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


def test_an_answer_that_takes_too_long_is_not_waited_for(index, photo):
    token = "a-token-of-24-characters"
    with running(index, Settings(token=token, timeout=0.02)) as site, write_lock(index, wait=0):
        reply = site.ask("POST", "/items", photo, {"Authorization": f"Bearer {token}"})
        reply.refuses(503, "0.02 seconds")
