import stat
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from ddsh.errors import ArtefactError
from ddsh.storage import atomic_write, read_npz, write_npz


def test_a_failed_write_leaves_the_old_file_and_no_trace(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail_halfway():
        with atomic_write(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_write_replaces_the_file_and_has_the_usual_permissions(tmp_path):
    path = tmp_path / "folder" / "file"
    for content in (b"one", b"two"):
        with atomic_write(path) as file:
            file.write(content)
    (tmp_path / "plain").write_text("")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_python_objects_are_never_pickled(tmp_path):
    with pytest.raises(ValueError, match="pickle"):
        write_npz(tmp_path / "x.npz", {"a": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_arrays_survive_a_file(tmp_path):
    arrays = {"a": np.arange(3), "b": np.array(["x"]), "c": np.array(1.5)}
    write_npz(tmp_path / "x.npz", arrays)
    found = read_npz(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_an_npz_file_that_grows_beyond_measure_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("codes.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (400_000_000,)})
        for _ in range(400):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ArtefactError, match="a file of its size may have"):
        read_npz(path)


def test_an_npz_file_whose_header_lies_is_refused(tmp_path):
    path = tmp_path / "lie.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("codes.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(ArtefactError, match="a file of its size may have"):
        read_npz(path)


@pytest.mark.parametrize("place", range(0, 600, 7))
def test_a_damaged_npz_file_is_read_or_refused(tmp_path, place):
    path = tmp_path / "codes.npz"
    write_npz(path, {"packed": np.arange(64, dtype=np.uint8).reshape(16, 4), "n_bits": np.array(32)})
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 0xFF
    path.write_bytes(data)
    with suppress(ArtefactError):  # any other error fails the test
        read_npz(path)


def test_an_npz_file_of_very_many_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "many.npz", **{f"a{number}": np.zeros(1) for number in range(1001)})
    with pytest.raises(ArtefactError, match="1,001 arrays"):
        read_npz(tmp_path / "many.npz")
