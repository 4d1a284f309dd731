"""Endpoints: searching, images, adding and removing."""

import io
import json
import shutil
import sqlite3
import threading
from collections import Counter
from dataclasses import asdict
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from ddsh import ImageSearch, Model
from ddsh.methods.lsh import LSH
from ddsh.search import LabelChange
from ddsh.service import Settings

TOKEN = "a-token-of-24-characters"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
MANY_LABELS = [{"ids": [1], "add": [f"{ten}{n}" for n in range(100)]} for ten in "abcdefghijk"]
SEARCHES = [
    {},
    {"k": 3},
    {"k": 18, "radius": 2},
    {"k": 18, "radius": 0},
    {"k": 18, "label": "blue"},
    {"k": 5, "radius": 9, "label": "green"},
    {"k": 5, "by": "label"},
    {"k": 5, "offset": 4},
    {"k": 18, "text": "3.png"},
]


def _address(path, **asked):
    return f"{path}?" + "&".join(f"{name}={value}" for name, value in asked.items())


def _check(answer, hits, asked):
    assert [(hit["id"], hit["distance"], hit["bits"], hit["flipped"]) for hit in answer["hits"]] == [
        (hit.id, hit.distance, hit.bits, list(hit.flipped)) for hit in hits
    ]
    assert [tuple(hit["labels"]) for hit in answer["hits"]] == [hit.labels for hit in hits]
    usual = {"k": 20, "radius": None, "label": [], "by": "label", "text": None, "offset": 0, "min_similarity": None}
    given = asked | ({"label": [asked["label"]]} if "label" in asked else {})
    assert {name: answer[name] for name in usual} == usual | given
    assert answer["has_more"] == hits.has_more
    assert answer["n_bits"] == 16
    assert 0 < answer["seconds"] < 20


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
def test_a_search_by_id_returns_what_image_search_returns(site, asked):
    image = site.search.ids()[7]
    reply = site.get(_address("/search", id=image, **asked))
    assert reply.status == 200
    _check(reply.json, site.search.query(image, **({"k": 20} | asked)), asked)


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
def test_a_search_by_upload_returns_what_image_search_returns_for_body_and_form(form, site, photo, asked):
    hits = site.search.query(photo, **({"k": 20} | asked))
    for body, headers in [(photo, {"Content-Type": "image/png"}), (photo, {}), form(photo)]:
        reply = site.ask("POST", _address("/search", **asked), body, headers)
        assert reply.status == 200, reply
        _check(reply.json, hits, asked)


def test_the_response_has_the_code_of_the_query(site):
    first, last = site.search.ids()[0], site.search.ids()[-1]
    codes = {image: site.search.query(image, k=18) for image in (first, last)}
    own = {image: next(hit.bits for hit in hits if hit.id == image) for image, hits in codes.items()}
    assert site.get(f"/search?id={first}").json["bits"] == own[first]
    assert site.get(f"/search?id={last}&label=blue&k=1").json["bits"] == own[last]


def test_a_query_is_repeated_without_the_image_page_by_page(site, photo):
    whole = site.post("/search?k=18", photo).json
    assert not whole["has_more"]
    found = []
    while len(found) < 18:
        page = site.get(f"/search?query={whole['query']}&k=5&offset={len(found)}").json
        assert page["query"] == whole["query"]
        found += page["hits"]
        assert page["has_more"] == (len(found) < 18)
    assert found == whole["hits"]


def test_several_labels_allow_images_with_any_or_with_all_of_them(site):
    assert len(site.get("/search?id=1&label=blue&label=red").json["hits"]) == 12
    assert site.get("/search?id=1&label=blue&label=red&all_labels=true").json["hits"] == []
    site.get("/search?id=1&label=blue&label=rde").refuses(422, "'rde'", "red")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("k=5", ["id or query"]),
        ("id=1&query=AAAA", ["id or query"]),
        ("query=AAAA", ["search with the image again"]),
        ("query=%2B%2B", ["query"]),
        ("id=1&offset=9999", ["10,000", "together"]),
        ("id=1&offset=-1", ["offset"]),
        ("id=1&min_similarity=50", ["not learned", "ddsh index upgrade"]),
        ("id=1&min_similarity=101", ["min_similarity"]),
        (f"id=1&text={'a' * 201}", ["text", "200"]),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_in_one_line(site, asked, words):
    site.get(f"/search?{asked}").refuses(422, *words)


