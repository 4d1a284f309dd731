"""Registry of datasets, and `load`: a dataset by name, path or function."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from ddsh.datasets import cifar10, flickr8k, lists, svhn
from ddsh.datasets.base import Dataset, ProgressCallback
from ddsh.datasets.download import SOURCES
from ddsh.datasets.folder import load_folder
from ddsh.datasets.table import TABLES, load_table
from ddsh.errors import DataError, InvalidInput, UnknownName
from ddsh.plugins import find_object

__all__ = ["DATASETS", "ENTRY_POINTS", "DatasetCard", "load", "recognise", "register"]

ENTRY_POINTS = "ddsh.datasets"
"""Entry point group of datasets in other packages."""

_REFERENCE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
_FOLDER_PARAMETERS = frozenset({"root", "folder", "path"})


@dataclass(frozen=True)
class DatasetCard:
    """Description of a dataset that can be loaded by name.

    Parameters
    ----------
    name : str
        Its name.
    title : str
        One line about it.
    loader : str or callable
        A function that returns the dataset, or ``module:function``.
    folders : tuple of str
        Subfolders of the data root that may hold it; empty if it needs no files.
    recognise : callable, optional
        Returns whether a folder holds its official files. None for a dataset from outside the package, whose loader
        gets the subfolder of its name if there is one, otherwise the data root.
    package : str, optional
        The installed package it comes from, if not ddsh.
    """

    name: str
    title: str
    loader: str | Callable[..., Dataset]
    folders: tuple[str, ...] = ()
    recognise: Callable[[Path], bool] | None = None
    package: str | None = None

    def find(self, root: str | os.PathLike[str] | None) -> Path | None:
        """Return the folder under `root` (or `root` itself) that holds the files of the dataset, or None."""
        if root is None or not self.folders:
            return None
        if self.recognise is None:
            return next((Path(root, folder) for folder in self.folders if Path(root, folder).is_dir()), None)
        places = [*(Path(root, folder) for folder in self.folders), Path(root)]
        return next((place for place in places if self.recognise(place)), None)

    def where(self, root: str | os.PathLike[str] | None) -> str:
        """Return where the dataset was found, in a few words."""
        if found := self.find(root):
            return str(found)
        if self.recognise is None:
            return f"package {self.package}" if self.package else "registered"
        return "not found" if self.folders else "with the package"

    def load(self, root: str | os.PathLike[str] | None = None) -> Dataset:
        """Load the dataset.

        Parameters
        ----------
        root : path, optional
            Folder of the datasets.
        """
        if self.recognise is None:
            return _call_loader(self.name, self.loader, self.find(root) or root)
        if not self.folders:
            return _call_loader(self.name, self.loader, None)
        if root is None:
            raise DataError(
                f"{self.name}: say where your datasets are: root=... (command line: --root DIR or DDSH_DATA)."
            )
        if folder := self.find(root):
            return _call_loader(self.name, self.loader, folder)
        can_fetch = self.name in SOURCES
        advice = f"Run: ddsh data fetch {self.name} --root {root}" if can_fetch else "Put its official files there."
        raise DataError(f"{self.name}: its files are not in {root} (looked in {', '.join(self.folders)}). {advice}")


class _Registry(Mapping[str, DatasetCard]):
    """Built-in and registered datasets, and those of the entry points of installed packages."""

    def __init__(self, *cards: DatasetCard) -> None:
        self.cards = {card.name: card for card in cards}

    def __getitem__(self, name: str) -> DatasetCard:
        if name in self.cards:
            return self.cards[name]
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            return _card_of(entry)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.cards, *sorted(entry_points(group=ENTRY_POINTS).names)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _card_of(entry: EntryPoint) -> DatasetCard:
    """Describe an entry point without importing it."""
    package = entry.dist.name if entry.dist else "unknown"
    return DatasetCard(entry.name, f"{entry.value} of package {package}", entry.value, (entry.name,), package=package)


def _has_idx_files(path: Path) -> bool:
    return any(path.glob("t10k-images*idx3-ubyte*"))


def _is_fashion(path: Path) -> bool:
    """Return whether the path names Fashion-MNIST, whose files have the names of MNIST's."""
    return "fashion" in str(path.resolve()).lower()


DATASETS: Mapping[str, DatasetCard] = _Registry(
    DatasetCard(
        "sample",
        "11,000 Fashion-MNIST images that come with ddsh",
        "ddsh.datasets.mnist:load_sample",
        recognise=lambda path: False,
    ),
    DatasetCard(
        "cifar10",
        "60,000 colour images of 10 classes, 32 x 32",
        "ddsh.datasets.cifar10:load",
        ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-batches-mat", "cifar10"),
        lambda path: cifar10.distribution(path) is not None,
    ),
    DatasetCard(
        "svhn",
        "99,289 house-number digits, 32 x 32",
        "ddsh.datasets.svhn:load",
        ("svhn", "SVHN"),
        lambda path: all((path / name).is_file() for name in svhn.FILES.values()),
    ),
    DatasetCard(
        "nuswide",
        "269,648 photos with 81 concepts; the 10 most frequent keep 186,577",
        "ddsh.datasets.nuswide:load",
        ("nuswide", "NUS-WIDE", "NUS_WIDE", "nus-wide", "nus_wide"),
        lambda path: (path / "ImageList").is_dir() and (path / "Groundtruth").is_dir(),
    ),
    DatasetCard(
        "flickr8k",
        "7,608 Flickr photos with ten concepts derived from their captions",
        "ddsh.datasets.flickr8k:load",
        ("flickr8k", "Flickr8k"),
        lambda path: (path / flickr8k.TABLE).is_file(),
    ),
    DatasetCard(
        "fashion-mnist",
        "70,000 grey images of 10 kinds of clothing, 28 x 28",
        "ddsh.datasets.mnist:load_fashion",
        ("fashion-mnist", "FashionMNIST/raw"),
        lambda path: _has_idx_files(path) and _is_fashion(path),
    ),
    DatasetCard(
        "mnist",
        "70,000 grey images of handwritten digits, 28 x 28",
        "ddsh.datasets.mnist:load_mnist",
        ("mnist", "MNIST/raw"),
        lambda path: _has_idx_files(path) and not _is_fashion(path),
    ),
)
"""The datasets by name: built in, registered, or from the entry points of installed packages."""


