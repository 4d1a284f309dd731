"""Server: header timeouts."""

import time

import pytest


@pytest.mark.parametrize("start", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_a_connection_whose_headers_do_not_arrive_is_closed(hasty, start):
    began = time.monotonic()
    assert hasty.send(start) == b""
    assert time.monotonic() - began > 0.3


def test_a_connection_whose_second_headers_do_not_arrive_is_closed(hasty):
    first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert hasty.send(first, b"GET /hea", pause=0.05).count(b"HTTP/1.1 ") == 1