def test_similarities_matches_and_the_cut_off_are_in_the_response(run_service, calibrated_index):
    with run_service(calibrated_index, Settings()) as site:
        assert (site.get("/info").json["similarity"], site.get("/info").json["cut_off"]) == ("labels", 50)
        hits = site.search.query(1, k=100)
        found = site.get("/search?id=1&k=100").json
        assert [(hit["similarity"], hit["match"]) for hit in found["hits"]] == [
            (hit.similarity, hit.match) for hit in hits
        ]
        assert (found["hits"][0]["match"], found["nothing_similar"]) == ("query", False)
        least = hits[20].similarity
        some = site.get(f"/search?id=1&k=100&min_similarity={least}").json["hits"]
        assert [hit["id"] for hit in some] == [hit.id for hit in hits if hit.similarity >= least]


def test_the_map_has_a_position_and_a_label_for_every_image(writable):
    found = writable.get("/points").json
    assert found["n_images"] == len(found["ids"]) == len(found["x"]) == len(found["y"]) == 18
    assert {min(found["x"]), min(found["y"]), max(found["x"]), max(found["y"])} == {0, 1}
    names = {entry.id: entry.labels[0] for entry in writable.search.entries(found["ids"])}
    assert [found["labels"][label] for label in found["label"]] == [names[number] for number in found["ids"]]
    assert writable.get("/points").body == writable.get("/points").body
    writable.search.change_labels(LabelChange((1,), remove=("blue",)))
    writable.app.state.service.info.clear()
    assert dict(zip(found["ids"], writable.get("/points").json["label"], strict=True))[1] == -1


def test_no_results_within_the_radius_is_a_valid_response(site):
    red = next(iter(site.search.query(site.search.ids()[0], k=1, label="red"))).id
    reply = site.get(f"/search?id={red}&radius=0&label=blue")
    assert (reply.status, reply.json["hits"]) == (200, [])
    assert reply.json["bits"] == site.search.query(red).code


def test_no_response_reveals_a_folder_of_the_server(site, photo):
    image = site.search.ids()[0]
    for path in ("/info", "/samples?n=100", f"/items/{image}", f"/search?id={image}&k=100", f"/images/{image}"):
        reply = site.get(path)
        assert reply.status == 200
        assert b"secret" not in reply.body
        assert "secret" not in str(reply.headers)
    assert site.get(f"/items/{image}").json["name"] == "0.png"
    assert b"secret" not in site.post("/search", photo).body


def test_an_image_file_is_sent_unchanged_with_its_media_type(site, photos):
    for image in site.search.ids()[:3]:
        reply = site.get(f"/images/{image}")
        assert reply.status == 200
        assert (photos / "blue" / site.get(f"/items/{image}").json["name"]).read_bytes() == reply.body
        assert reply.headers["content-type"] == "image/png"
        assert reply.headers["content-disposition"].startswith("inline")


