"""Datasets of PyTorch, Hugging Face and plain lists through one adapter."""

import numpy as np
import pytest
from PIL import Image

from ddsh.datasets import Dataset, from_items
from ddsh.errors import BrokenImage, InvalidInput
from ddsh.labels import MultiLabels, SingleLabels

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)


def _items(*labels):
    return [{"image": image, "label": label} for image, label in zip(PIXELS, labels, strict=False)]


class Counting(list):
    """A list that counts how often an item is fetched."""

    fetched = 0

    def __getitem__(self, row):
        self.fetched += 1
        return super().__getitem__(row)


@pytest.mark.parametrize("kind", ["float", "uint8", "pillow"])
def test_a_torch_dataset_of_tensors_or_pillow_images(kind):
    torch = pytest.importorskip("torch")

    class Toy(torch.utils.data.Dataset):
        classes = ("cat", "dog")

        def __len__(self):
            return len(PIXELS)

        def __getitem__(self, row):
            tensor = torch.from_numpy(PIXELS[row]).permute(2, 0, 1)
            image = {"float": tensor / 255, "uint8": tensor, "pillow": Image.fromarray(PIXELS[row])}[kind]
            return image, torch.tensor(row % 2)

    dataset = from_items(Toy(), name="toy")
    assert isinstance(dataset, Dataset)
    assert repr(dataset) == "Dataset(toy: 6 images, 2 classes)"
    assert dataset.class_names == ("cat", "dog")
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.to_array().tolist() == [0, 1, 0, 1, 0, 1]
    assert np.array_equal(np.stack(list(dataset.images)), PIXELS)


def test_a_torch_tensor_dataset_with_label_vectors():
    torch = pytest.importorskip("torch")
    table = torch.tensor([[1, 0], [1, 1], [0, 1], [1, 0], [0, 1], [0, 0]])
    images = torch.from_numpy(PIXELS).permute(0, 3, 1, 2)
    dataset = from_items(torch.utils.data.TensorDataset(images, table), class_names=["sea", "sky"])
    assert isinstance(dataset.labels, MultiLabels)
    assert dataset.labels.to_array().tolist() == table.tolist()
    assert dataset.class_counts() == {"sea": 3, "sky": 3}
    assert np.array_equal(dataset.images[5], PIXELS[5])


@pytest.fixture
def hugging_face():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "img": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "tags": datasets.Sequence(datasets.ClassLabel(names=["sea", "sky", "sun"])),
        }
    )
    columns = {
        "img": [Image.fromarray(image) for image in PIXELS],
        "label": [0, 1, 0, 1, 0, 1],
        "tags": [[0], [1, 2], [], [2], [0, 1], [1]],
    }
    return datasets.Dataset.from_dict(columns, features=features)


def test_a_hugging_face_dataset(hugging_face):
    dataset = from_items(hugging_face, name="hub")
    assert dataset.class_names == ("cat", "dog")
    assert dataset.labels.to_array().tolist() == [0, 1, 0, 1, 0, 1]
    assert np.array_equal(np.stack(list(dataset.images.take(np.arange(6)))), PIXELS)


def test_several_labels_of_a_hugging_face_dataset(hugging_face):
    dataset = from_items(hugging_face, image="img", label="tags")
    assert dataset.class_names == ("sea", "sky", "sun")
    assert dataset.labels.to_array().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1], [1, 1, 0], [0, 1, 0]]


def test_a_hugging_face_dataset_without_decoding(hugging_face):
    import datasets

    dataset = from_items(hugging_face.cast_column("img", datasets.Image(decode=False)))
    assert np.array_equal(dataset.images[3], PIXELS[3])


def test_images_are_fetched_on_access_and_labels_once(tmp_path):
    Image.fromarray(PIXELS[0]).save(tmp_path / "a.png")
    items = Counting([(tmp_path / "a.png", "x"), (str(tmp_path / "gone.png"), "y")])
    dataset = from_items(items)
    assert items.fetched == 3  # one item to learn the form, then one label each
    assert dataset.class_names == ("x", "y")
    assert np.array_equal(dataset.images[0], PIXELS[0])
    assert items.fetched == 4
    with pytest.raises(BrokenImage, match=r"items, item 1: .*gone\.png: does not exist"):
        _ = dataset.images[1]


def test_given_labels_save_fetching_the_items():
    items = Counting(_items(*"abcabc"))
    dataset = from_items(items, label=[0, 1, 1, 0, 0, 1], class_names=("cat", "dog"))
    assert items.fetched == 1
    assert dataset.class_counts() == {"cat": 3, "dog": 3}


def test_names_numbers_and_lists_of_them_are_labels():
    assert from_items(_items("b", "a", "b")).labels.to_array().tolist() == [1, 0, 1]
    assert from_items(_items(0, np.int64(2), 1)).class_names == ("0", "1", "2")
    many = from_items(_items(["b", "a"], [], ["a"]))
    assert many.class_names == ("a", "b")
    assert many.labels.to_array().tolist() == [[1, 1], [0, 0], [1, 0]]
    assert from_items(_items("dog", "cat"), class_names=["cat", "dog"]).labels.to_array().tolist() == [1, 0]


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        ([], {}, "no items"),
        (iter([1]), {}, "__len__ and __getitem__"),
        ([3], {}, "tuples or mappings; got int"),
        ([{"photo": 1, "label": 0}], {}, "image=None is no key of the items; they have photo, label"),
        ([{"image": 1, "label": 0}], {"label": "class"}, "label='class' is no key"),
        ([(1,)], {}, "label=None is no position in the items; they have 1 values"),
        ([(1, 2)], {"image": "image"}, "image='image' is no position"),
        ([(1, None)], {}, "a number or a name .*got None"),
        ([(1, 0.5)], {}, "a number or a name .*got 0.5"),
        ([(1, [["x"]])], {}, "a number or a name"),
        ([(1, 2)], {"class_names": ["a", "b"]}, "label 2 is none of the 2 classes"),
        ([(1, -1)], {}, "label -1 is none of the 0 classes"),
        ([(1, "c")], {"class_names": ["a", "b"]}, "label 'c' is none of the 2 classes"),
        ([(1, np.array([1, 0]))], {"class_names": ["a"]}, "2 values; there are 1 classes"),
        ([(1, np.array([1, 0])), (1, np.array([1]))], {}, "lengths differ"),
        ([(1, np.array([1, 2]))], {}, "only 0 and 1"),
    ],
)
def test_a_source_of_another_form_is_one_clear_line(items, options, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        from_items(items, **options)
    assert "\n" not in str(caught.value)


def test_normalised_tensors_are_refused_with_advice():
    torch = pytest.importorskip("torch")
    dataset = from_items([(torch.full((3, 4, 4), -1.5), 0)])
    with pytest.raises(InvalidInput, match=r"items, item 0: .*0\.\.1; leave out a transform"):
        _ = dataset.images[0]


def test_a_row_beyond_the_end_is_an_index_error():
    dataset = from_items(_items(0, 1))
    with pytest.raises(IndexError):
        _ = dataset.images[2]
    assert len(list(dataset.images)) == 2
