"""Two services, each with a cache of its own, on one database."""

import time

import numpy as np
import pytest

from ddsh.methods.lsh import LSH
from ddsh.model import Model
from ddsh.search import ImageSearch
from ddsh.service import Settings

TOKEN = "a-token-of-24-characters"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def two_services(run_service, postgres, tmp_path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3), np.uint8)
    with ImageSearch.create(postgres, Model(LSH(16)).fit(pixels)):
        pass
    settings = Settings(token=TOKEN)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    with run_service(postgres, settings) as first:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
        with run_service(postgres, settings) as second:
            assert first.search.folder != second.search.folder
            yield first, second


def test_what_one_service_adds_the_other_one_finds_and_shows(two_services, png, rng):
    images = [png(rng.integers(0, 256, (16, 16, 3), np.uint8)) for _ in range(6)]
    ids = []
    for place, image in enumerate(images):  # through one and the other
        reply = two_services[place % 2].ask("POST", f"/items?label=l{place}", image, ALLOWED)
        assert (reply.status, reply.json["new"]) == (201, True)
        ids.append(reply.json["id"])
    assert ids == [1, 2, 3, 4, 5, 6]
    answers = []
    for service in two_services:
        assert service.get("/info").json["n_images"] == 6
        for number, image in zip(ids, images, strict=True):
            assert service.get(f"/images/{number}").body == image
            assert service.post("/search?k=1", image).json["hits"][0]["id"] == number
        answers.append(service.get("/search?id=3").json["hits"])
    assert answers[0] == answers[1]
    assert two_services[0].ask("DELETE", "/items/2", headers=ALLOWED).status == 200
    two_services[1].get("/items/2").refuses(404)
    deadline = time.monotonic() + 60  # facts about the index are cached for some seconds
    while two_services[1].get("/info").json["n_images"] != 5:
        assert time.monotonic() < deadline
        time.sleep(0.2)
