"""Connections: their number is limited, and none stays open for ever."""

import contextlib
import http.client
import socket
import time

import pytest

from ddsh.service import Settings

PATIENCE = 60
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def _connect(port, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0))


def _read_all(connection):
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def test_a_body_that_goes_on_after_the_response_is_cut_off(hasty):
    with _connect(hasty.port) as connection:
        connection.sendall(HEALTH + b"Content-Length: 100000000\r\n\r\nx")
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < began + PATIENCE:
                connection.sendall(b"y")
                time.sleep(0.05)
        assert time.monotonic() < began + PATIENCE


def test_a_client_that_never_reads_is_disconnected(run_service, index, tmp_path, until):
    import numpy as np
    from PIL import Image

    big = tmp_path / "big.bmp"
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(big)
    with run_service(index, Settings(timeout=0.4)) as site:
        number = site.search.add(big).added[0]
        with big.open("ab") as file:
            file.write(bytes(30_000_000))  # far more than the buffers of a connection hold
        with _connect(site.port) as connection:
            connection.sendall(f"GET /images/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            time.sleep(2)
            received = _read_all(connection)
        assert 0 < len(received) < 30_000_000
        assert site.get(f"/images/{number}").body == big.read_bytes()


def test_connections_of_one_client_are_limited_and_others_still_get_in(run_service, shared_index):
    limits = Settings(max_connections=100, max_connections_per_client=10)
    with run_service(shared_index, limits) as site, contextlib.ExitStack() as stack:
        greedy = [stack.enter_context(_connect(site.port, "127.0.0.2")) for _ in range(200)]
        answers = [_read_all(connection) for connection in greedy[10:]]
        assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
        assert b'{"error": "Too many connections from this address' in answers[0]
        assert site.get("/health").status == 200


def test_connections_are_limited_in_all_and_free_again_when_they_are_closed(run_service, shared_index, until):
    with run_service(shared_index, Settings(max_connections=4)) as site:
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(_connect(site.port))
            reply = site.get("/health")
            reply.refuses(503, "Too many connections")
            assert int(reply.headers["retry-after"]) > 0
        until(lambda: site.get("/health").status == 200)


def test_a_thousand_silent_connections_are_gone_after_a_while(run_service, shared_index, until):
    settings = Settings(timeout=0.4, max_connections=300, max_connections_per_client=300)
    with run_service(shared_index, settings) as site, contextlib.ExitStack() as stack:
        for _ in range(1000):
            with contextlib.suppress(ConnectionError):
                stack.enter_context(_connect(site.port)).sendall(HEALTH + b"Content-Length: 9\r\n\r\nx")
        until(lambda: site.get("/health").status == 200)


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b"\x16\x03\x01\r\n\r\n"]
)
def test_what_is_not_http_gets_an_error_in_json(site, sent):
    with _connect(site.port) as connection:
        connection.sendall(sent)
        head, _, body = _read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/json" in head
    assert body.startswith(b'{"error": "Invalid HTTP request')


def test_a_broken_chunk_in_an_upload_gets_an_error_and_the_service_goes_on(site):
    with _connect(site.port) as connection:
        connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert _read_all(connection).startswith(b"HTTP/1.1 400 ")
    assert site.get("/health").status == 200


def test_two_requests_on_one_connection_are_answered(site):
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        for _ in range(2):
            connection.request("GET", "/health")
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b'{"status":"ok"}')


def _half_closed(site, sent):
    """Send bytes, say that there will be no more, and return what comes back."""
    with _connect(site.port) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return _read_all(connection)


def _upload(photo, form):
    body, headers = form(photo)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


def test_a_client_that_sends_nothing_more_is_answered_and_disconnected(site, photo, form):
    upload = _upload(photo, form)
    for sent, n_answers in ((HEALTH + b"\r\n", 1), (upload, 1), (upload + HEALTH + b"\r\n" + upload, 3)):
        assert _half_closed(site, sent).count(b"HTTP/1.1 200 OK\r\n") == n_answers


def test_a_client_that_sends_nothing_more_within_a_request_is_disconnected(site, photo, form):
    for sent in (b"", HEALTH, _upload(photo, form)[:-1]):
        assert _half_closed(site, sent) == b""
    assert _half_closed(site, HEALTH + b"\r\n" + HEALTH).count(b"HTTP/1.1 200 OK\r\n") == 1
    assert site.get("/health").status == 200
