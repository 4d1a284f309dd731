import json
import os
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from ddsh.errors import ArtefactError, Busy
from ddsh.storage import Manifest, atomic_write, locked, read_npz, sync_folder, write_npz


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


class Note(Manifest):
    """A file of one field."""

    text: str


def test_a_file_of_fields_survives_and_names_its_version(tmp_path):
    Note(text="grüße").write(tmp_path / "note.json")
    assert Note.read(tmp_path / "note.json") == Note(text="grüße")
    assert json.loads((tmp_path / "note.json").read_text()) == {"version": 1, "text": "grüße"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": 2, "text": "a"}', r"note\.json has version 2; this ddsh reads version 1"),
        ('{"text": "a"}', r"note\.json has version None; this ddsh reads version 1"),
        ('{"version": 1, "text": 3}', r"note\.json is damaged \(text: .*\); write it again"),
        ('{"version": 1, "text": "a", "more": 3}', r"note\.json is damaged \(more: .*\); write it again"),
        ("[1]", r"note\.json is damaged \(ValueError: not an object\); write it again"),
    ],
)
def test_a_file_of_other_fields_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "note.json").write_text(content)
    with pytest.raises(ArtefactError, match=message) as caught:
        Note.read(tmp_path / "note.json", advice="write it again")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_long_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("ddsh.storage.MAX_JSON_BYTES", 30)
    Note(text="short").write(tmp_path / "long.json")
    with pytest.raises(ArtefactError, match=r"long\.json is damaged \(ValueError: more than 30 bytes\); make it again"):
        Note.read(tmp_path / "long.json")


def test_a_folder_in_the_place_of_a_file_is_not_read(tmp_path):
    for read in (Note.read, read_npz):
        with pytest.raises(ArtefactError, match=r"cannot be read \(Is a directory\)"):
            read(tmp_path)


@pytest.mark.parametrize("path", ["note.json", "file/note.json"])
def test_a_file_that_is_not_there_is_named_or_explained(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match=r"note\.json does not exist"):
        Note.read(tmp_path / path)
    with pytest.raises(ArtefactError, match="no note here"):
        Note.read(tmp_path / path, missing="no note here")


def test_files_of_one_array_and_files_that_are_not_there_are_no_npz_files(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    with pytest.raises(ArtefactError, match=r"holds a single array; expected an \.npz file"):
        read_npz(tmp_path / "one.npy")
    with pytest.raises(ArtefactError, match=r"does not exist; give the path of an \.npz file"):
        read_npz(tmp_path / "none.npz")


def test_a_lock_shuts_out_others_until_it_is_released(tmp_path):
    path = tmp_path / "lock"
    with locked(path, wait=0, busy="first"):
        with pytest.raises(Busy, match="second"), locked(path, wait=0, busy="second"):
            pytest.fail("the lock was given twice")
        with ThreadPoolExecutor(1) as threads, pytest.raises(Busy, match="third"):
            threads.submit(locked(path, wait=0.05, busy="third").__enter__).result()
    with suppress(KeyError), locked(path, wait=0, busy="fourth"):
        raise KeyError
    with locked(path, wait=0, busy="fifth"):
        pass


def test_a_lock_in_a_place_that_is_no_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match=r"lock cannot be locked \(\w+"):
        locked(tmp_path / "file" / "lock", wait=0, busy="busy").__enter__()


def test_the_names_in_a_folder_are_flushed_where_the_system_can(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.fstat(handle).st_ino))
    sync_folder(tmp_path)
    sync_folder(tmp_path / "missing")
    assert flushed == [tmp_path.stat().st_ino]


def test_a_place_that_is_no_folder_is_named_and_stays(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(
        ArtefactError, match=r"file/new cannot be written \(.*\); free some space or choose another path"
    ):
        write_npz(tmp_path / "file" / "new", {"a": np.zeros(1)})
    assert (tmp_path / "file").read_text() == "old"
