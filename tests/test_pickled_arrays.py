import pickle
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from ddsh.errors import DataError
from ddsh.storage import read_pickled_arrays


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_in_containers_come_back(tmp_path, rng, protocol):
    array = rng.standard_normal((3, 4)).astype(np.float32)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"layers": [("kernel", array), 1, None]}, protocol=protocol))
    ((name, found), *rest) = read_pickled_arrays(tmp_path / "a.pkl")["layers"]
    assert (name, rest) == ("kernel", [1, None])
    np.testing.assert_array_equal(found, array)


def test_texts_of_python_2_come_as_bytes(tmp_path):
    (tmp_path / "a.pkl").write_bytes(b"(dp0\nS'labels'\np1\n(lp2\nI7\nas.")
    assert read_pickled_arrays(tmp_path / "a.pkl") == {b"labels": [7]}


@pytest.mark.parametrize("name", ["os\nsystem", "builtins\neval", "numpy\nfromfile", "numpy\nload"])
def test_anything_but_arrays_is_refused(tmp_path, name):
    (tmp_path / "a.pkl").write_bytes(f"c{name}\n(S'x'\ntR.".encode())
    with pytest.raises(DataError, match=rf"{name.replace(chr(10), '.')} has no place in a file of arrays"):
        read_pickled_arrays(tmp_path / "a.pkl")


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"PK\x03\x04 no pickle", b"<html>"])
def test_what_is_no_pickle_is_one_line(tmp_path, content):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.pkl is not a pickle of arrays \(\w+"):
        read_pickled_arrays(tmp_path / "a.pkl")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"a\.pkl is not a pickle of arrays \(FileNotFoundError"):
        read_pickled_arrays(tmp_path / "a.pkl")


@pytest.mark.parametrize(
    "content",
    [b"]r" + (200_000_000).to_bytes(4, "little") + b".", b"\x96" + (1 << 31).to_bytes(8, "little") + b"abc."],
    ids=["a place in the memo", "a length"],
)
def test_a_number_in_a_short_file_takes_no_memory(tmp_path, content):
    (tmp_path / "a.pkl").write_bytes(content)
    tracemalloc.start()
    try:
        with suppress(DataError):
            assert read_pickled_arrays(tmp_path / "a.pkl") == []
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(np.zeros(100)))
    monkeypatch.setattr("ddsh.storage.MAX_PICKLE_BYTES", 100)
    with pytest.raises(DataError, match=r"a\.pkl has \d+ bytes, at most 100 are read"):
        read_pickled_arrays(tmp_path / "a.pkl")
