import json
import resource
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError
from ddsh.index import BucketsIndex, ExactIndex, _storage, load_index, verify


def make(kind, count, seed=0):
    """An index of codes that come in threes, as the table is saved only where codes are shared."""
    index = kind(40)
    index.add(BinaryCodes.from_bits(np.random.default_rng(seed).integers(0, 2, (count, 40))[np.arange(count) // 3]))
    return index


@pytest.fixture
def folder(tmp_path):
    make(BucketsIndex, 300).save(tmp_path / "index")
    return tmp_path / "index"


@contextmanager
def full_disk():
    """Let no file grow beyond 4,096 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def change(folder, **facts):
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def file_of(folder, name):
    (path,) = folder.glob(f"{name}-*.npy")
    return path


def refuse(folder, message):
    with pytest.raises(ArtefactError, match=message) as caught:
        load_index(folder)
    assert "\n" not in str(caught.value)


def test_saving_again_leaves_only_the_new_files(folder):
    before = {path.name for path in folder.iterdir()}
    make(ExactIndex, 10).save(folder)
    after = {path.name for path in folder.iterdir()}
    assert before & after == {"index.json"}
    assert len(after) == 3


def test_what_is_not_ours_stays(folder):
    (folder / "photo.jpg").write_bytes(b"x")
    (folder / "my-array.npy").write_bytes(b"x")
    make(ExactIndex, 10).save(folder)
    assert (folder / "photo.jpg").exists()
    assert (folder / "my-array.npy").exists()


def test_what_a_killed_save_left_behind_is_removed_by_the_next(folder):
    for name in ("ids-0123456789abcdef.npy", ".codes-0123456789abcdef.npy.x7_a"):
        (folder / name).write_bytes(b"half")
    assert len(load_index(folder)) == 300
    make(ExactIndex, 10).save(folder)
    assert len(list(folder.iterdir())) == 3


def test_a_full_disk_leaves_the_old_index_whole(tmp_path):
    make(ExactIndex, 3).save(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(ArtefactError, match=r"cannot be written .* choose another path"), full_disk():
        make(ExactIndex, 1000).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == names
    assert len(load_index(tmp_path)) == 3
    verify(tmp_path)


def test_a_reader_finds_a_whole_index_while_another_process_saves_and_is_killed(tmp_path):
    code = f"""
import itertools, numpy as np
from ddsh.codes import BinaryCodes
from ddsh.index import ExactIndex
for turn in itertools.count():
    index = ExactIndex(8)
    index.add(BinaryCodes.from_bits(np.full((1 + turn % 7, 8), turn % 2)))
    index.save({str(tmp_path / "index")!r})
"""
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "index" / "index.json").exists():
            assert time.monotonic() < deadline
            assert writer.poll() is None
            time.sleep(0.01)
        for _ in range(300):
            assert len(np.unique(load_index(tmp_path / "index").codes_of([0]).bits())) == 1
    finally:
        writer.kill()
        writer.wait()
    verify(tmp_path / "index")


def test_opening_maps_the_files_into_memory(folder):
    assert not load_index(folder)._codes.words.flags.writeable


@pytest.mark.parametrize("name", ["ids", "codes", "members", "starts", "buckets"])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_a_flipped_bit_is_found_at_opening(folder, name, place):
    path = file_of(folder, name)
    content = bytearray(path.read_bytes())
    content[128 + round(place * (len(content) - 129))] ^= 4  # 128 bytes of header
    path.write_bytes(content)
    for opened in (load_index, verify):
        with pytest.raises(ArtefactError, match=rf"{path.name} is damaged; save or copy the index again"):
            opened(folder)


def test_a_whole_index_is_verified(folder):
    verify(folder)


def test_an_index_that_is_not_there_is_refused(tmp_path):
    refuse(tmp_path / "nothing", r"nothing holds no index \(index.json is missing\)")
    (tmp_path / "file").write_text("")
    refuse(tmp_path / "file", r"file holds no index \(index.json is missing\)")
    with pytest.raises(ArtefactError, match=r"file/ids-\w+\.npy cannot be written"):
        make(ExactIndex, 3).save(tmp_path / "file")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"version": 3}, "has version 3; this ddsh reads version 2"),
        ({"kind": "graph"}, "of the kind 'graph', which this ddsh does not have; update ddsh"),
        ({"n_bits": 0}, "damaged .*n_bits is 0"),
        ({"n_bits": 65}, "ids and codes are not those of 300 codes of 65 bits"),
        ({"n_bits": "many"}, "damaged"),
        ({"count": 299}, "ids and codes are not those of 299 codes of 40 bits"),
        ({"generation": "../../etc"}, "names of its files are not those of an index"),
        ({"generation": "0123456789abcdef"}, r"ids-0123456789abcdef.npy is missing; copy the whole folder again"),
        ({"arrays": {}}, "damaged"),
        ({"arrays": 3}, "damaged"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(folder, facts, message):
    change(folder, **facts)
    refuse(folder, message)


@pytest.mark.parametrize(
    "text", ["", "{", "3", "null", "[]", "{}", '{"version": 1}', "[" * 100_000, "\xff", "x" * (1 << 21)]
)
def test_a_manifest_that_is_none_is_refused(folder, text):
    (folder / "index.json").write_text(text, encoding="latin-1")
    refuse(folder, "index.json is damaged")


def test_names_of_arrays_do_not_lead_out_of_the_folder(folder):
    content = json.loads((folder / "index.json").read_text())
    arrays = content["arrays"] | {"../ids": content["arrays"]["ids"]}
    change(folder, arrays=arrays)
    refuse(folder, "names of its files are not those of an index")


@pytest.mark.parametrize("name", ["ids", "codes", "members", "buckets"])
def test_a_truncated_a_missing_and_a_foreign_file_are_refused(folder, name):
    path = file_of(folder, name)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    refuse(folder, rf"{path.name} has {len(content) - 1} bytes; expected {len(content)}")
    path.unlink()
    refuse(folder, rf"{path.name} is missing")
    path.write_bytes(b"\0" * len(content))
    refuse(folder, rf"{path.name} cannot be opened")


def test_a_file_with_python_objects_is_refused_and_not_unpickled(folder):
    path = file_of(folder, "ids")
    np.save(path, np.array([{}] * 300, dtype=object), allow_pickle=True)
    content = json.loads((folder / "index.json").read_text())
    content["arrays"]["ids"]["n_bytes"] = path.stat().st_size
    change(folder, arrays=content["arrays"])
    refuse(folder, "cannot be opened")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 127), value=st.integers(0, 255), name=st.sampled_from(["ids", "codes", "starts"]))
def test_a_header_with_any_byte_changed_is_refused_or_means_the_same(folder, place, value, name):
    path = file_of(folder, name)
    content = path.read_bytes()
    path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
    with suppress(ArtefactError):
        assert load_index(folder).ids.tolist() == list(range(300))
    path.write_bytes(content)


def test_a_table_of_other_codes_is_refused(folder, tmp_path):
    make(BucketsIndex, 200).save(tmp_path / "other")
    ours, others = (json.loads((path / "index.json").read_text()) for path in (folder, tmp_path / "other"))
    file_of(folder, "members").write_bytes(file_of(tmp_path / "other", "members").read_bytes())
    change(folder, arrays=ours["arrays"] | {"members": others["arrays"]["members"]})
    refuse(folder, "the table of buckets is not one of 300 codes of 40 bits")


def test_an_index_saved_by_an_earlier_release_is_loaded(tmp_path):
    with zipfile.ZipFile(Path(__file__).parent / "data" / "index_v1.zip") as archive:
        archive.extractall(tmp_path)
    expected = json.loads((tmp_path / "expected.json").read_text())
    verify(tmp_path)
    index = load_index(tmp_path)
    assert isinstance(index, BucketsIndex)
    assert index._table is not None
    ids, distances = index.search(index.codes_of([0]), 10).of(0)
    assert (ids.tolist(), distances.tolist()) == (expected["ids"], expected["distances"])


@pytest.fixture
def replaced(monkeypatch):
    """Let the first so many readers of a manifest find that the index was saved anew before they open its files."""
    read = _storage.IndexManifest.open.__func__

    def replace(n_times):
        left = [n_times]

        def read_and_replace(cls, folder):
            manifest = read(cls, folder)
            if left[0]:
                left[0] -= 1
                with monkeypatch.context() as patch:
                    patch.setattr(_storage.IndexManifest, "open", classmethod(read))
                    make(ExactIndex, 7).save(folder)
            return manifest

        monkeypatch.setattr(_storage.IndexManifest, "open", classmethod(read_and_replace))

    return replace


def test_an_index_that_is_replaced_while_it_is_opened_is_opened_again(folder, replaced):
    replaced(2)
    assert len(ExactIndex.load(folder)) == 7


def test_an_index_that_is_replaced_all_the_time_is_given_up(folder, replaced):
    replaced(100)
    with pytest.raises(ArtefactError, match="is being replaced all the time; try again when no process saves to it"):
        ExactIndex.load(folder)


def test_a_file_of_another_type_is_refused_although_its_size_fits(folder):
    np.save(file_of(folder, "ids"), np.arange(300, dtype="<i4"))
    refuse(folder, r"ids-\w+\.npy holds int32 \(300,\); expected <u4 \(300,\)")
