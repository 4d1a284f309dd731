"""Server: listening socket and header timeouts."""

import socket
import time

import pytest

from ddsh.service.server import listen


def test_an_accepted_connection_names_tcp_so_that_asyncio_sends_responses_without_delay():
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("start", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_a_connection_whose_headers_do_not_arrive_is_closed(hasty, start):
    began = time.monotonic()
    assert hasty.send(start) == b""
    assert time.monotonic() - began > 0.3


def test_a_connection_whose_second_headers_do_not_arrive_is_closed(hasty):
    first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert hasty.send(first, b"GET /hea", pause=0.05).count(b"HTTP/1.1 ") == 1
