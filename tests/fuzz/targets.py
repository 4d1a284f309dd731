"""What is fuzzed: every function that reads bytes from outside.

A target takes any bytes. It returns if they were read or refused with a :class:`~ddsh.errors.DdshError`; any other
exception is a finding.
"""

import asyncio
import gzip
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from PIL import Image
from starlette.types import Receive, Send
from uvicorn.server import ServerState

from ddsh.datasets import download
from ddsh.datasets.lists import load as load_list
from ddsh.datasets.mnist import read_idx
from ddsh.datasets.table import load_table
from ddsh.errors import DdshError
from ddsh.evaluation import LabelledCodes
from ddsh.evaluation.result import Result
from ddsh.experiment.spec import read_spec
from ddsh.images import decode_image
from ddsh.index import ExactIndex, load_index
from ddsh.index._storage import IndexManifest
from ddsh.model import ModelManifest
from ddsh.search import QueryCode
from ddsh.search.local import LocalStagedCodes
from ddsh.search.store import SearchManifest, check_metadata
from ddsh.service.connections import LimitedProtocol, limited_protocol
from ddsh.service.middleware import host_name
from ddsh.service.schemas import ImageIds, LabelsRequest
from ddsh.service.settings import Settings
from ddsh.service.uploads import file_from_form
from ddsh.storage import read_npz, read_pickled_arrays

