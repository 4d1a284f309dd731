"""Choice between compiled kernels and NumPy."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ddsh.index import _engine


@pytest.fixture
def fresh(monkeypatch):
    """A process that has not searched yet; what it would load is recorded."""
    loaded = []
    monkeypatch.setattr(_engine, "_module", None)
    monkeypatch.setattr(_engine, "_loader", None)
    monkeypatch.setattr(_engine, "_compared", 0)
    monkeypatch.setattr(_engine, "load_kernels", lambda: loaded.append(True))
    return loaded


def test_a_process_that_searches_little_does_not_load_the_kernels(fresh):
    for _ in range(10):
        assert _engine.get_kernels(1_000_000) is None
    assert fresh == []


def test_a_process_that_searches_much_loads_them_once_and_does_not_wait(fresh):
    for _ in range(100):
        assert _engine.get_kernels(1_000_000) is None
    _engine._loader.join()
    assert fresh == [True]


def test_without_numba_searches_use_numpy():
    code = """
import sys
sys.modules["numba"] = None
import numpy as np
from ddsh import BinaryCodes
from ddsh.index import get_index, load_kernels
index = get_index("buckets")(8)
index.add(BinaryCodes.from_bits(np.eye(8, dtype=np.uint8)))
print(load_kernels(), index.search(index.codes_of([3]), 1).ids.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "False [3]"


def test_kernels_are_kept_in_the_cache_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _engine._cache_folder() == str(tmp_path / "ddsh" / "kernels")


def test_a_cache_folder_that_cannot_be_written_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "ddsh").write_text("a file where a folder is needed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = Path(_engine._cache_folder())
    assert folder.name.startswith("ddsh-kernels-")
    assert os.access(folder, os.W_OK)


def test_results_of_several_calls_are_joined():
    def search(queries, k, rows, distances, counts):
        counts[:] = np.minimum(k, queries[:, 0])
        rows[:] = np.tile(np.arange(k), len(queries))
        distances[:] = 7

    queries = np.array([[2], [0], [5]], np.uint64)
    offsets, rows, distances = _engine.find_nearest(search, queries, 3)
    assert offsets.tolist() == [0, 2, 2, 5]
    assert rows.tolist() == [0, 1, 0, 1, 2]
    assert distances.tolist() == [7] * 5
    assert _engine.find_nearest(search, queries[:0], 3)[0].tolist() == [0]
