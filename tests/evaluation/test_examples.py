import io

import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import Dataset, Protocol
from ddsh.errors import ArtefactError
from ddsh.evaluation.examples import Examples, draw_examples
from ddsh.images import ArrayImages
from ddsh.labels import as_labels

COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]], np.uint8)


def _dataset(labels, classes, channels=3, side=8):
    pixels = np.zeros((len(labels), side, side, channels), np.uint8)
    pixels[:] = COLOURS[classes][:, None, None, :channels]
    return Dataset("toy", ArrayImages(lambda: pixels, len(labels), "toy"), as_labels(labels), ("red", "green", "blue"))


def _outputs(classes):
    return 2.0 * np.eye(3)[classes] - 1


def _tile(examples, row, column):
    sheet = np.asarray(Image.open(io.BytesIO(examples.jpeg)))
    assert sheet.shape == (32 * len(examples.queries), 32 * examples.columns, 3)
    return sheet[32 * row + 16, 32 * column + 16]


@pytest.mark.parametrize("side", [8, 32])
def test_one_query_of_each_class_is_shown_beside_its_nearest(side):
    classes = np.arange(90) % 3
    dataset = _dataset(classes, classes, side=side)
    split = Protocol("toy", query_per_class=4).split(dataset, 0)
    examples = draw_examples(dataset, split, _outputs(classes[split.query]), _outputs(classes[split.database]))
    assert (examples.tile, examples.columns) == (32, 21)
    assert [query.label for query in examples.queries] == ["red", "green", "blue"]
    for row, query in enumerate(examples.queries):
        assert query.row in split.query
        assert query.hits == [hit for hit in split.database if classes[hit] == classes[query.row]][:20]
        assert (set(query.distances), set(query.labels), set(query.relevant)) == ({0}, {query.label}, {True})
        for column in (0, 20):
            assert _tile(examples, row, column) == pytest.approx(COLOURS[row], abs=10)


def test_a_small_database_makes_a_narrow_sheet_and_irrelevant_hits_are_marked():
    classes = np.arange(9) % 3
    dataset = _dataset(classes, classes, channels=1)
    split = Protocol("toy", query_per_class=1).split(dataset, 0)
    examples = draw_examples(dataset, split, _outputs(classes[split.query]), _outputs(classes[split.database]))
    assert examples.columns == 7
    assert examples.queries[0].distances == [0, 0, 2, 2, 2, 2]
    assert examples.queries[0].relevant == [True, True, False, False, False, False]


def test_images_with_several_classes_carry_all_of_their_names():
    classes = np.arange(60) % 3
    one_hot = np.eye(3, dtype=np.uint8)
    dataset = _dataset(one_hot[classes] | one_hot[(classes + 1) % 3], classes)
    split = Protocol("toy", n_query=6).split(dataset, 0)
    examples = draw_examples(dataset, split, _outputs(classes[split.query]), _outputs(classes[split.database]))
    assert len({query.row for query in examples.queries}) == len(examples.queries)
    assert {query.label for query in examples.queries} <= {"red, green", "green, blue", "red, blue"}


def test_queries_without_classes_give_no_examples():
    dataset = _dataset(np.zeros((20, 3), np.uint8), np.zeros(20, int))
    split = Protocol("toy", n_query=6).split(dataset, 0)
    none = np.zeros(20, int)
    assert draw_examples(dataset, split, _outputs(none[split.query]), _outputs(none[split.database])) is None


def test_images_at_equal_distance_are_ordered_by_their_outputs():
    classes = np.arange(90) % 3
    dataset = _dataset(classes, classes)
    split = Protocol("toy", query_per_class=1).split(dataset, 0)
    closeness = np.random.default_rng(0).random(len(split.database))
    outputs = _outputs(classes[split.database]) * np.stack([1 + 0 * closeness, closeness, closeness], axis=1)
    examples = draw_examples(dataset, split, _outputs(classes[split.query]) * [1, 0.5, 0.5], outputs)
    hits = examples.queries[0].hits
    assert set(examples.queries[0].distances) == {0}
    assert hits != sorted(hits)


def test_examples_without_their_sheet_are_refused_in_one_line(tmp_path):
    classes = np.arange(9) % 3
    dataset = _dataset(classes, classes)
    split = Protocol("toy", query_per_class=1).split(dataset, 0)
    examples = draw_examples(dataset, split, _outputs(classes[split.query]), _outputs(classes[split.database]))
    examples.write(tmp_path / "a.json")
    assert Examples.read(tmp_path / "a.json").jpeg == examples.jpeg
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(ArtefactError, match=r"a\.jpg cannot be read \(No such file or directory\)"):
        Examples.read(tmp_path / "a.json")
