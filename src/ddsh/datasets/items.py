"""Adapter for datasets of PyTorch and Hugging Face: `from_items`."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from ddsh.datasets.base import Dataset
from ddsh.errors import DdshError, InvalidInput
from ddsh.images import Image, Images, as_image
from ddsh.labels import Labels, as_labels

__all__ = ["ItemSource", "from_items"]

_IMAGE_KEYS = ("image", "img")
_LABEL_KEYS = ("label", "labels")
_GROUPS = (list, tuple, set, frozenset)


class ItemSource(Protocol):
    """Anything with a length and items by number: a torch Dataset, a Hugging Face dataset, a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Any: ...  # noqa: ANN401 -- a tuple or a mapping


class _ItemImages(Images):
    """The images of a source, fetched and converted on access."""

    def __init__(self, source: ItemSource, key: str | int, name: str) -> None:
        self._source = source
        self._key = key
        self._name = name

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, row: int) -> Image:
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        value = self._source[row][self._key]
        if isinstance(value, Mapping) and {"bytes", "path"} <= value.keys():  # Hugging Face without decoding
            value = value["bytes"] or value["path"]
        try:
            return as_image(value)
        except DdshError as error:
            raise type(error)(f"{self.name(row)}: {error}") from error

    def name(self, row: int) -> str:
        """Return the name of the dataset and the row."""
        return f"{self._name}, item {row}"


def from_items(
    source: ItemSource,
    image: str | int | None = None,
    label: str | int | Sequence[Any] | None = None,
    class_names: Iterable[str] | None = None,
    name: str = "items",
) -> Dataset:
    """Use a torch Dataset, a Hugging Face dataset or a list of items as a dataset.

    Images are fetched and converted on access; labels are read once.

    Parameters
    ----------
    source : ItemSource
        Anything with ``__len__`` and ``__getitem__`` that returns a tuple or a mapping.
    image : str or int, optional
        Key or position of the image in an item: a Pillow image, a path, bytes, a uint8 array (height, width, channels),
        or a tensor (channels, height, width) of uint8 or of floats in 0..1. By default ``"image"``, ``"img"`` or 0.
    label : str, int or sequence, optional
        Key or position of the label in an item, or the labels themselves (which saves fetching every item, such as
        ``label=source.targets``). By default ``"label"``, ``"labels"`` or 1. A label is a number, a name, a list of
        numbers or names, or an array of 0s and 1s, one for each class.
    class_names : iterable of str, optional
        Names of the classes; by default those of the source (``features`` of Hugging Face, ``classes`` of torchvision),
        or else the labels themselves.
    name : str
        Name of the dataset.

    Returns
    -------
    Dataset
        With the protocol ``own``.

    Raises
    ------
    InvalidInput
        If the source has no items, or its items or labels have another form.

    Examples
    --------
    >>> items = [{"image": np.zeros((8, 8, 3), np.uint8), "label": kind} for kind in ("cat", "dog", "cat")]
    >>> from_items(items, name="pets")
    Dataset(pets: 3 images, 2 classes)
    """
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        raise InvalidInput(f"{name}: expected a source with __len__ and __getitem__; got {type(source).__name__}.")
    if len(source) == 0:
        raise InvalidInput(f"{name}: the source has no items.")
    first = source[0]
    image_key = _find_key(first, image, _IMAGE_KEYS, 0, f"{name}: image")
    key: str | int | None = None
    if label is None or isinstance(label, str | int):
        key = _find_key(first, label, _LABEL_KEYS, 1, f"{name}: label")
        # A column of a Hugging Face dataset is read without decoding the images.
        columns: Any = source if hasattr(source, "column_names") else None
        values = list(columns[key]) if columns is not None else [source[row][key] for row in range(len(source))]
    else:
        values = list(label)
    if class_names is None:
        feature = (getattr(source, "features", None) or {}).get(key)
        feature = getattr(feature, "feature", feature)  # the classes of a list
        found = getattr(feature, "names", None) or getattr(source, "classes", None)
        class_names = found if isinstance(found, list | tuple) and all(isinstance(n, str) for n in found) else None
    labels, names = _read_labels(values, None if class_names is None else tuple(class_names), name)
    return Dataset(name, _ItemImages(source, image_key, name), labels, names)


def _find_key(item: object, given: str | int | None, usual: Sequence[str], position: int, what: str) -> str | int:
    """Return the key or position of a value in the items, and check that the first item has it."""
    if isinstance(item, Mapping):
        key = next((key for key in usual if key in item), None) if given is None else given
        if key is not None and key in item:
            return key
        raise InvalidInput(f"{what}={given!r} is no key of the items; they have {', '.join(map(str, item))}.")
    if isinstance(item, tuple | list):
        at = position if given is None else given
        if isinstance(at, int) and 0 <= at < len(item):
            return at
        raise InvalidInput(f"{what}={given!r} is no position in the items; they have {len(item)} values.")
    raise InvalidInput(f"{what}: items are tuples or mappings; got {type(item).__name__}.")


def _read_labels(
    values: Sequence[Any], class_names: tuple[str, ...] | None, name: str
) -> tuple[Labels, tuple[str, ...]]:
    """Return labels as positions in the class names, and the class names."""
    if len(getattr(values[0], "shape", ())):  # arrays and tensors are 0/1 vectors
        try:
            table = np.stack([np.asarray(value) for value in values])
        except ValueError as error:
            raise InvalidInput(f"{name}: label vectors must have one value per class; their lengths differ.") from error
        names = tuple(map(str, range(table.shape[1]))) if class_names is None else class_names
        if len(names) != table.shape[1]:
            raise InvalidInput(f"{name}: label vectors have {table.shape[1]} values; there are {len(names)} classes.")
        return as_labels(sparse.csr_array(table)), names
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    many = isinstance(plain[0], _GROUPS)
    groups = [value if many and isinstance(value, _GROUPS) else (value,) for value in plain]
    flat = [label for group in groups for label in group]
    wrong = [label for label in flat if isinstance(label, bool) or not isinstance(label, int | str)]
    if wrong:
        raise InvalidInput(f"{name}: a label is a number or a name (or a list of them); got {reprlib.repr(wrong[0])}.")
    if class_names is None:
        numbers = [label for label in flat if isinstance(label, int)]
        class_names = tuple(map(str, range(max(numbers) + 1))) if numbers else tuple(sorted(set(flat)))
    position: dict[int | str, int] = {label: number for number, label in enumerate(class_names)}
    position |= {number: number for number in range(len(class_names))}
    unknown = [label for label in flat if label not in position]
    if unknown:
        raise InvalidInput(f"{name}: label {reprlib.repr(unknown[0])} is none of the {len(class_names)} classes.")
    columns = np.array([position[label] for label in flat], np.int64)
    if not many:
        return as_labels(columns), class_names
    starts = np.cumsum([0, *map(len, groups)])
    matrix = sparse.csr_array((np.ones(len(columns), np.int32), columns, starts), shape=(len(groups), len(class_names)))
    return as_labels(matrix), class_names
