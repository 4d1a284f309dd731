"""Uploads that are small files and much work: refused in bounded time and memory."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile_files import (
    gif_of_many_comments,
    jpeg_of_many_scans,
    jpeg_of_many_segments,
    png_of_one_column,
    slow_jpeg,
    tiff_of_many_tiles,
    tiff_of_one_tile,
    webp_of_huge_canvas,
)

from ddsh.errors import BrokenImage
from ddsh.service import Settings
from ddsh.service.decoder import Decoder

TOKEN = "a-token-of-24-characters"


@pytest.fixture(scope="module")
def strict(run_service, shared_index):
    """A service that gives an image half a second of CPU time."""
    with run_service(shared_index, Settings(max_decode_seconds=0.5)) as service:
        yield service


def test_images_that_take_too_much_cpu_time_are_refused_and_do_not_stop_other_uploads(strict, photo):
    bomb = slow_jpeg()
    with ThreadPoolExecutor(4) as pool:
        bombs = [pool.submit(strict.post, "/search?k=1", bomb) for _ in range(4)]
        assert strict.post("/search?k=1", photo).status == 200
        for reply in bombs:
            reply.result().refuses(422, "0.5 seconds of CPU time")


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda: jpeg_of_many_scans(1000, 500), 422),
        (lambda: tiff_of_one_tile(100, 20_000), 413),
        (lambda: png_of_one_column(49_000_000), 413),
        (webp_of_huge_canvas, 413),
        (lambda: jpeg_of_many_segments(20_000), 422),
        (lambda: gif_of_many_comments(20_000), 422),
        (lambda: tiff_of_many_tiles(800), 422),
    ],
    ids=["scans", "tile", "column", "canvas", "segments", "comments", "tiles"],
)
def test_images_that_claim_far_more_than_they_hold_are_refused_by_their_header(strict, make, status):
    strict.post("/search?k=1", make()).refuses(status, "The image cannot be used")


def test_memory_beyond_the_limit_is_refused(monkeypatch, png):
    monkeypatch.setattr("ddsh.service.decoder.BYTES_PER_PIXEL", 0)
    monkeypatch.setattr("ddsh.service.decoder._OVERHEAD", 30_000_000)
    decoder = Decoder(Settings(max_upload_bytes=1))
    try:
        with pytest.raises(BrokenImage, match="memory"):
            decoder.decode(png(np.zeros((5000, 5000, 3), np.uint8)))
        assert decoder.decode(png(np.zeros((5, 5, 3), np.uint8))).shape == (5, 5, 3)
    finally:
        decoder.close()


def test_a_bomb_in_the_index_has_no_thumbnail_and_the_others_keep_theirs(run_service, index, tmp_path):
    path = tmp_path / "later.jpg"
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(path)
    with run_service(index, Settings(max_decode_seconds=0.5)) as site:
        number = site.search.add(path).added[0]
        path.write_bytes(slow_jpeg())
        site.get(f"/images/{number}/thumbnail").refuses(404, "cannot be read")
        assert site.get("/images/1/thumbnail").status == 200


def test_an_upload_is_decoded_once_and_stored_as_it_is(writable, photo):
    reply = writable.ask("POST", "/items", photo, {"Authorization": f"Bearer {TOKEN}"})
    assert reply.status == 201
    entry = writable.search.entry(reply.json["id"])
    assert Path(entry.path).read_bytes() == photo
    assert writable.post("/search?k=1", photo).json["hits"][0]["id"] == entry.id


def test_the_service_stops_while_an_image_is_being_decoded(run_service, shared_index):
    replies = []
    with run_service(shared_index, Settings(max_decode_seconds=2)) as site:
        thread = threading.Thread(target=lambda: replies.append(site.post("/search?k=1", slow_jpeg())))
        thread.start()
        time.sleep(0.5)
    thread.join(60)
    replies[0].refuses(422)