def register(name: str, loader: str | Callable[..., Dataset], title: str = "") -> None:
    """Make a dataset known by name in this process.

    Parameters
    ----------
    name : str
        Its name.
    loader : callable or str
        A function that returns a :class:`Dataset`, or ``module:function``. A parameter named ``root``, ``folder`` or
        ``path``, or else its only required parameter, gets the data folder.
    title : str
        One line about it.
    """
    assert isinstance(DATASETS, _Registry)
    if name in DATASETS:
        raise InvalidInput(f"There is already a dataset {name!r}; choose another name.")
    DATASETS.cards[name] = DatasetCard(name, title or name, loader, (name,))


def load(
    name_or_path: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    strict: bool = False,
    verify: bool = True,
    on_progress: ProgressCallback | None = None,
) -> Dataset:
    """Load a dataset by name, your own images by path, or a dataset that a function returns.

    Parameters
    ----------
    name_or_path : str or path
        A name (as str) of :data:`DATASETS`; a folder with one subfolder per class; a ``.csv``, ``.tsv`` or ``.jsonl``
        table with paths and labels; a list of ``path 0 1 0 ...``; a folder with the files of a known dataset; or
        ``module:function``, a function that returns a :class:`Dataset`.
    root : path, optional
        Folder of the named datasets. It is passed to a function that has a parameter ``root``, ``folder`` or
        ``path``, or one required parameter.
    images_root : path, optional
        Folder that the paths of a list are relative to; the folder of the list by default.
    strict : bool
        Refuse a dataset with broken files, instead of leaving them out (folders and tables) or raising when they are
        accessed (lists and NUS-WIDE, whose labels can be used without images).
    verify : bool
        Decode each image of a folder or table once to find broken ones; otherwise only check that the files exist.
    on_progress : callable, optional
        Called with (done, total) while files are checked.

    Returns
    -------
    Dataset
        Its images are decoded on access.
    """
    given = os.fspath(name_or_path)
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and given in DATASETS:
        dataset = DATASETS[given].load(root)
    elif given and (path.exists() or lists.is_prefix(path)):
        card = recognise(path)
        has_folders = path.is_dir() and any(child.is_dir() for child in path.iterdir())
        if card is not None:
            dataset = _call_loader(card.name, card.loader, path)
        elif path.suffix.lower() == ".txt" or (lists.is_prefix(path) and not has_folders):
            dataset = lists.load(path, images_root=images_root)
        elif path.suffix.lower() in TABLES:
            return load_table(path, strict=strict, verify=verify, on_progress=on_progress)
        else:
            return load_folder(path, strict=strict, verify=verify, on_progress=on_progress)
    elif isinstance(name_or_path, str) and _REFERENCE.fullmatch(given):
        dataset = _call_loader(given, given, root)
    elif any(character in given for character in "/\\."):
        raise DataError(f"{given} does not exist; give a dataset's name, a folder or a table.")
    else:
        raise UnknownName("dataset (and no such folder)", given, DATASETS)
    if strict:
        from ddsh.datasets.inspection import refuse_broken

        refuse_broken(dataset, on_progress)
    return dataset


def recognise(path: str | os.PathLike[str]) -> DatasetCard | None:
    """Return the dataset whose official files are in this folder, or None."""
    assert isinstance(DATASETS, _Registry)
    cards = DATASETS.cards.values()
    return next((card for card in cards if card.recognise and card.recognise(Path(path))), None)


def _call_loader(name: str, loader: str | Callable[..., Dataset], root: str | os.PathLike[str] | None) -> Dataset:
    """Import a loader if needed, and call it with the data folder if it takes one."""
    if isinstance(loader, str):
        try:
            found: object = find_object(loader, ENTRY_POINTS)
        except InvalidInput as error:
            raise DataError(f"Dataset {name!r}: {error}") from error
    else:
        found = loader
    if not callable(found):
        raise DataError(f"Dataset {name!r}: {loader} is no function; expected one that returns a Dataset.")
    parameters = inspect.signature(found).parameters.values()
    wanted = next((parameter for parameter in parameters if parameter.name in _FOLDER_PARAMETERS), None)
    if wanted is None:
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        wanted = next((p for p in parameters if p.default is p.empty and p.kind in positional), None)
    if wanted is None or (root is None and wanted.default is not wanted.empty):
        dataset = found()
    elif root is None:
        raise DataError(f"{name}: say where its files are: root=... (command line: --root DIR or DDSH_DATA).")
    elif wanted.kind is wanted.POSITIONAL_ONLY:
        dataset = found(Path(root))
    else:
        dataset = found(**{wanted.name: Path(root)})
    if not isinstance(dataset, Dataset):
        raise DataError(f"Dataset {name!r}: its loader returned {type(dataset).__name__}; expected a Dataset.")
    return dataset
