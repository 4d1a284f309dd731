"""Fixtures of the service tests: an index of small photos, and services on a free port."""

import http.client
import io
import json
import shutil
import socket
import struct
import threading
import time
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from PIL import Image

from ddsh import ImageSearch, Model
from ddsh.methods.lsh import LSH
from ddsh.search.local import write_lock
from ddsh.service import Settings, create_app
from ddsh.service.middleware import allowed_hosts
from ddsh.service.server import create_server, listen

PATIENCE = 60
TOKEN = "a-token-of-24-characters"
COLOURS = {"blue": (40, 60, 200), "green": (40, 190, 60), "red": (210, 50, 40)}
SIDE = 16


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def refuses(self, status: int, *words: str) -> None:
        """Check for an error response with one line that contains these words."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["content-type"] == "application/json"
        assert list(self.json) == ["error"]
        assert "\n" not in self.json["error"]
        for word in words:
            assert word in self.json["error"]


@dataclass(frozen=True)
class Site:
    """A running service, and a client that speaks plain HTTP."""

    port: int
    search: ImageSearch
    app: FastAPI

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.ask("POST", path, body, headers)

    def send(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """Send bytes as they are; return what is received until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
            return received


def _draw(rng, colour):
    """An image of mostly one colour, unlike all others."""
    noise = np.kron(rng.integers(-60, 60, (4, 4, 3)), np.ones((SIDE // 4, SIDE // 4, 1), np.int64))
    return np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)


def _until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def _run_service(folder, settings, address="127.0.0.1"):
    with listen("127.0.0.1", 0) as listener, ImageSearch.open(folder, wait=0.1) as search:
        app = create_app(search, settings, allowed_hosts(address, settings.allowed_hosts))
        server = create_server(app, settings)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            _until(lambda: server.started)
            yield Site(listener.getsockname()[1], search, app)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture(scope="session")
def run_service():
    """Serve an index while a block runs; `address` is what the service believes to listen on."""
    return _run_service


@pytest.fixture(scope="session")
def until():
    """Wait until a condition holds."""
    return _until


@pytest.fixture(scope="session")
def lock_index():
    """Hold the lock of an index as another writer does."""
    return lambda folder: write_lock(folder, wait=0)


@pytest.fixture(scope="session")
def png():
    """Encode pixels as a PNG file."""

    def encode(pixels):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    return encode


@pytest.fixture(scope="session")
def huge_png():
    """Make a PNG of a few bytes whose header claims a large size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def make(side=50_000):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")

    return make


@pytest.fixture(scope="session")
def form():
    """Make the body and the headers of a form with a file and other fields."""

    def make(data, field="image", **others):
        boundary = "a-boundary"
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in others.items()
        ]
        start = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="/etc/passwd"\r\n\r\n'
        body = "".join(parts).encode() + start.encode() + data + f"\r\n--{boundary}--\r\n".encode()
        return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}

    return make


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder of photos, one subfolder per colour."""
    folder, rng = tmp_path_factory.mktemp("secret-folder") / "photos", np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(6):
            Image.fromarray(_draw(rng, colour)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def shared_index(tmp_path_factory, photos):
    """An index of all photos that no test changes."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("secret-place")
    pixels = np.stack([_draw(rng, colour) for colour in COLOURS.values() for _ in range(20)])
    Model(LSH(n_bits=16, seed=0)).fit(pixels).save(folder / "model")
    with ImageSearch.create(folder / "index", folder / "model") as search:
        for colour in COLOURS:
            paths = sorted((photos / colour).iterdir())
            search.add(paths, labels=[colour] * len(paths))
    return folder / "index"


@pytest.fixture(scope="session")
def pair_index(tmp_path_factory, photos):
    """An index with label bits and look bits that no test changes."""
    folder = tmp_path_factory.mktemp("pairs")
    with ImageSearch.create(folder / "index", Model(LSH(16), "small").fit(photos)) as search:
        paths = sorted(photos.rglob("*.png"))
        search.add(paths, labels=[path.parent.name for path in paths])
    return folder / "index"


@pytest.fixture(scope="session")
def calibrated_index(tmp_path_factory):
    """An index of 180 images with similarities in per cent that no test changes."""
    rng, folder = np.random.default_rng(2), tmp_path_factory.mktemp("calibrated")
    pixels = np.stack([_draw(rng, colour) for colour in COLOURS.values() for _ in range(70)])
    labels = np.repeat(np.arange(3), 70)
    known = np.arange(210) % 7 > 0
    model = Model(LSH(16), "small").fit(pixels[known])
    model.calibrate(pixels[~known], labels[~known], pixels[known], labels[known])
    with ImageSearch.create(folder / "index", model) as search:
        search.add(pixels[known], labels=[list(COLOURS)[label] for label in labels[known]])
    return folder / "index"


@pytest.fixture
def index(shared_index, tmp_path):
    """An index that a test may change."""
    return Path(shutil.copytree(shared_index, tmp_path / "index"))


@pytest.fixture(scope="session")
def site(shared_index):
    """A service with default settings."""
    with _run_service(shared_index, Settings()) as service:
        yield service


@pytest.fixture(scope="module")
def small(shared_index):
    """A service with low limits."""
    limits = Settings(max_upload_bytes=20_000, max_pixels=1000, max_k=5, workers=1, max_waiting=0)
    with _run_service(shared_index, limits) as service:
        yield service


@pytest.fixture(scope="module")
def hasty(shared_index):
    """A service with a short timeout."""
    with _run_service(shared_index, Settings(timeout=0.4)) as service:
        yield service


@pytest.fixture
def writable(index):
    """A service whose index a test may change with the token."""
    with _run_service(index, Settings(token=TOKEN)) as service:
        yield service


@pytest.fixture(scope="module")
def guarded(shared_index, tmp_path_factory):
    """A service with a token, for requests that it refuses."""
    copy = shutil.copytree(shared_index, tmp_path_factory.mktemp("guarded") / "index")
    with _run_service(copy, Settings(token=TOKEN)) as service:
        yield service


@pytest.fixture
def photo(png):
    """An image file that is not in the index."""
    return png(_draw(np.random.default_rng(9), COLOURS["red"]))


@pytest.fixture
def serve(run_service):
    """Start services; they stop after the pages of the test, which may still load images."""
    with ExitStack() as services:
        yield lambda folder, **settings: services.enter_context(run_service(folder, Settings(**settings)))


@pytest.fixture
def opened(browser, site, serve):
    """Open the page; the test fails if the browser logs an unexpected message."""
    complaints, pages = [], []

    def open_page(address="", width=1280, scheme="light", expected=None, on=site):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(1000 * PATIENCE)
        pages.append(page)
        page.on("console", lambda message: (expected and expected in message.text) or complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith((on.url, "blob:")) or complaints.append(request.url))
        page.goto(f"{on.url}{address}")
        page.wait_for_selector("#results[aria-busy=false]")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
