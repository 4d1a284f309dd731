"""The store in Milvus: addresses that fail, and schemas of the future; its results are in test_all_stores."""

import socket
import time

import pytest

from ddsh.errors import ArtefactError, Unavailable
from ddsh.search.address import create_store, open_store
from ddsh.search.store import SearchManifest

milvus = pytest.importorskip("ddsh.search.milvus", reason="pymilvus is not installed", exc_type=ImportError)


def test_every_failure_to_connect_is_one_line_without_the_password(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("MILVUS_TOKEN", "me:secret")
    monkeypatch.setattr(milvus, "_CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        for address in ("milvus://127.0.0.1:1", f"milvus://me:secret@127.0.0.1:{silent.getsockname()[1]}"):
            started = time.monotonic()
            with pytest.raises(Unavailable, match=r"milvus://127\.0\.0\.1:\d+ cannot be used") as caught:
                open_store(address, 5)
            assert time.monotonic() - started < 30
            assert "secret" not in repr(caught.value)
            assert "\n" not in str(caught.value)


def test_a_newer_schema_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    address = f"milvus://{tmp_path}/store.db"

    def save(folder):
        folder.mkdir(exist_ok=True)
        (folder / "model.json").write_text("{}")

    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=8, look_bits=0, preprocessing={}, index="auto")
    with create_store(address, manifest, save, 5) as store:
        milvus._write_state(store._client, store.state() | {"version": milvus.SCHEMA_VERSION + 1})
        with pytest.raises(ArtefactError, match=f"has version {milvus.SCHEMA_VERSION + 1}"):
            open_store(address, 5)
