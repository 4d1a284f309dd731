"""Uploads: size limits, timeouts and multipart forms."""

import json
import logging
import socket

import numpy as np
import pytest
from fastapi import HTTPException
from hypothesis import given
from hypothesis import strategies as st

from ddsh.service.uploads import file_from_form


def test_a_file_that_is_too_large_is_refused(form, small):
    for n_bytes in (20_001, 25_000, 31_000, 59_000, 5_000_000):
        reply = small.post("/search", bytes(n_bytes)) if n_bytes < 60_000 else _declared(small, n_bytes)
        reply.refuses(413, "larger than the limit of 0.02 MB")
    small.ask("POST", "/search", *form(bytes(20_001))).refuses(413, "larger than")


def _declared(site, n_bytes):
    """Declare a huge body and wait for permission to send it."""
    headers = {"Content-Length": str(n_bytes), "Expect": "100-continue"}
    return site.ask("POST", "/search", headers=headers)


def test_a_file_that_is_too_large_is_refused_without_a_declared_length(small):
    small.post("/search", (bytes(1000) for _ in range(50))).refuses(413, "larger than")


def test_an_image_with_too_many_pixels_is_refused(png, small):
    small.post("/search?k=1", png(np.zeros((40, 40, 3), np.uint8))).refuses(413, "40 x 40 pixels", "1,000")


def test_a_body_that_does_not_arrive_gets_408(hasty):
    head = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    received = hasty.send(head, b"some")
    assert received.startswith(b"HTTP/1.1 408 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2]) == {
        "error": "The request body did not arrive within 0.4 seconds."
    }


def test_a_client_that_disconnects_is_not_logged_as_an_error(until, small, caplog):
    with caplog.at_level(logging.INFO):
        with socket.create_connection(("127.0.0.1", small.port)) as connection:
            connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nsome")
        until(lambda: b'route="/search",status="499"' in small.get("/metrics").body)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_form_with_other_fields_or_without_the_image_is_refused(form, site, photo):
    site.ask("POST", "/search", *form(photo, field="picture")).refuses(422, "'image'")
    site.ask("POST", "/search", *form(photo, k="3")).refuses(422, "?k=20")
    site.post("/search", photo, **{"Content-Type": "multipart/form-data"}).refuses(422, "form")
    cut = form(photo)[0][:200]
    site.ask("POST", "/search", cut, form(photo)[1]).refuses(422, "form")


@given(st.binary(max_size=300))
def test_the_file_of_a_form_is_read_unchanged(form, data):
    body, headers = form(data)
    assert file_from_form(headers["Content-Type"], body) == data


@given(st.binary(max_size=100), st.integers(1, 60))
def test_a_truncated_form_is_refused(form, data, n_missing):
    body, headers = form(data)
    with pytest.raises(HTTPException, match="422"):
        file_from_form(headers["Content-Type"], body[: -min(n_missing + 4, len(body))])


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=x"]
)
def test_a_form_without_a_boundary_is_refused(form, kind):
    with pytest.raises(HTTPException, match="422"):
        file_from_form(kind, form(b"data")[0])


def test_a_form_field_without_a_file_name_is_read_too():
    body = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\ndata\r\n--x--\r\n'
    assert file_from_form("multipart/form-data; boundary=x", body) == b"data"


def test_a_large_form_is_read_without_temporary_files(form, monkeypatch):
    monkeypatch.setattr("tempfile.NamedTemporaryFile", None)
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    data = bytes(3_000_000)
    body, headers = form(data)
    assert file_from_form(headers["Content-Type"], body) == data


def test_a_form_of_very_many_fields_is_refused_at_once(site):
    field = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n\r\n'
    body = field * 200_000 + b"--x--\r\n"
    site.post("/search", body, **{"Content-Type": "multipart/form-data; boundary=x"}).refuses(422, "exactly one field")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ('Content-Disposition: form-data; name="image"\r\nContent-Transfer-Encoding: base64', "cannot be parsed"),
        ("Content-Type: image/png", "exactly one field"),
        (f"A: {'b' * 20_000}", "cannot be parsed"),
    ],
)
def test_a_form_that_browsers_do_not_send_is_refused(head, words):
    body = f"--x\r\n{head}\r\n\r\ndata\r\n--x--\r\n".encode()
    with pytest.raises(HTTPException) as raised:
        file_from_form("multipart/form-data; boundary=x", body)
    assert words in raised.value.detail