_FOLDER = Path(tempfile.mkdtemp(prefix="ddsh-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
_MAX_PIXELS = 1_000_000


def _file(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


def image(data: bytes) -> None:
    """Decode an image."""
    decode_image(data, max_pixels=_MAX_PIXELS)


def npz(data: bytes) -> None:
    """Read codes and labels of another program."""
    LabelledCodes.load(_file("codes.npz", data))
    read_npz(_file("codes.npz", data))


def pickle(data: bytes) -> None:
    """Read a pickle of arrays."""
    read_pickled_arrays(_file("data_batch_1", data))


def idx(data: bytes) -> None:
    """Read an idx file, plain and compressed."""
    for name in ("images", "images.gz"):
        try:
            read_idx(_file(name, data))
        except DdshError:
            continue


def manifests(data: bytes) -> None:
    """Read versioned JSON files."""
    path = _file("file.json", data)
    for kind in (IndexManifest, ModelManifest, SearchManifest, Result):
        try:
            kind.read(path)
        except DdshError:
            continue


def table(data: bytes) -> None:
    """Read a table of images and labels."""
    for name in ("table.csv", "table.tsv", "table.jsonl"):
        try:
            load_table(_file(name, data))
        except DdshError:
            continue


def lists(data: bytes) -> None:
    """Read a list of images and 0/1 labels."""
    load_list(_file("images.txt", data))


def experiment(data: bytes) -> None:
    """Read an experiment."""
    read_spec(_file("experiment.toml", data))


def archive(data: bytes) -> None:
    """Unpack a downloaded archive."""
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        download._unpack(_file("archive.tar.gz", data), Path(folder) / "a")


def index_files(data: bytes) -> None:
    """Open a saved index; the bytes are its codes and, from the middle on, its manifest."""
    folder = _FOLDER / "index"
    if not folder.exists():
        ExactIndex(8).save(folder)
    half = len(data) // 2
    codes = next(folder.glob("codes-*.npy"))
    manifest = (folder / "index.json").read_bytes()
    before = codes.read_bytes()
    try:
        codes.write_bytes(data[:half])
        (folder / "index.json").write_bytes(data[half:] or manifest)
        load_index(folder)
    finally:
        codes.write_bytes(before)
        (folder / "index.json").write_bytes(manifest)


def staged_codes(data: bytes) -> None:
    """Continue an interrupted upgrade."""
    LocalStagedCodes(_file("codes.staged", data), "model", 4)


def query_code(data: bytes) -> None:
    """Read the text of a query in a URL."""
    QueryCode.from_text(data.decode("utf-8", "surrogateescape"))


def metadata(data: bytes) -> None:
    """Check metadata; what passes can be sent in a response."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return
    check_metadata(content)
    json.dumps(content).encode()


def host(data: bytes) -> None:
    """Read a Host header."""
    host_name(data.decode("latin-1"))


def form(data: bytes) -> None:
    """Read a form; its first line is the content type."""
    content_type, _, body = data.partition(b"\n")
    try:
        file_from_form(content_type.decode("latin-1"), body)
    except HTTPException:
        return


def request_body(data: bytes) -> None:
    """Read the JSON of a request that changes images."""
    for kind in (LabelsRequest, ImageIds):
        try:
            kind.model_validate_json(data)
        except (ValueError, RequestValidationError):
            continue


class _Service:
    """The application over a small index; requests are handled without a socket."""

    def __init__(self) -> None:
        from ddsh import ImageSearch, Model
        from ddsh.methods.lsh import LSH
        from ddsh.service import create_app

        pixels = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8)
        search = ImageSearch.create(_FOLDER / "service", Model(LSH(8)).fit(pixels))
        search.add(list(pixels[:6]), labels=["a", "b"] * 3)
        self.app: FastAPI = create_app(search, Settings(token=TOKEN, max_pixels=10_000), frozenset({"localhost"}))
        self.loop = asyncio.new_event_loop()

    def ask(self, scope: dict[str, object], body: bytes) -> tuple[int, bytes]:
        """Return status and body of a response."""
        received: list[dict[str, object]] = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, object]] = []

        async def receive() -> dict[str, object]:
            return received.pop() if received else {"type": "http.disconnect"}

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        self.loop.run_until_complete(asyncio.wait_for(self.app(scope, receive, send), 30))
        return int(str(sent[0]["status"])), b"".join(bytes(each.get("body", b"")) for each in sent)  # type: ignore[call-overload]


TOKEN = "a-token-of-24-characters"
_services: list[_Service] = []


def http(data: bytes) -> None:
    """Answer a request; its lines are method, target and headers, then an empty line and the body.

    No answer may be an internal error, and all answers with an error are JSON.
    """
    if not _services:
        _services.append(_Service())
    head, _, body = data.partition(b"\n\n")
    method, target, *lines = [*head.split(b"\n"), b"", b""]
    if re.search(rb"[^!-~]", method + target):  # refused before, by h11; see the target connection
        return
    path, _, query = target.partition(b"?")
    headers = [tuple(line.lower().split(b":", 1)) for line in lines if b":" in line]
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode()), *headers]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": method.decode("latin-1").upper(), "path": path.decode("utf-8", "replace"), "raw_path": path,
        "query_string": query, "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    status, answer = _services[0].ask(scope, body)
    if status >= 500 and status != 503:
        raise AssertionError(f"status {status}: {answer[:200]!r}")
    if status >= 400:
        assert list(json.loads(answer)) == ["error"], answer[:200]


class _Transport(asyncio.Transport):
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 80)})
        self.sent, self.closed = bytearray(), False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        """Keep what is sent."""
        assert not self.closed, "sent after closing"
        self.sent += data

    def close(self) -> None:
        """Keep that it is closed."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Return whether it is closed."""
        return self.closed

    def get_write_buffer_size(self) -> int:
        """Return 0: everything was sent."""
        return 0

    def pause_reading(self) -> None:
        """Ignore it."""

    resume_reading = pause_reading


async def _echo(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer with the length of the body, after reading it."""
    n_bytes, more = 0, scope["type"] == "http"
    while more:
        message = await receive()
        n_bytes, more = n_bytes + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
    await send({"type": "http.response.body", "body": f"{n_bytes:8}".encode()})


_connections: list[Callable[[], LimitedProtocol]] = []


def connection(data: bytes) -> None:
    """Read what comes over a connection, in pieces of up to 255 bytes; the first byte is their length.

    Whatever it is, each answer is 200 or a refusal as JSON, and nothing is sent after the connection was closed.
    """
    if not _connections:
        config = uvicorn.Config(_echo, http=limited_protocol(Settings()), ws="none", log_config=None)
        config.load()
        loop, state = asyncio.new_event_loop(), ServerState()
        _connections.append(lambda: config.http_protocol_class(config, state, {}, loop))  # type: ignore[union-attr, operator]
    protocol, transport = _connections[0](), _Transport()
    protocol.connection_made(transport)
    step = max(1, data[0] if data else 1)
    for start in range(1, len(data), step):
        if not transport.closed:
            protocol.data_received(data[start : start + step])
            protocol.loop.run_until_complete(asyncio.sleep(0))
    for _ in range(10):
        protocol.loop.run_until_complete(asyncio.sleep(0))
    protocol.connection_lost(None)
    protocol.loop.run_until_complete(asyncio.sleep(0))
    for answer in re.split(rb"HTTP/1\.1 (?=\d)", transport.sent)[1:]:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith((b"200 ", b"100 ")) or list(json.loads(body)) == ["error"], answer[:200]


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        archive, connection, experiment, form, host, http, idx, image, index_files, lists, manifests, metadata, npz,
        pickle, query_code, request_body, staged_codes, table,
    )
}  # fmt: skip


def seeds() -> dict[str, list[bytes]]:
    """Return valid inputs of every target, from which others are made."""
    rng = np.random.default_rng(0)
    pixels = Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8))

    def picture(kind: str, **options: object) -> bytes:
        file = io.BytesIO()
        pixels.save(file, kind, **options)
        return file.getvalue()

    def arrays(**content: object) -> bytes:
        file = io.BytesIO()
        np.savez_compressed(file, **content)
        return file.getvalue()

    def packed(name: str, data: bytes) -> bytes:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as tar:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        return file.getvalue()

    plain_idx = b"\0\0\x08\x03" + b"\0\0\0\2" * 3 + bytes(8)
    start = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
    numbers = SearchManifest(fingerprint="0" * 64, n_bits=8, look_bits=0, preprocessing={}, index="auto")
    index = _FOLDER / "seed"
    ExactIndex(8).save(index)
    manifest = (index / "index.json").read_bytes()
    return {
        "archive": [packed("a/b.txt", b"text"), packed("../b.txt", b"text")],
        "connection": [
            b"\xffGET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x07POST /?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcHEAD / HTTP/1.0\r\n\r\n",
            b"\xffPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
            b"3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n",
            b"\xffGET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        ],
        "experiment": [b'dataset = "sample"\nprotocol = "sample"\nbits = [8]\nseeds = [0]\n\n[methods.lsh]\n'],
        "form": [b"multipart/form-data; boundary=x\n" + start + b"data\r\n--x--\r\n"],
        "host": [b"localhost:8000", b"[::1]:80"],
        "http": [
            b"GET\n/search?id=1&k=5&label=a&text=b&by=both", b"GET\n/items/1", b"GET\n/images/1/thumbnail?side=32",
            b"POST\n/search?k=3\ncontent-type: image/png\n\n" + picture("PNG"), b"GET\n/info", b"DELETE\n/items/99",
            b'POST\n/items/labels\n\n{"changes": [{"ids": [1], "add": ["c"], "remove": []}]}',
            b'POST\n/items/remove\n\n{"ids": [77]}', b"GET\n/samples?n=3", b"GET\n/points", b"GET\n/openapi.json",
            b'POST\n/items?label=a&metadata={"a":1}\ncontent-type: image/png\n\n' + picture("PNG"),
        ],
        "idx": [plain_idx, gzip.compress(plain_idx, mtime=0)],
        "image": [
            picture("PNG"), picture("JPEG"), picture("JPEG", progressive=True), picture("GIF"), picture("BMP"),
            picture("TIFF"), picture("TIFF", compression="tiff_lzw"), picture("WEBP"), picture("WEBP", lossless=True),
        ],
        "index_files": [next(index.glob("codes-*.npy")).read_bytes() + manifest],
        "lists": [b"a.jpg 0 1\nb.jpg 1 0\n"],
        "manifests": [numbers.to_json().encode(), manifest],
        "metadata": [b'{"taken": 2024, "by": ["a", {"b": null}]}'],
        "npz": [
            arrays(bits=np.eye(4, dtype=np.uint8), labels=[0, 0, 1, 1]),
            arrays(signs=np.ones((2, 8), np.int8), label_columns=[0, 1], label_starts=[0, 1, 2], n_labels=2),
        ],
        "pickle": [np.arange(3).dumps(), b"\x80\x04}\x8c\x04data\x8c\x01xs."],
        "query_code": [QueryCode(bytes(8), b"\1", bytes(32), bytes(16)).to_text().encode()],
        "request_body": [b'{"ids": [1, 2]}', b'{"changes": [{"ids": [1], "add": ["x"], "remove": ["y"]}]}'],
        "staged_codes": [bytes(40), bytes(80)],
        "table": [b"path,label\na.jpg,cat\nb.jpg,dog;cat\n", b'{"path": "a.jpg", "labels": ["cat"]}\n'],
    }  # fmt: skip
