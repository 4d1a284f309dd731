"""What is computed once is found again, whoever asks and however the last writer ended."""

import multiprocessing

import numpy as np
import pytest

from ddsh.backbones.cache import ActivationCache, content_key
from ddsh.errors import ArtefactError

SHAPE = (2, 3)


def compute(images):
    """Rows that tell which image they are of."""
    return np.stack([np.full(SHAPE, image.sum(), np.float32) for image in images])


def refuse(images):
    raise AssertionError(f"{len(images)} images were computed again")


@pytest.fixture
def images(rng):
    return list(rng.integers(0, 256, (7, 4, 5, 3), dtype=np.uint8))


def test_an_image_is_computed_once(tmp_path, images):
    first = ActivationCache(tmp_path, SHAPE).get(images, compute)
    assert np.array_equal(first, compute(images))
    assert np.array_equal(ActivationCache(tmp_path, SHAPE).get(images[::-1], refuse), first[::-1])


def test_only_what_is_missing_is_computed(tmp_path, images):
    store, asked = ActivationCache(tmp_path, SHAPE), []
    store.get(images[:3], compute)
    store.get(images, lambda missing: asked.append(len(missing)) or compute(missing))
    assert asked == [4]


def test_an_image_that_comes_twice_is_kept_once(tmp_path, images):
    rows = ActivationCache(tmp_path, SHAPE).get([images[0], images[1], images[0]], compute)
    assert np.array_equal(rows, compute([images[0], images[1], images[0]]))
    assert (tmp_path / "keys.bin").stat().st_size == 2 * 16


def test_images_with_the_same_bytes_in_another_shape_are_different(images):
    assert content_key(images[0]) != content_key(images[0].reshape(5, 4, 3))


@pytest.mark.parametrize("cut", [1, 5, 24, 30])
def test_rows_that_were_cut_off_are_computed_again(tmp_path, images, cut):
    ActivationCache(tmp_path, SHAPE).get(images, compute)
    rows = tmp_path / "rows.f32"
    rows.write_bytes(rows.read_bytes()[:-cut])
    assert np.array_equal(ActivationCache(tmp_path, SHAPE).get(images, compute), compute(images))
    assert np.array_equal(ActivationCache(tmp_path, SHAPE).get(images, refuse), compute(images))


@pytest.mark.parametrize("cut", [1, 16, 20])
def test_rows_without_a_key_are_overwritten(tmp_path, images, cut):
    ActivationCache(tmp_path, SHAPE).get(images, compute)
    keys = tmp_path / "keys.bin"
    keys.write_bytes(keys.read_bytes()[:-cut])
    assert np.array_equal(ActivationCache(tmp_path, SHAPE).get(images[::-1], compute), compute(images)[::-1])
    assert np.array_equal(ActivationCache(tmp_path, SHAPE).get(images, refuse), compute(images))


def _fill(folder, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(60)
    images = [np.full((1, 1, 1), number, np.uint8) for number in order]
    store = ActivationCache(folder, SHAPE)
    for start in range(0, 60, 5):
        store.get(images[start : start + 5], compute)


def test_processes_that_share_a_folder_do_not_harm_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(tmp_path, seed)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    images = [np.full((1, 1, 1), number, np.uint8) for number in range(60)]
    assert np.array_equal(ActivationCache(tmp_path, SHAPE).get(images, refuse), compute(images))
    assert (tmp_path / "keys.bin").stat().st_size == 60 * 16


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArtefactError, match="cannot be used as a cache"):
        ActivationCache(tmp_path / "file", SHAPE)


def test_a_full_disk_is_one_clear_line(tmp_path, images):
    (tmp_path / "rows.f32").symlink_to("/dev/full")
    with pytest.raises(ArtefactError, match="is full or read-only"):
        ActivationCache(tmp_path, SHAPE).get(images, compute)
