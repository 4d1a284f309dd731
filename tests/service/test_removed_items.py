"""Removed images: how long they can be restored."""

import numpy as np
import pytest

from ddsh import ImageSearch
from ddsh.service import removed_items
from ddsh.service.removed_items import UNDO_SECONDS, RemovedItems


@pytest.fixture
def search(index):
    with ImageSearch.open(index) as opened:
        yield opened


def add(search, shade):
    return search.add(np.full((16, 16, 3), shade, np.uint8)).added[0]


def test_a_removal_can_be_undone_for_some_minutes_only(search):
    now = [0.0]
    removed, number = RemovedItems(search, lambda: now[0]), add(search, 7)
    removed.remove([number])
    now[0] = UNDO_SECONDS
    assert removed.restore([number]) == ([number], [])
    removed.remove([number])
    now[0] += UNDO_SECONDS + 1
    assert removed.restore([number]) == ([], [number])
    assert list((search.folder / "images").iterdir()) == []


def test_the_oldest_removals_are_forgotten_and_only_their_files_deleted(search, monkeypatch):
    monkeypatch.setattr(removed_items, "MAX_REMOVED", 2)
    removed, numbers = RemovedItems(search), [add(search, shade) for shade in range(3)]
    for number in numbers:
        removed.remove([number])
    assert len(list((search.folder / "images").iterdir())) == 2
    assert removed.restore(numbers) == (numbers[1:], numbers[:1])
    assert all(search.thumbnail(number) for number in numbers[1:])


def test_an_image_of_another_model_is_not_restored(search, tmp_path):
    from ddsh import Model
    from ddsh.methods.lsh import LSH

    other = Model(LSH(n_bits=24, seed=5)).fit(np.random.default_rng(0).integers(0, 255, (50, 16, 16, 3), np.uint8))
    removed = RemovedItems(search)
    removed.remove([1])
    search.upgrade(other)
    assert removed.restore([1]) == ([], [1])
    assert len(search.query(2, k=100)) == 17
