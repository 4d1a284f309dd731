"""Refreshing an index whose files changed, moved or are gone."""

import hashlib
import os
import shutil
import threading

import numpy as np
import pytest
from PIL import Image
from small_photos import draw, touch

from ddsh import ImageSearch
from ddsh.images import encode_png
from ddsh.search.indexer import map_in_threads


def test_nothing_happened_to_files_that_are_as_they_were(search):
    report = search.refresh()
    assert (report.unchanged, report.changed, report.moved, report.removed) == (18, (), (), ())
    assert search.info().generation == 2


def test_a_file_with_another_time_but_the_same_content_is_unchanged(search, photos):
    touch(photos / "red" / "0.png")
    assert search.refresh().unchanged == 18
    generation = search.info().generation
    assert search.refresh().unchanged == 18
    assert search.info().generation == generation


def test_a_changed_file_gets_a_new_code_and_keeps_its_id(search, photos, rng):
    path = photos / "red" / "0.png"
    number, picture = search.id_of(path), draw(rng, (0, 250, 250))
    Image.fromarray(picture).save(path)
    touch(path)
    report = search.refresh()
    assert (report.changed, report.unchanged) == ((number,), 17)
    assert number in {hit.id for hit in search.query(picture, radius=0)}
    assert search.info().n_contents == 18


def test_files_that_exchange_their_contents_are_both_changed(search, photos):
    one, two = photos / "red" / "0.png", photos / "blue" / "0.png"
    codes = {path: search.query(search.id_of(path), k=1)[0].bits for path in (one, two)}
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    touch(one)
    touch(two)
    report = search.refresh()
    assert sorted(report.changed) == sorted([search.id_of(one), search.id_of(two)])
    assert search.query(search.id_of(one), k=1)[0].bits == codes[two]


def test_a_moved_file_is_followed_with_its_id_labels_and_metadata(search, photos):
    path, there = photos / "red" / "0.png", photos / "deep" / "er" / "new.png"
    search.add([path], labels=["kept"], metadata=[{"n": 1}])
    number = search.id_of(path)
    there.parent.mkdir(parents=True)
    path.rename(there)
    report = search.refresh()
    assert (report.moved, report.removed, report.unchanged) == ((number,), (), 17)
    entry = search.entry(number)
    assert (entry.path, entry.labels, entry.metadata) == (str(there), ("kept",), {"n": 1})


def test_adding_a_moved_file_moves_it_too(search, photos, tmp_path):
    path = photos / "red" / "0.png"
    number = search.id_of(path)
    path.rename(tmp_path / "outside.png")
    report = search.add(tmp_path / "outside.png")
    assert (report.moved, report.added, report.encoded) == ((number,), (), 0)
    assert search.entry(number).path == str(tmp_path / "outside.png")


def test_two_equal_files_that_moved_are_both_followed(search, photos):
    shutil.copy(photos / "red" / "0.png", photos / "copy.png")
    search.add(photos)
    ids = {search.id_of(photos / "red" / "0.png"), search.id_of(photos / "copy.png")}
    (photos / "red" / "0.png").rename(photos / "a.png")
    (photos / "copy.png").rename(photos / "b.png")
    assert set(search.refresh().moved) == ids
    assert {search.id_of(photos / "a.png"), search.id_of(photos / "b.png")} == ids


def test_a_deleted_file_is_removed(search, photos):
    number = search.id_of(photos / "red" / "0.png")
    (photos / "red" / "0.png").unlink()
    report = search.refresh()
    assert (report.removed, report.unchanged, len(search)) == ((number,), 17, 17)
    assert number not in {hit.id for hit in search.query(1, k=100)}


def test_a_folder_of_the_collection_that_was_deleted_is_removed(search, photos):
    shutil.rmtree(photos / "red")
    assert len(search.refresh().removed) == 6


@pytest.mark.parametrize("leaves_empty_place", [True, False])
def test_images_of_a_disk_that_is_not_plugged_in_are_left_alone(search, photos, tmp_path, leaves_empty_place):
    photos.rename(tmp_path / "unplugged")
    if leaves_empty_place:
        photos.mkdir()
    report = search.refresh()
    assert (report.removed, report.out_of_reach, len(search)) == ((), (str(photos),), 18)


def test_a_file_that_was_added_alone_is_left_alone_with_its_folder(tmp_path, model, photos):
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(sorted(photos.rglob("*.png")))
        (photos / "red" / "0.png").unlink()
        shutil.rmtree(photos / "blue")
        report = search.refresh()
        assert (len(report.removed), report.out_of_reach) == (1, (str(photos / "blue"),))


def test_a_file_that_became_broken_is_removed_and_listed(search, photos):
    path = photos / "red" / "0.png"
    number = search.id_of(path)
    path.write_text("no image any more")
    report = search.refresh()
    assert report.removed == (number,)
    assert [skipped.path for skipped in report.broken] == [str(path)]


def test_new_files_are_not_added_and_removed_ones_do_not_come_back(search, photos, rng):
    Image.fromarray(draw(rng, (9, 9, 9))).save(photos / "new.png")
    (photos / "red" / "0.png").unlink()
    search.remove([search.id_of(photos / "blue" / "0.png")])
    search.refresh()
    assert len(search) == 16
    assert search.id_of(photos / "new.png") is None


def test_kept_images_that_nobody_refers_to_are_cleared_away(search, rng):
    kept = search.add(draw(rng, (9, 9, 9))).added[0]
    stray = search.folder / "images" / "stray.png"
    stray.write_bytes(b"of an addition that was cut short")
    search.refresh()
    assert not stray.exists()
    assert np.asarray(Image.open(search.entry(kept).path)).shape == (16, 16, 3)


def test_a_change_that_keeps_size_and_time_is_found_by_checksum_only(search, photos, rng):
    path = photos / "red" / "0.png"
    before, content = path.stat(), path.read_bytes()
    other = next(
        data for data in (encode_png(draw(rng, (90, 90, 90))) for _ in range(100_000)) if len(data) <= len(content)
    )
    path.write_bytes(other + bytes(len(content) - len(other)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    number = search.id_of(path)
    assert search.refresh().changed == ()
    assert search.refresh(checksum=True).changed == (number,)
    assert search.entry(number).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_results_are_computed_ahead_while_the_last_one_is_used():
    begun = threading.Semaphore(0)

    def work(item):
        begun.release()
        return item

    results = map_in_threads(work, range(20), ahead=8)
    assert next(results) == 0
    for _ in range(9):  # the first one, and eight more that nobody has asked for
        assert begun.acquire(timeout=60)
    assert not begun.acquire(timeout=0.1)
    assert list(results) == list(range(1, 20))
