import stat

import numpy as np
import pytest

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
