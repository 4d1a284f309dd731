"""Searching, and the images that were found."""

import io
from dataclasses import asdict
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from running_service import form, running
from small_photos import huge_png

from ddsh.service import Settings

ASKED = [
    {},
    {"k": 3},
    {"k": 18, "radius": 2},
    {"k": 18, "radius": 0},
    {"k": 18, "label": "blue"},
    {"k": 5, "radius": 9, "label": "green"},
    {"k": 5, "rerank": True},
]
STARTS = [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"BM"]


def _address(path, **asked):
    return f"{path}?" + "&".join(f"{name}={value}" for name, value in asked.items())


def _check(answer, hits, asked):
    assert [(hit["id"], hit["distance"], hit["bits"], hit["flipped"]) for hit in answer["hits"]] == [
        (hit.id, hit.distance, hit.bits, list(hit.flipped)) for hit in hits
    ]
    assert [tuple(hit["labels"]) for hit in answer["hits"]] == [hit.labels for hit in hits]
    usual = {"k": 20, "radius": None, "label": None, "rerank": False}
    assert {name: answer[name] for name in usual} == usual | asked
    assert answer["n_bits"] == 16
    assert 0 < answer["seconds"] < 20


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_an_image_of_the_index_finds_what_search_finds(site, asked):
    image = site.search.ids()[7]
    reply = site.get(_address("/search", id=image, **asked))
    assert reply.status == 200
    _check(reply.json, site.search.query(image, **({"k": 20} | asked)), asked)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_an_upload_finds_what_search_finds_as_a_body_and_as_a_form(site, photo, asked):
    hits = site.search.query(photo, **({"k": 20} | asked))
    for body, headers in [(photo, {"Content-Type": "image/png"}), (photo, {}), form(photo)]:
        reply = site.ask("POST", _address("/search", **asked), body, headers)
        assert reply.status == 200, reply
        _check(reply.json, hits, asked)


def test_the_code_of_the_query_is_told(site):
    first, last = site.search.ids()[0], site.search.ids()[-1]
    codes = {image: site.search.query(image, k=18) for image in (first, last)}
    own = {image: next(hit.bits for hit in hits if hit.id == image) for image, hits in codes.items()}
    assert site.get(f"/search?id={first}").json["bits"] == own[first]
    assert site.get(f"/search?id={last}&label=blue&k=1").json["bits"] == own[last]


def test_nothing_within_the_radius_is_an_answer(site):
    red = next(iter(site.search.query(site.search.ids()[0], k=1, label="red"))).id
    reply = site.get(f"/search?id={red}&radius=0&label=blue")
    assert (reply.status, reply.json["hits"], reply.json["bits"]) == (200, [], None)


def test_no_answer_tells_a_folder_of_the_server(site, photo):
    image = site.search.ids()[0]
    for path in ("/info", "/samples?n=100", f"/items/{image}", f"/search?id={image}&k=100", f"/images/{image}"):
        reply = site.get(path)
        assert reply.status == 200
        assert b"secret" not in reply.body
        assert "secret" not in str(reply.headers)
    assert site.get(f"/items/{image}").json["name"] == "0.png"
    assert b"secret" not in site.post("/search", photo).body


def test_the_file_of_an_image_is_sent_as_what_it_is(site, photos):
    for image in site.search.ids()[:3]:
        reply = site.get(f"/images/{image}")
        assert reply.status == 200
        assert (photos / "blue" / site.get(f"/items/{image}").json["name"]).read_bytes() == reply.body
        assert reply.headers["content-type"] == "image/png"
        assert reply.headers["content-disposition"].startswith("inline")