def test_a_thumbnail_is_small_and_revalidated_by_its_etag(site):
    image = site.search.ids()[0]
    reply = site.get(f"/images/{image}/thumbnail?side=8")
    with Image.open(io.BytesIO(reply.body)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (8, 8))
    assert site.get(f"/images/{image}/thumbnail?side=8").body == reply.body
    again = site.ask("GET", f"/images/{image}/thumbnail?side=8", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("content", [None, b"", b"<script>alert(1)</script>"], ids=["lost", "empty", "no image"])
def test_a_file_that_is_no_longer_an_image_is_not_sent(run_service, index, photo, content):
    with run_service(index, Settings()) as site:
        image = site.search.add([photo]).added[0]
        path = next((index / "images").iterdir())
        path.unlink() if content is None else path.write_bytes(content)
        for address in (f"/images/{image}", f"/images/{image}/thumbnail"):
            site.get(address).refuses(404, f"image {image}", "cannot be read")


def test_info_has_the_statistics_of_the_index_and_the_limits(site):
    facts, info = site.get("/info").json, asdict(site.search.info())
    assert {name: facts[name] for name in facts if name in info} == {name: info[name] for name in info if name in facts}
    assert (facts["n_images"], facts["n_bits"], facts["n_bytes"], facts["n_labels"]) == (18, 16, 36, 3)
    assert (facts["read_only"], facts["max_k"]) == (True, 1000)


def test_samples_are_distinct_and_random(site):
    drawn = [[item["id"] for item in site.get("/samples?n=5").json] for _ in range(8)]
    assert all(len(set(ids)) == 5 for ids in drawn)
    assert len({tuple(ids) for ids in drawn}) > 1
    assert {item["id"] for item in site.get("/samples?n=100").json} == set(site.search.ids())


def test_samples_can_be_limited_to_labels_and_words(site):
    red = site.get("/samples?n=100&label=red").json
    assert len(red) == 6
    assert {item["labels"][0] for item in red} == {"red"}
    assert {item["name"] for item in site.get("/samples?n=100&label=red&label=blue&text=4.PNG").json} == {"4.png"}
    assert site.get("/samples?label=red&label=blue&all_labels=true").json == []


def test_samples_are_found_where_most_ids_were_removed(run_service, index):
    with run_service(index, Settings()) as site:
        left = site.search.ids()[-4:]
        site.search.remove(set(site.search.ids()) - set(left))
        drawn = {item["id"] for _ in range(10) for item in site.get("/samples?n=3").json}
    assert drawn <= set(left)
    assert len(drawn) > 1


def test_an_empty_index_returns_no_results(run_service, index, photo):
    with run_service(index, Settings()) as site:
        site.search.remove(site.search.ids())
        assert site.get("/samples").json == []
        assert site.post("/search", photo).json["hits"] == []
        assert site.get("/info").json["n_images"] == 0


def test_an_added_image_is_found_and_a_removed_one_is_not(writable, photo):
    before = len(writable.search)
    reply = writable.ask("POST", "/items?label=new&label=own&metadata={%22by%22:1}", photo, ALLOWED)
    assert (reply.status, reply.json["new"]) == (201, True)
    number = reply.json["id"]
    item = writable.get(f"/items/{number}").json
    assert (item["labels"], item["metadata"], item["width"]) == (["new", "own"], {"by": 1}, 16)
    found = writable.post("/search?k=1&label=new", photo).json["hits"]
    assert [(hit["id"], hit["distance"]) for hit in found] == [(number, 0)]
    assert writable.get("/info").json["n_images"] == before + 1
    assert writable.get(f"/images/{number}").body == photo

    assert writable.ask("DELETE", f"/items/{number}", headers=ALLOWED).json == {"id": number}
    writable.get(f"/items/{number}").refuses(404)
    writable.get(f"/search?id={number}").refuses(404)
    writable.ask("DELETE", f"/items/{number}", headers=ALLOWED).refuses(404, f"No image has the id {number}")
    assert writable.get("/info").json["n_images"] == before


def test_adding_the_same_image_again_keeps_its_id(form, writable, photo):
    first = writable.ask("POST", "/items", photo, ALLOWED)
    body, headers = form(photo)
    again = writable.ask("POST", "/items", body, headers | ALLOWED)
    assert (again.status, again.json) == (200, {"id": first.json["id"], "new": False})


def test_removing_an_image_keeps_the_users_file(writable, photos):
    number = writable.search.id_of(photos / "red" / "0.png")
    assert writable.ask("DELETE", f"/items/{number}", headers=ALLOWED).status == 200
    assert (photos / "red" / "0.png").exists()


@pytest.mark.parametrize(
    ("address", "body", "status", "word"),
    [
        ("/items", b"", 422, "no image"),
        ("/items", b"text", 415, "not a JPEG"),
        ("/items", 50_000, 413, "pixels"),
        ("/items", 50, 422, "damaged"),
        ("/items?metadata=3", None, 422, "JSON object"),
        ("/items?metadata={", None, 422, "JSON object"),
        ("/items?metadata=" + 500 * "[", None, 422, "JSON object"),
        ("/items?label=a%0Ab", None, 422, "label"),
        ("/items?path=/etc/passwd", None, 422, "unknown parameter path"),
    ],
)
def test_an_invalid_new_image_is_refused_and_leaves_no_file(huge_png, guarded, photo, address, body, status, word):
    body = photo if body is None else huge_png(body) if isinstance(body, int) else body
    guarded.ask("POST", address, body, ALLOWED).refuses(status, word)
    assert len(guarded.search) == 18
    assert list((guarded.search.folder / "images").iterdir()) == []


def test_a_change_while_another_process_holds_the_lock_gets_503(lock_index, writable, photo):
    with lock_index(writable.search.folder):
        reply = writable.ask("POST", "/items", photo, ALLOWED)
        reply.refuses(503, "Another process")
        assert int(reply.headers["retry-after"]) > 0
        writable.ask("DELETE", "/items/1", headers=ALLOWED).refuses(503)
        assert writable.get("/search?id=1").status == 200
    assert writable.ask("POST", "/items", photo, ALLOWED).status == 201


def test_concurrent_changes_wait_for_each_other(png, writable, photo):

    statuses: Counter[int] = Counter()

    def add(shade):
        statuses[writable.ask("POST", "/items", png(np.full((16, 16, 3), shade, np.uint8)), ALLOWED).status] += 1

    threads = [threading.Thread(target=add, args=(shade,)) for shade in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {201: 8}
    assert len(writable.search) == 26


def _change(site, name, **body):
    reply = site.ask("POST", f"/items/{name}", json.dumps(body), ALLOWED)
    assert reply.status == 200, reply
    return reply.json


def _swapped(changes):
    return [{"ids": each["ids"], "add": each["remove"], "remove": each["add"]} for each in reversed(changes)]


def test_labels_are_changed_in_bulk_and_the_response_undoes_it(writable):
    before = writable.search.entries(writable.search.ids())
    asked = [{"ids": [1, 2, 7, 999], "add": ["sea", "blue"]}, {"ids": [7], "remove": ["green"]}]
    done = _change(writable, "labels", changes=asked)
    assert done["missing"] == [999]
    assert {item["id"]: item["labels"] for item in done["items"]} == {
        1: ["blue", "sea"],
        2: ["blue", "sea"],
        7: ["blue", "sea"],
    }
    assert writable.get("/info").json["labels"] == {"blue": 7, "green": 5, "red": 6, "sea": 3}
    assert len(writable.get("/search?id=1&label=sea").json["hits"]) == 3
    again = _change(writable, "labels", changes=asked)
    assert (again["changes"], again["items"]) == ([], done["items"]), "repeating it changes nothing"
    _change(writable, "labels", changes=[{"ids": [2], "add": ["of another person"]}])
    _change(writable, "labels", changes=_swapped(done["changes"]))
    assert writable.search.entry(2).labels == ("blue", "of another person")
    _change(writable, "labels", changes=[{"ids": [2], "remove": ["of another person"]}])
    assert writable.search.entries(writable.search.ids()) == before


def test_no_change_of_labels_only_checks_the_token(writable):
    generation = writable.search.info().generation
    assert _change(writable, "labels", changes=[]) == {"changes": [], "items": [], "missing": []}
    assert writable.search.info().generation == generation


def test_removed_images_are_restored_with_ids_labels_and_files(writable, photo):
    number = writable.ask("POST", "/items?label=own&metadata={%22by%22:1}", photo, ALLOWED).json["id"]
    before = writable.search.entries(writable.search.ids())
    assert _change(writable, "remove", ids=[number, 3, 555]) == {"removed": [3, number], "missing": [555]}
    assert _change(writable, "remove", ids=[number]) == {"removed": [], "missing": [number]}
    writable.get(f"/items/{number}").refuses(404)
    assert writable.get("/info").json["n_images"] == 17
    done = _change(writable, "restore", ids=[3, number, 555])
    assert ([item["id"] for item in done["items"]], done["missing"]) == ([3, number], [555])
    assert writable.search.entries(writable.search.ids()) == before
    assert writable.get(f"/images/{number}").body == photo
    assert _change(writable, "restore", ids=[3])["missing"] == [3], "it is there already"


def test_the_files_of_removed_uploads_are_deleted_when_the_service_ends(run_service, index, photo):
    with run_service(index, Settings(token=TOKEN)) as site:
        number = site.ask("POST", "/items", photo, ALLOWED).json["id"]
        _change(site, "remove", ids=[number])
        assert len(list((index / "images").iterdir())) == 1
    assert list((index / "images").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "body", "status", "word"),
    [
        ("labels", b"", 422, "JSON"),
        ("labels", b"[]", 422, "body: Input should be an object"),
        ("labels", b"{}", 422, "changes is missing"),
        ("labels", b'{"changes": [{"ids": [1], "add": [""]}]}', 422, "at least 1 character"),
        ("labels", b'{"changes": [{"ids": [1], "add": ["a\\nb"]}]}', 422, "A label is"),
        ("labels", b'{"changes": [{"ids": [1], "add": ["a"], "remove": ["a"]}]}', 422, "given and taken"),
        ("labels", b'{"changes": [{"ids": ["1"], "add": ["a"]}]}', 422, "valid integer"),
        ("labels", b'{"changes": [{"ids": [1], "label": "a"}]}', 422, "unknown parameter changes.0.label"),
        ("labels", json.dumps({"changes": 2 * [{"ids": list(range(600)), "add": ["a"]}]}), 422, "1,200 ids"),
        ("labels", json.dumps({"changes": MANY_LABELS}), 422, "labels; the limit is 1,000"),
        ("remove", json.dumps({"ids": list(range(1001))}), 422, "at most 1000"),
        ("remove", b'{"ids": [-1]}', 422, "greater than or equal to 0"),
        ("remove", 300_000 * b" ", 413, "200 kB"),
        ("restore", b'{"ids": [99999999999999999999]}', 422, "ids.0: "),
        ("restore", 10_000 * b"[", 422, "JSON"),
    ],
)
def test_invalid_changes_in_bulk_are_refused(guarded, name, body, status, word):
    guarded.ask("POST", f"/items/{name}", body, ALLOWED).refuses(status, word)
    assert len(guarded.search) == 18
    assert set(guarded.search.info().labels) == {"blue", "green", "red"}


def test_the_service_goes_on_while_the_index_is_upgraded(writable, photo, tmp_path):
    rng = np.random.default_rng(3)
    other = Model(LSH(n_bits=24, seed=5)).fit(rng.integers(0, 255, (50, 16, 16, 3), np.uint8))
    during = []

    def search(done, total):
        during.append(writable.post("/search?k=3", photo).json["n_bits"])
        _change(writable, "labels", changes=[{"ids": [1], "add": [f"at {done}"]}])

    with ImageSearch.open(writable.search.folder) as process:
        process.upgrade(other, on_progress=search)
    assert set(during) == {16}
    assert writable.post("/search?k=3", photo).json["n_bits"] == 24
    assert len(writable.get("/search?id=1&k=100").json["hits"]) == 18
    assert len(writable.search.entry(1).labels) == 19
    assert writable.ask("POST", "/items", photo, ALLOWED).status == 201
    assert writable.get("/search?id=19&k=1").json["hits"][0]["distance"] == 0


@pytest.mark.parametrize("metadata", ['{"a": "\\ud800"}', '{"a": ' + 300 * "[" + 300 * "]" + "}"])
def test_metadata_that_no_response_can_hold_is_refused(writable, photo, metadata):
    path = f"/items?metadata={quote(metadata)}"
    writable.ask("POST", path, photo, {"Authorization": f"Bearer {TOKEN}"}).refuses(422, "Metadata has")
    assert writable.get("/samples").status == 200


def test_a_service_without_its_index_files_is_ready_and_one_with_a_damaged_catalogue_is_not(writable):
    shutil.rmtree(writable.search.folder / "index")
    assert writable.get("/ready").json == {"status": "ready", "n_images": 18}
    with sqlite3.connect(writable.search.folder / "catalogue.sqlite") as connection:
        connection.execute("DROP TRIGGER contents_insert")
        connection.execute("DROP TRIGGER contents_update")
        connection.execute("UPDATE contents SET code = x'0000'")
    connection.close()
    writable.get("/ready").refuses(503, "not available")


@pytest.mark.parametrize("asked", ["bytes=5-1", "bytes=99999999-", "potato", "bytes=0-0,2-2", "bytes=0-3"])
def test_an_image_is_sent_whole_whatever_range_is_asked_for(site, asked):
    whole = site.get("/images/1")
    reply = site.get("/images/1", Range=asked)
    assert (reply.status, reply.body) == (200, whole.body)
    assert reply.headers["accept-ranges"] == "none"


def test_the_advice_to_learn_similarities_names_no_path(site):
    assert "/" not in site.get("/search?id=1&min_similarity=50").json["error"]
