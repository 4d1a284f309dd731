"""A copy that is killed halfway is continued; copies there and back are in test_all_stores."""

import subprocess
import sys
import time

import numpy as np
import pytest
from small_photos import draw

from ddsh.methods.lsh import LSH
from ddsh.model import Model
from ddsh.search import ImageSearch
from ddsh.search.address import has_store, open_store
from ddsh.search.store import Content, Entry
from ddsh.search.store_copy import copy_store

N = 6000


@pytest.fixture
def index(tmp_path, rng):
    """An index of many entries without files."""
    model = Model(LSH(16)).fit(np.stack([draw(rng, (9, 9, 9)) for _ in range(20)]))
    ImageSearch.create(tmp_path / "index", model).close()
    codes = rng.integers(0, 256, (N, 2), np.uint8)
    with open_store(tmp_path / "index", 5) as store, store.write() as writer, writer.transaction():
        sums = [number.to_bytes(32, "big") for number in range(N)]
        entries = [Entry(n + 1, f"/photos/{n}.jpg", sums[n].hex(), 9, 4, 3, 7, ("l",) * (n % 2)) for n in range(N)]
        contents = {n + 1: Content(sums[n], 9, 4, 3, codes[n].tobytes(), b"tiny" * 48) for n in range(N)}
        writer.restore_all(entries, contents)
    return tmp_path / "index"


@pytest.mark.parametrize("kind", ["local", "postgres", "milvus"])
def test_a_copy_that_is_killed_halfway_is_continued(kind, index, tmp_path, request, monkeypatch):
    target = str(tmp_path / "copy")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if kind == "postgres":
        target = request.getfixturevalue("postgres").replace("postgres:@", "postgres@")
    if kind == "milvus":
        pytest.importorskip("pymilvus", reason="pymilvus is not installed")
        target = f"milvus://{tmp_path}/copy.db"

    def is_halfway():
        if kind == "milvus":  # the file is its server's alone
            path = tmp_path / "copy.db"
            return path.exists() and path.stat().st_size > 1_000_000
        if not has_store(target):
            return False
        with open_store(target, 30) as opened:
            return opened.count() >= 1000

    copying = subprocess.Popen(
        [sys.executable, "-m", "ddsh", "store", "copy", str(index), target],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not is_halfway():
        assert copying.poll() is None, copying.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    copying.kill()
    copying.communicate()
    with open_store(target, 30) as opened:
        there = opened.count()
    assert 0 < there < N, "it was killed too late"
    assert copy_store(index, target, wait=30) == N - there  # it compares all entries in the end
    assert copy_store(index, target, wait=30) == 0
