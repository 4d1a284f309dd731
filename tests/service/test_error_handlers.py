"""Errors are one line of JSON."""

import io
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddsh.service import Settings


@pytest.mark.parametrize(
    ("address", "status", "word"),
    [
        ("/search", 422, "give id or query, one of them."),
        ("/search?id=x", 422, "integer"),
        ("/search?id=-1", 422, "id"),
        ("/search?id=1e400", 422, "id"),
        ("/search?id=99999999999999999999999999", 422, "id"),
        ("/search?id=123456", 404, "No image has the id 123456"),
        ("/search?id={id}&k=0", 422, "k: "),
        ("/search?id={id}&k=-5", 422, "k: "),
        ("/search?id={id}&k=1001", 422, "k must be 1,000 at most"),
        ("/search?id={id}&k=ten", 422, "'ten'"),
        ("/search?id={id}&radius=-1", 422, "radius"),
        ("/search?id={id}&radius=99999", 422, "radius"),
        ("/search?id={id}&label=gren", 422, "Did you mean 'green'?"),
        ("/search?id={id}&label=", 422, "label"),
        ("/search?id={id}&label=" + 1000 * "x", 422, "label"),
        ("/search?id={id}&raduis=3", 422, "unknown parameter raduis"),
        ("/search?id={id}&by=name", 422, "by"),
        ("/search?id={id}&by=look", 422, "no look bits"),
        ("/search?id=/etc/passwd", 422, "id"),
        ("/search?path=/etc/passwd", 422, "unknown parameter path"),
        ("/images/123456", 404, "No image"),
        ("/images/..", 422, "integer"),
        ("/images/../../../etc/passwd", 404, "Nothing found at"),
        ("/images/..%2F..%2Fetc%2Fpasswd", 404, "Nothing found at"),
        ("/images/%00", 422, "integer"),
        ("/images/{id}/thumbnail?side=0", 422, "side"),
        ("/images/{id}/thumbnail?side=100000", 422, "side"),
        ("/static/../app.py", 404, "Nothing found at"),
        ("/static/..%2Fapp.py", 404, "Nothing found at"),
        ("/samples?n=0", 422, "n: "),
        ("/nowhere", 404, "Nothing found at /nowhere"),
    ],
)
def test_invalid_parameters_and_unknown_paths_are_one_line(site, address, status, word):
    site.get(address.format(id=site.search.ids()[0])).refuses(status, word)


def test_an_unknown_label_among_very_many_is_one_line_without_a_list(run_service, index, photo):
    with run_service(index, Settings()) as site:
        site.search.add([photo], labels=[[f"label {number}" for number in range(60)]])
        site.get("/search?id=1&label=label+60").refuses(422, "'label 60'", "/info")
        assert site.get("/search?id=1&label=label+59").status == 200


def test_a_method_that_is_not_allowed_is_one_line(site):
    site.ask("PUT", "/search").refuses(405, "does not accept PUT")


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 422, "no image"),
        (b"hello", 415, "not a JPEG"),
        (b"/etc/passwd", 415, "not a JPEG"),
        (b'{"url": "http://example.org/a.jpg"}', 415, "not a JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a JPEG"),
        (50_000, 413, "pixels"),
        (8000, 413, "8000 x 8000 pixels"),
        (100, 422, "damaged"),
    ],
    ids=["empty", "text", "path", "url", "svg", "bomb", "too large", "truncated"],
)
def test_an_invalid_image_is_one_line(huge_png, form, site, body, status, word):
    body = huge_png(body) if isinstance(body, int) else body
    site.post("/search", body).refuses(status, word)
    if body:
        site.ask("POST", "/search", *form(body)).refuses(status, word)


def test_an_image_of_the_wrong_size_is_refused(site):
    file = io.BytesIO()
    Image.new("RGB", (5, 5)).save(file, "PNG")
    site.post("/search", file.getvalue()).refuses(422, "5 x 5 pixels")


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=30))
def test_no_id_is_used_as_a_path_or_causes_a_server_error(site, text):
    for path in (f"/images/{quote(text, safe='')}", f"/search?id={quote(text, safe='')}"):
        reply = site.get(path)
        assert reply.status in ({200, 404, 422} if text.strip().isdecimal() else {404, 422})


@settings(max_examples=40)
@given(
    st.binary(min_size=1, max_size=200), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"BM"])
)
def test_no_upload_causes_a_server_error(site, data, start):
    assert site.post("/search", start + data).status in {413, 415, 422}


def test_more_results_than_the_limit_are_refused(small, photo):
    small.post("/search?k=6", photo).refuses(422, "k must be 5 at most; got 6")
    assert len(small.post("/search?k=5", photo).json["hits"]) == 5


def test_an_index_that_cannot_be_read_is_not_ready_but_healthy(run_service, shared_index, caplog):
    with run_service(shared_index, Settings()) as site:
        assert site.get("/ready").json == {"status": "ready", "n_images": 18}
        site.search.close()
        reply = site.get("/ready")
        assert site.get("/health").json == {"status": "ok"}
    reply.refuses(503, "server's log")
    assert reply.headers["retry-after"]
    assert "catalogue.sqlite" in caplog.text