def test_a_thumbnail_is_small_and_is_sent_once(site):
    image = site.search.ids()[0]
    reply = site.get(f"/images/{image}/thumbnail?side=8")
    with Image.open(io.BytesIO(reply.body)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (8, 8))
    assert site.get(f"/images/{image}/thumbnail?side=8").body == reply.body
    again = site.ask("GET", f"/images/{image}/thumbnail?side=8", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("content", [None, b"", b"<script>alert(1)</script>"], ids=["lost", "empty", "no image"])
def test_a_file_that_is_no_image_any_more_is_not_sent(index, photo, content):
    with running(index, Settings()) as site:
        image = site.search.add([photo]).added[0]
        path = next((index / "images").iterdir())
        path.unlink() if content is None else path.write_bytes(content)
        for address in (f"/images/{image}", f"/images/{image}/thumbnail"):
            site.get(address).refuses(404, f"image {image}", "cannot be read")


def test_facts_are_those_of_the_index_and_of_the_limits(site):
    facts, info = site.get("/info").json, asdict(site.search.info())
    assert {name: facts[name] for name in facts if name in info} == {name: info[name] for name in info if name in facts}
    assert (facts["n_images"], facts["n_bits"], facts["n_bytes"], facts["n_labels"]) == (18, 16, 36, 3)
    assert (facts["read_only"], facts["max_k"]) == (True, 1000)


def test_samples_differ_from_each_other_and_from_time_to_time(site):
    drawn = [[item["id"] for item in site.get("/samples?n=5").json] for _ in range(8)]
    assert all(len(set(ids)) == 5 for ids in drawn)
    assert len({tuple(ids) for ids in drawn}) > 1
    assert {item["id"] for item in site.get("/samples?n=100").json} == set(site.search.ids())


def test_samples_are_drawn_from_all_ids_even_where_most_are_gone(index):
    with running(index, Settings()) as site:
        left = site.search.ids()[-4:]
        site.search.remove(set(site.search.ids()) - set(left))
        drawn = {item["id"] for _ in range(10) for item in site.get("/samples?n=3").json}
    assert drawn <= set(left)
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("address", "status", "word"),
    [
        ("/search", 422, "id is missing"),
        ("/search?id=x", 422, "integer"),
        ("/search?id=-1", 422, "id"),
        ("/search?id=1e400", 422, "id"),
        ("/search?id=99999999999999999999999999", 422, "id"),
        ("/search?id=123456", 404, "No image has the id 123456"),
        ("/search?id={id}&k=0", 422, "k: "),
        ("/search?id={id}&k=-5", 422, "k: "),
        ("/search?id={id}&k=1001", 422, "k is 1,000 at most"),
        ("/search?id={id}&k=ten", 422, "'ten'"),
        ("/search?id={id}&radius=-1", 422, "radius"),
        ("/search?id={id}&radius=99999", 422, "radius"),
        ("/search?id={id}&label=gren", 422, "Did you mean 'green'?"),
        ("/search?id={id}&label=", 422, "label"),
        ("/search?id={id}&label=" + 1000 * "x", 422, "label"),
        ("/search?id={id}&raduis=3", 422, "raduis is no argument"),
        ("/search?id={id}&rerank=perhaps", 422, "rerank"),
        ("/search?id=/etc/passwd", 422, "id"),
        ("/search?path=/etc/passwd", 422, "path is no argument"),
        ("/images/123456", 404, "No image"),
        ("/images/..", 422, "integer"),
        ("/images/../../../etc/passwd", 404, "nothing at"),
        ("/images/..%2F..%2Fetc%2Fpasswd", 404, "nothing at"),
        ("/images/%00", 422, "integer"),
        ("/images/{id}/thumbnail?side=0", 422, "side"),
        ("/images/{id}/thumbnail?side=100000", 422, "side"),
        ("/static/../app.py", 404, "nothing at"),
        ("/static/..%2Fapp.py", 404, "nothing at"),
        ("/samples?n=0", 422, "n: "),
        ("/nowhere", 404, "nothing at /nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(site, address, status, word):
    site.get(address.format(id=site.search.ids()[0])).refuses(status, word)


def test_an_unknown_label_among_very_many_is_refused_without_a_list_of_them(index, photo):
    with running(index, Settings()) as site:
        site.search.add([photo], labels=[[f"label {number}" for number in range(60)]])
        site.get("/search?id=1&label=label+60").refuses(422, "'label 60'", "/info")
        assert site.get("/search?id=1&label=label+59").status == 200


def test_a_method_that_makes_no_sense_is_refused_in_one_line(site):
    site.ask("PUT", "/search").refuses(405, "does not take PUT")


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 422, "no image"),
        (b"hello", 415, "not a JPEG"),
        (b"/etc/passwd", 415, "not a JPEG"),
        (b'{"url": "http://example.org/a.jpg"}', 415, "not a JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a JPEG"),
        (huge_png(), 413, "pixels"),
        (huge_png(8000), 413, "8000 x 8000 pixels"),
        (huge_png(100), 422, "damaged"),
    ],
    ids=["nothing", "text", "path", "address", "svg", "bomb", "too large", "cut"],
)
def test_what_is_no_image_is_refused_in_one_line(site, body, status, word):
    site.post("/search", body).refuses(status, word)
    if body:
        site.ask("POST", "/search", *form(body)).refuses(status, word)


def test_a_form_without_an_image_or_with_more_is_refused(site, photo):
    site.ask("POST", "/search", *form(photo, field="picture")).refuses(422, "'image'")
    site.ask("POST", "/search", *form(photo, k="3")).refuses(422, "?k=20")
    site.post("/search", photo, **{"Content-Type": "multipart/form-data"}).refuses(422, "form")
    cut = form(photo)[0][:200]
    site.ask("POST", "/search", cut, form(photo)[1]).refuses(422, "form")


def test_an_image_that_the_model_cannot_take_is_refused(site):
    file = io.BytesIO()
    Image.new("RGB", (5, 5)).save(file, "PNG")
    site.post("/search", file.getvalue()).refuses(422, "5 x 5 pixels")


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=30))
def test_no_id_is_ever_a_path_and_none_breaks_the_service(site, text):
    for path in (f"/images/{quote(text, safe='')}", f"/search?id={quote(text, safe='')}"):
        reply = site.get(path)
        assert reply.status in ({200, 404, 422} if text.strip().isdecimal() else {404, 422})


@settings(max_examples=40)
@given(
    st.binary(min_size=1, max_size=200), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"BM"])
)
def test_no_bytes_break_the_service(site, data, start):
    assert site.post("/search", start + data).status in {413, 415, 422}


def test_an_index_without_images_answers_with_nothing(index, photo):
    with running(index, Settings()) as site:
        site.search.remove(site.search.ids())
        assert site.get("/samples").json == []
        assert site.post("/search", photo).json["hits"] == []
        assert site.get("/info").json["n_images"] == 0
