import numpy as np
import pytest
from scipy import sparse

from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError
from ddsh.evaluation import LabelledCodes
from ddsh.labels import MultiLabels, as_labels


@pytest.fixture
def codes(rng):
    return BinaryCodes.from_bits(rng.integers(0, 2, (6, 12)))


@pytest.mark.parametrize(
    "labels",
    [np.arange(6), np.array(list("abcabc")), np.eye(6, 9, dtype=int), sparse.csr_array(np.eye(6, 9, dtype=int))],
)
def test_codes_and_labels_survive_a_file(tmp_path, codes, labels):
    LabelledCodes(codes, as_labels(labels)).save(tmp_path / "x.npz")
    found = LabelledCodes.load(tmp_path / "x.npz")
    assert found.codes == codes
    assert type(found.labels) is type(as_labels(labels))
    assert np.array_equal(found.labels.to_array(), as_labels(labels).to_array())


def test_codes_alone_can_be_read_from_the_same_file(tmp_path, codes):
    LabelledCodes(codes, as_labels(np.arange(6))).save(tmp_path / "x.npz")
    assert BinaryCodes.load(tmp_path / "x.npz") == codes


@pytest.mark.parametrize("name", ["signs", "bits", "outputs", "codes"])
def test_codes_made_elsewhere_are_read(tmp_path, codes, name):
    array = {"signs": codes.signs(), "bits": codes.bits(), "outputs": codes.signs() * 0.3, "codes": codes.signs()}[name]
    np.savez(tmp_path / "x.npz", **{name: array}, labels=np.eye(6, 2, dtype=int))
    found = LabelledCodes.load(tmp_path / "x.npz")
    assert found.codes == codes
    assert isinstance(found.labels, MultiLabels)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": [1]}, "holds no codes: .* found labels"),
        ({"bits": [[1]]}, "holds no labels"),
        ({"bits": [[3]], "labels": [1]}, "0 or 1"),
        ({"codes": [["a"]], "labels": [1]}, "numeric"),
        ({"bits": [[1]], "labels": [np.nan]}, "NaN"),
        ({"bits": [[1]], "label_columns": [9], "label_starts": [0, 1], "n_labels": 2}, "damaged labels"),
        ({"bits": [[1]], "label_columns": [0.5], "label_starts": [0, 1], "n_labels": 2}, "whole numbers"),
        ({"bits": [[1]], "label_columns": [0], "label_starts": 0, "n_labels": 2}, "damaged labels"),
        ({"packed": [[1]], "labels": [1]}, "n_bits, version missing"),
    ],
)
def test_a_file_without_codes_or_labels_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ArtefactError, match=message) as caught:
        LabelledCodes.load(tmp_path / "x.npz")
    assert "\n" not in str(caught.value)
    assert "x.npz" in str(caught.value)


def test_rows_that_a_file_lists_as_unlabelled_are_left_out(tmp_path, codes):
    arrays = codes.to_arrays() | {"labels": np.array([0, -1, 1, 0, -1, 1]), "unlabelled": np.array([1, 4])}
    np.savez(tmp_path / "x.npz", **arrays)
    found = LabelledCodes.load(tmp_path / "x.npz")
    assert found.codes == codes[[0, 2, 3, 5]]
    assert found.labels.to_array().tolist() == [0, 1, 0, 1]
