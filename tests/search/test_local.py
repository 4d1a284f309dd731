"""The local store: locking, folders of earlier releases, samples."""

import json
import multiprocessing
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from small_photos import draw

from ddsh import ImageSearch
from ddsh.errors import ArtefactError, Busy, InvalidInput
from ddsh.search.local import LocalStore, is_search, write_lock


def hold_lock(folder, started):
    """Take the lock and keep it until the process is killed."""
    with write_lock(folder, wait=0):
        started.set()
        threading.Event().wait()


def test_two_threads_of_one_process_do_not_write_at_the_same_time(search):
    inside, most = 0, 0
    guard = threading.Lock()

    def work():
        nonlocal inside, most
        for _ in range(5):
            with write_lock(search.folder, wait=30):
                with guard:
                    inside += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    with write_lock(search.folder, wait=0), pytest.raises(Busy), write_lock(search.folder, wait=0.05):
        pass


def test_the_lock_of_another_process_is_respected_and_released_when_it_is_killed(search):
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    process = context.Process(target=hold_lock, args=(search.folder, started))
    process.start()
    try:
        assert started.wait(60)
        with pytest.raises(Busy, match=f"being changed by process {process.pid};"), write_lock(search.folder, wait=0.1):
            pass
    finally:
        process.kill()
        process.join()
    with write_lock(search.folder, wait=5):
        pass


def test_a_search_index_of_an_earlier_release_opens_with_the_same_results(tmp_path):
    with zipfile.ZipFile(Path(__file__).parent / "data" / "search_v1.zip") as archive:
        archive.extractall(tmp_path)
    expected = json.loads((tmp_path / "expected.json").read_text())
    assert is_search(tmp_path)
    with ImageSearch.open(tmp_path) as search:
        assert search.fingerprint == expected["fingerprint"]
        assert [[hit.id, hit.distance, hit.bits] for hit in search.query(5)] == expected["hits"]
        assert search.look_bits == 0
        with pytest.raises(InvalidInput, match=r"no look bits.*make a new index of the same images with: ddsh index"):
            search.query(5, by="look")
        assert [hit.id for hit in search.query(5, label="even")] == expected["even"]
        assert search.entry(12).metadata == {"row": 11}
        assert search.refresh().unchanged == 11
        kept = search.entry(5).path
        assert search.query(kept, k=1)[0].id == 5
        assert search.add(np.zeros((4, 4, 3), np.uint8)).added == (13,)


def test_a_sample_has_as_many_different_ids_as_asked_for(search):
    for n in (1, 5, 17):
        drawn = search.sample(n)
        assert len(set(drawn)) == len(drawn) == n
        assert set(drawn) <= set(search.ids())
    assert sorted(search.sample(18)) == sorted(search.sample(1000)) == search.ids()


def test_a_sample_depends_on_its_seed_only_and_knows_no_removed_image(search):
    assert search.sample(6, seed=1) == search.sample(6, seed=1)
    assert len({tuple(search.sample(6, seed=seed)) for seed in range(10)}) > 5
    search.remove(range(2, 15))
    assert {number for seed in range(20) for number in search.sample(2, seed)} == {1, 15, 16, 17, 18}
    search.remove(search.ids())
    assert search.sample(3) == []


def test_a_folder_that_cannot_be_created_is_refused_in_one_line(tmp_path, model):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match="cannot be created") as caught:
        ImageSearch.create(tmp_path / "file" / "index", model)
    assert "\n" not in str(caught.value)


def test_a_failure_while_creating_leaves_nothing(tmp_path, search):
    def fail(folder):
        raise RuntimeError

    with LocalStore(search.folder, 1) as store, pytest.raises(RuntimeError):
        LocalStore.create(tmp_path / "new", store.manifest, fail, 1)
    assert not [path for path in tmp_path.iterdir() if "new" in path.name]


def test_a_snapshot_shows_one_state_and_may_be_nested(search, rng):
    with LocalStore(search.folder, 1) as store, store.snapshot():
        assert store.count() == 18
        search.add(draw(rng, (1, 2, 3)))
        with store.snapshot():
            assert store.count() == 18
        assert len(store.ids(-1, 100)) == 18
    assert len(search) == 19


def test_the_folder_of_kept_images_is_flushed_before_their_entries_are_written(search, rng, monkeypatch):
    flushed, before = [], len(search)

    def flush(folder):
        with ImageSearch.open(search.folder) as reader:
            flushed.append((folder, len(reader)))

    monkeypatch.setattr("ddsh.search.local.sync_folder", flush)
    search.add([draw(rng, colour) for colour in ((210, 50, 40), (40, 60, 200))])
    assert flushed == 2 * [(search.folder / "images", before)]
    assert len(search) == before + 2
