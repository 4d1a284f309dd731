"""A service in a thread, and a client that speaks plain HTTP."""

import http.client
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from PIL import Image

from ddsh import ImageSearch
from ddsh.service import Settings, create_app
from ddsh.service.security import names_of
from ddsh.service.server import listening, make_server

PATIENCE = 60


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def refuses(self, status: int, *words: str) -> None:
        """Check that a request was refused with one line that holds these words."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["content-type"] == "application/json"
        assert list(self.json) == ["error"]
        assert "\n" not in self.json["error"]
        for word in words:
            assert word in self.json["error"]


@dataclass(frozen=True)
class Site:
    port: int
    search: ImageSearch
    app: FastAPI

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        return ask(self.port, method, path, body, headers)

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.ask("POST", path, body, headers)


def ask(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Reply(response.status, response.headers, response.read())
    finally:
        connection.close()


@contextmanager
def running(folder: Path, settings: Settings, address: str = "127.0.0.1") -> Iterator[Site]:
    """Serve an index; `address` is what the service believes to listen on."""
    with listening("127.0.0.1", 0) as listener, ImageSearch.open(folder, wait=0.1) as search:
        app = create_app(search, settings, names_of(address, settings.allow_hosts))
        server = make_server(app, settings)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started)
            yield Site(listener.getsockname()[1], search, app)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()


def until(holds: Any) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def form(data: bytes, field: str = "image", **others: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a form with a file and other fields."""
    mark = "a-mark-of-our-own"
    parts = [
        f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in others.items()
    ]
    start = f'--{mark}\r\nContent-Disposition: form-data; name="{field}"; filename="/etc/passwd"\r\n\r\n'
    body = "".join(parts).encode() + start.encode() + data + f"\r\n--{mark}--\r\n".encode()
    return body, {"Content-Type": f"multipart/form-data; boundary={mark}"}
