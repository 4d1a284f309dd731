import numpy as np
import pytest
from scipy.io import savemat

from ddsh.datasets import svhn
from ddsh.errors import DataError
from ddsh.labels import SingleLabels


def _write(folder, name, digits, images, compress=True):
    savemat(folder / name, {"X": images, "y": np.asarray(digits, np.uint8)[:, None]}, do_compression=compress)


@pytest.fixture
def parts(tmp_path, rng):
    images = [rng.integers(0, 256, (32, 32, 3, n), np.uint8) for n in (5, 3)]
    _write(tmp_path, "train_32x32.mat", [10, 1, 2, 9, 10], images[0])
    _write(tmp_path, "test_32x32.mat", [3, 10, 4], images[1], compress=False)
    return images


def test_label_ten_is_digit_zero(tmp_path, parts):
    dataset = svhn.load(tmp_path)
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.values.tolist() == [0, 1, 2, 9, 0, 3, 0, 4]
    assert dataset.class_counts()["0"] == 3
    assert dataset.parts["test"].tolist() == [5, 6, 7]


def test_images_come_out_upright(tmp_path, parts):
    dataset = svhn.load(tmp_path)
    assert np.array_equal(dataset.images[1], parts[0][..., 1])
    assert np.array_equal(dataset.images[6], parts[1][..., 1])


@pytest.mark.parametrize(
    ("digits", "n_images", "message"),
    [
        ([1, 2], 3, "2 labels but images X of shape"),
        ([0, 1, 2], 3, "labels must be 1 to 10"),
        ([1, 2, 11], 3, "1 to 10"),
    ],
)
def test_labels_are_checked(tmp_path, parts, digits, n_images, message):
    _write(tmp_path, "test_32x32.mat", digits, np.zeros((32, 32, 3, n_images), np.uint8))
    with pytest.raises(DataError, match=message):
        svhn.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"text", None, {"X": np.zeros((32, 32, 3, 1), np.uint8)}])
def test_a_damaged_file_is_refused(tmp_path, parts, content):
    path = tmp_path / "test_32x32.mat"
    if isinstance(content, dict):
        savemat(path, content)
    else:
        path.write_bytes(path.read_bytes()[:1000] if content is None else content)
    with pytest.raises(DataError, match=r"test_32x32\.mat") as caught:
        svhn.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path, parts):
    (tmp_path / "train_32x32.mat").unlink()
    with pytest.raises(DataError, match=r"train_32x32\.mat missing.*ddsh data fetch svhn"):
        svhn.load(tmp_path)
