"""Training data from the labels of an index."""

import numpy as np
import pytest
from small_photos import touch

from ddsh.datasets import get_protocol
from ddsh.errors import DataError
from ddsh.labels import MultiLabels, SingleLabels
from ddsh.search import LabelChange
from ddsh.search.labelled_entries import labelled_entries


def test_the_labelled_images_are_for_training_and_all_are_for_look_bits(search):
    search.change_labels([LabelChange((1, 2, 8), add=("sea",)), LabelChange((4, 5), add=("land",))])
    dataset, images = labelled_entries(search)
    assert (dataset.class_names, isinstance(dataset.labels, SingleLabels)) == (("land", "sea"), True)
    assert [dataset.images.name(row) for row in range(5)] == [entry.path for entry in search.entries([1, 2, 4, 5, 8])]
    assert dataset.labels.to_array().tolist() == [1, 1, 0, 0, 1]
    split = get_protocol(dataset.protocol).split(dataset, 0)
    assert (len(split.query), split.train.tolist()) == (0, [0, 1, 2, 3, 4])
    assert len(images) == 18


def test_several_labels_of_an_image_are_kept(search):
    search.change_labels([LabelChange((1, 2), add=("sea", "boat")), LabelChange((3,), add=("sea",))])
    dataset, _ = labelled_entries(search)
    assert isinstance(dataset.labels, MultiLabels)
    assert dataset.labels.to_array().tolist() == [[1, 1], [1, 1], [0, 1]]


def test_missing_and_damaged_files_are_counted_and_changed_ones_used(search):
    search.change_labels([LabelChange(tuple(range(1, 10)), add=("a",)), LabelChange(tuple(range(10, 19)), add=("b",))])
    paths = [entry.path for entry in search.entries([1, 2, 3])]
    touch(search.folder.parent / paths[2])
    for path, content in zip(paths[:2], (None, b"no image"), strict=True):
        file = search.folder.parent / path
        file.unlink() if content is None else file.write_bytes(content)
    dataset, images = labelled_entries(search)
    assert (len(dataset), len(images)) == (16, 16)
    assert [skipped.path for skipped in dataset.skipped] == paths[:2]
    assert dataset.skipped[0].reason == "No such file or directory"
    assert np.asarray(dataset.images[0]).shape == (16, 16, 3)


@pytest.mark.parametrize(("labels", "words"), [((), "has no labels"), (("sea",), "has only the label 'sea'")])
def test_fewer_than_two_labels_are_refused_with_advice(search, labels, words):
    search.change_labels(LabelChange((1, 2), add=labels))
    with pytest.raises(DataError, match=f"{words}; label images of two kinds") as caught:
        labelled_entries(search)
    assert "Search by look works without labels" in str(caught.value)
