"""The store in Milvus: addresses that fail, and schemas of the future; its results are in test_all_stores."""

import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, InvalidInput, Unavailable
from ddsh.index import ExactIndex
from ddsh.index.pairs import PairIndex
from ddsh.search.address import create_store, open_store
from ddsh.search.store import Content, Entry, Filter, SearchManifest

grpc = pytest.importorskip("grpc", reason="pymilvus is not installed")
milvus = pytest.importorskip("ddsh.search.milvus", reason="pymilvus is not installed", exc_type=ImportError)


def save_nothing(folder):
    folder.mkdir(exist_ok=True)
    (folder / "model.json").write_text("{}")


def test_every_failure_to_connect_is_one_line_without_the_password(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    caplog.set_level("DEBUG")
    monkeypatch.setenv("MILVUS_TOKEN", "me:secret")
    monkeypatch.setattr(milvus, "_CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        for address in ("milvus://127.0.0.1:1", f"milvus://me:secret@127.0.0.1:{silent.getsockname()[1]}"):
            started = time.monotonic()
            with pytest.raises(Unavailable, match=r"milvus://127\.0\.0\.1:\d+ cannot be used") as caught:
                open_store(address, 5)
            assert time.monotonic() - started < 30
            assert "secret" not in repr(caught.value) + caplog.text
            assert "\n" not in str(caught.value)


class FakeServer(grpc.GenericRpcHandler):
    """A server that refuses every call, or answers the first one and none after it."""

    def __init__(self, refuses):
        self.refuses, self.done = refuses, threading.Event()

    def service(self, details):
        def answer(_, context):
            if self.refuses:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check api key is correct")
            if not details.method.endswith("/Connect"):
                self.done.wait(60)
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)

    @contextmanager
    def running(self):
        server = grpc.server(ThreadPoolExecutor(4), handlers=[self])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"milvus://127.0.0.1:{port}"
        finally:
            self.done.set()
            server.stop(0).wait()


@pytest.mark.parametrize(
    ("refuses", "reason"),
    [
        (True, r"refuses \(auth check failure, please check api key is correct\); set user:password in MILVUS_TOKEN"),
        (False, r"cannot be used \(deadline_exceeded\); is it running\?"),
    ],
    ids=["wrong password", "hangs after the connection"],
)
def test_a_server_that_refuses_or_hangs_is_one_line(refuses, reason, monkeypatch, tmp_path, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("MILVUS_TOKEN", "me:secret")
    monkeypatch.setattr(milvus, "_ANSWER_SECONDS", 1.0)
    with FakeServer(refuses).running() as address, pytest.raises(Unavailable, match=reason) as caught:
        open_store(address, 5)
    assert "secret" not in repr(caught.value) + caplog.text
    assert "\n" not in str(caught.value)


def test_a_newer_schema_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    address = f"milvus://{tmp_path}/store.db"

    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=8, look_bits=0, preprocessing={}, index="auto")
    with create_store(address, manifest, save_nothing, 5) as store:
        milvus._write_state(store._client, store.state() | {"version": milvus.SCHEMA_VERSION + 1})
        with pytest.raises(ArtefactError, match=f"has version {milvus.SCHEMA_VERSION + 1}"):
            open_store(address, 5)


def fill(store, codes, ids):
    """Add an entry for each code; odd ids are labelled."""
    packed = np.hstack([part.packed for part in (codes.label, codes.look) if part is not None])
    entries, contents = [], {}
    for place, number in enumerate(ids.tolist()):
        sha256, labels = number.to_bytes(32, "big"), ("odd",) * (number % 2)
        entries.append(Entry(number, f"/{number}.jpg", sha256.hex(), 1, 1, 1, 1, labels))
        contents[number] = Content(sha256, 1, 1, 1, packed[place].tobytes(), b"")
    with store.write() as writer, writer.transaction():
        writer.restore_all(entries, contents)


@pytest.mark.parametrize("bits", [(3, 0), (0, 3), (3, 40)], ids=str)
def test_ties_of_more_entries_than_milvus_returns_are_decided_without_reading_all_codes(
    bits, monkeypatch, tmp_path, rng
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(milvus, "_MAX_FOUND", 150)
    n_bits, look_bits = bits
    label = BinaryCodes.from_bits(rng.integers(0, 2, (2000, n_bits))) if n_bits else None
    look = BinaryCodes.from_bits(rng.integers(0, 2, (2000, look_bits))) if look_bits else None
    codes, index = CodePair(label, look), PairIndex(n_bits, look_bits, ExactIndex)
    ids = np.sort(rng.choice(9000, 2000, replace=False)) + 1
    index.add(codes, ids)
    searches = [
        (codes[[place]], by, k, radius, where)
        for place in (0, 7, 1999)
        for by in (["label"] if n_bits else ["look"])
        for k, radius, where in [(1, None, None), (20, None, None), (20, 1, True), (40, None, True)]
    ]
    if n_bits and look_bits:  # nobody has this label code, and hundreds are as near by look bits as the last one found
        searches.append((CodePair(BinaryCodes.from_bits(1 - label.bits()[:1]), look[[0]]), "both", 74, None, None))
        keep = (label.packed != searches[-1][0].label.packed).all(axis=1)
        index.remove(ids[~keep])
        codes, ids = codes[keep], ids[keep]
    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=n_bits, look_bits=look_bits, preprocessing={}, index="auto")
    with create_store(f"milvus://{tmp_path}/store.db", manifest, save_nothing, 5) as store:
        fill(store, codes, ids)
        read, rows = [], store.rows
        monkeypatch.setattr(store, "rows", lambda *given: (read.append(given), rows(*given))[1])
        for query, by, k, radius, where in searches:
            found = store.search(query, k, by=by, radius=radius, where=Filter(("odd",)) if where else None)
            expected = index.search(query, k, by=by, radius=radius, allowed=ids[ids % 2 == 1] if where else None)
            assert found.ids.tolist() == expected.ids.tolist(), (by, k, radius, where)
            assert found.distances.tolist() == expected.distances.tolist()
            assert all(given[1] == ("id",) for given in read), "all codes were read"


def test_a_state_that_is_missing_for_a_moment_is_asked_for_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=8, look_bits=0, preprocessing={}, index="auto")
    with create_store(f"milvus://{tmp_path}/store.db", manifest, save_nothing, 5) as store:
        query, missing = store._client.query, [1, 2, 3]
        monkeypatch.setattr(store._client, "query", lambda *a, **o: missing.pop() * [] if missing else query(*a, **o))
        assert store.state()["next_id"] == 1
        monkeypatch.setattr(milvus, "_STATE_SECONDS", 0)
        monkeypatch.setattr(store._client, "query", lambda *a, **o: [])
        with pytest.raises(ArtefactError, match="is not complete"):
            store.state()


def test_a_file_is_open_in_one_process_at_a_time(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    address = f"milvus://{tmp_path}/store.db"
    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=8, look_bits=0, preprocessing={}, index="auto")
    look = (
        "import sys; from ddsh.search import milvus; milvus._CONNECT_SECONDS = 0.1; milvus.MilvusStore(sys.argv[1], 0)"
    )
    with create_store(address, manifest, save_nothing, 5), open_store(address, 5):
        done = subprocess.run([sys.executable, "-c", look, address], capture_output=True, text=True, check=False)
        assert f"Busy: {address} is open in another process" in done.stderr
    subprocess.run([sys.executable, "-c", look, address], check=True)


def test_a_name_that_milvus_lite_does_not_take_is_refused(tmp_path):
    for name in ("my photos.db", "x" * 33 + ".db"):
        with pytest.raises(InvalidInput, match="cannot be a file of Milvus Lite; use at most 35 letters"):
            open_store(f"milvus://{tmp_path}/{name}", 5)
