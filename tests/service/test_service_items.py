"""Adding and removing images, and who may."""

import shutil
import threading
from collections import Counter

import numpy as np
import pytest
from running_service import form, png, running
from small_photos import huge_png

from ddsh.search.local import write_lock
from ddsh.service import Settings

TOKEN = "a-token-of-24-characters"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def site(index):
    with running(index, Settings(token=TOKEN)) as service:
        yield service


@pytest.fixture(scope="module")
def guarded(made, tmp_path_factory):
    """A service that refuses what the tests want of it."""
    with running(shutil.copytree(made, tmp_path_factory.mktemp("guarded") / "index"), Settings(token=TOKEN)) as service:
        yield service


def test_an_image_that_was_added_is_found_and_one_that_was_removed_is_not(site, photo):
    before = len(site.search)
    reply = site.ask("POST", "/items?label=new&label=own&metadata={%22by%22:1}", photo, ALLOWED)
    assert (reply.status, reply.json["new"]) == (201, True)
    number = reply.json["id"]
    item = site.get(f"/items/{number}").json
    assert (item["labels"], item["metadata"], item["width"]) == (["new", "own"], {"by": 1}, 16)
    found = site.post("/search?k=1&label=new", photo).json["hits"]
    assert [(hit["id"], hit["distance"]) for hit in found] == [(number, 0)]
    assert site.get("/info").json["n_images"] == before + 1
    assert site.get(f"/images/{number}").body == photo

    assert site.ask("DELETE", f"/items/{number}", headers=ALLOWED).json == {"id": number}
    site.get(f"/items/{number}").refuses(404)
    site.get(f"/search?id={number}").refuses(404)
    site.ask("DELETE", f"/items/{number}", headers=ALLOWED).refuses(404, f"No image has the id {number}")
    assert site.get("/info").json["n_images"] == before


def test_the_same_image_again_keeps_its_id(site, photo):
    first = site.ask("POST", "/items", photo, ALLOWED)
    body, headers = form(photo)
    again = site.ask("POST", "/items", body, headers | ALLOWED)
    assert (again.status, again.json) == (200, {"id": first.json["id"], "new": False})


def test_removing_an_image_leaves_the_users_file(site, photos):
    number = site.search.id_of(photos / "red" / "0.png")
    assert site.ask("DELETE", f"/items/{number}", headers=ALLOWED).status == 200
    assert (photos / "red" / "0.png").exists()


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, "Authorization: Bearer"),
        ({"Authorization": TOKEN}, "Authorization: Bearer"),
        ({"Authorization": "Basic abc"}, "Authorization: Bearer"),
        ({"Authorization": "Bearer "}, "Authorization: Bearer"),
        ({"Authorization": "Bearer wrong"}, "not the right one"),
        ({"Authorization": f"Bearer {TOKEN}x"}, "not the right one"),
        ({"Authorization": f"Bearer {TOKEN.upper()}"}, "not the right one"),
        ({"Authorization": "Bearer tök"}, "not the right one"),
    ],
    ids=str,
)
def test_a_change_without_the_right_token_is_refused(guarded, photo, headers, word):
    for reply in (guarded.ask("POST", "/items", photo, headers), guarded.ask("DELETE", "/items/1", headers=headers)):
        reply.refuses(401, word)
        assert reply.headers["www-authenticate"] == "Bearer"
    assert len(guarded.search) == 18


def test_without_a_token_every_change_is_refused(index, photo):
    with running(index, Settings()) as site:
        site.ask("POST", "/items", photo, ALLOWED).refuses(403, "read-only", "DDSH_TOKEN")
        site.ask("DELETE", "/items/1", headers=ALLOWED).refuses(403, "read-only")
        assert len(site.search) == 18


@pytest.mark.parametrize(
    ("address", "body", "status", "word"),
    [
        ("/items", b"", 422, "no image"),
        ("/items", b"text", 415, "not a JPEG"),
        ("/items", huge_png(), 413, "pixels"),
        ("/items", huge_png(50), 422, "damaged"),
        ("/items?metadata=3", None, 422, "JSON object"),
        ("/items?metadata={", None, 422, "JSON object"),
        ("/items?metadata=" + 500 * "[", None, 422, "JSON object"),
        ("/items?label=a%0Ab", None, 422, "label"),
        ("/items?path=/etc/passwd", None, 422, "path is no argument"),
    ],
)
def test_what_cannot_be_added_is_refused_and_leaves_no_trace(guarded, photo, address, body, status, word):
    guarded.ask("POST", address, photo if body is None else body, ALLOWED).refuses(status, word)
    assert len(guarded.search) == 18
    assert list((guarded.search.folder / "images").iterdir()) == []


def test_while_somebody_else_changes_the_index_a_change_is_told_to_come_later(site, photo):
    with write_lock(site.search.folder, wait=0):
        reply = site.ask("POST", "/items", photo, ALLOWED)
        reply.refuses(503, "Somebody else")
        assert int(reply.headers["retry-after"]) > 0
        site.ask("DELETE", "/items/1", headers=ALLOWED).refuses(503)
        assert site.get("/search?id=1").status == 200
    assert site.ask("POST", "/items", photo, ALLOWED).status == 201


def test_changes_at_the_same_time_wait_for_each_other(site, photo):

    statuses: Counter[int] = Counter()

    def add(shade):
        statuses[site.ask("POST", "/items", png(np.full((16, 16, 3), shade, np.uint8)), ALLOWED).status] += 1

    threads = [threading.Thread(target=add, args=(shade,)) for shade in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {201: 8}
    assert len(site.search) == 26
