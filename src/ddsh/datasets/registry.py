"""The datasets ddsh knows by name, and how a folder or file is recognised."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddsh.datasets import cifar10, lists, own, svhn
from ddsh.datasets.check import refuse_broken
from ddsh.datasets.dataset import Dataset
from ddsh.datasets.sources import SOURCES
from ddsh.datasets.tables import TABLES
from ddsh.errors import DataError, UnknownName


@dataclass(frozen=True)
class DatasetCard:
    """What is known of a dataset before it is read.

    Parameters
    ----------
    name : str
        What it is called on the command line.
    title : str
        One line about it.
    loader : str
        ``module:function`` that reads it from a folder.
    folders : tuple of str
        Sub-folders of the data root where it is looked for; none for what comes with the package.
    """

    name: str
    title: str
    loader: str
    folders: tuple[str, ...]

    def find(self, root: Path | None) -> Path | None:
        """Return the folder under `root` (or `root` itself) that holds the dataset's files, or None."""
        if root is None:
            return None
        places = [*(root / folder for folder in self.folders), root]
        return next((place for place in places if _LOOKS_LIKE[self.name](place)), None)


DATASETS: Mapping[str, DatasetCard] = {
    card.name: card
    for card in (
        DatasetCard("sample", "11,000 Fashion-MNIST images that come with ddsh", "ddsh.datasets.idx:load_sample", ()),
        DatasetCard(
            "cifar10",
            "60,000 colour images of 10 classes, 32 x 32",
            "ddsh.datasets.cifar10:load",
            ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-batches-mat", "cifar10"),
        ),
        DatasetCard("svhn", "99,289 house-number digits, 32 x 32", "ddsh.datasets.svhn:load", ("svhn", "SVHN")),
        DatasetCard(
            "nuswide",
            "269,648 photos with 81 concepts; the 10 most frequent keep 186,577",
            "ddsh.datasets.nuswide:load",
            ("nuswide", "NUS-WIDE", "NUS_WIDE", "nus-wide", "nus_wide"),
        ),
        DatasetCard(
            "fashion-mnist",
            "70,000 grey images of 10 kinds of clothing, 28 x 28",
            "ddsh.datasets.idx:load_fashion",
            ("fashion-mnist", "FashionMNIST/raw"),
        ),
        DatasetCard(
            "mnist",
            "70,000 grey images of handwritten digits, 28 x 28",
            "ddsh.datasets.idx:load_mnist",
            ("mnist", "MNIST/raw"),
        ),
    )
}


def load(
    name_or_path: str | Path,
    *,
    root: str | Path | None = None,
    images_root: str | Path | None = None,
    strict: bool = False,
    verify: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Read a dataset by name, or your own images by path.

    Parameters
    ----------
    name_or_path : str or path
        A name (as str) of :data:`DATASETS`; or a folder with one subfolder per class; or a ``.csv``, ``.tsv`` or
        ``.jsonl`` table with a path and labels; or a list of ``path 0 1 0 ...``; or a folder with the files of a known
        dataset.
    root : path, optional
        The folder where named datasets are kept.
    images_root : path, optional
        The folder that the paths of a list start from; the list's own if not given.
    strict : bool
        Refuse a dataset if a file is broken, instead of leaving it out (your own images) or finding out when it is
        asked for (lists and NUS-WIDE, whose labels are useful alone).
    verify : bool
        Decode each of your own images once to find the broken ones; otherwise only see that the files are there.
    on_progress : callable, optional
        Called with (done, total) while your own files are checked.

    Returns
    -------
    Dataset
        Its images are read only when they are asked for.
    """
    if isinstance(name_or_path, str) and name_or_path in DATASETS:
        dataset = _load_named(DATASETS[name_or_path], None if root is None else Path(root))
    else:
        path = Path(name_or_path)
        if not str(name_or_path) or not (path.exists() or lists.is_prefix(path)):
            raise _not_found(str(name_or_path))
        card = recognise(path)
        if card is None and not _names_lists(path):
            load_own = own.load_table if path.suffix.lower() in TABLES else own.load_folder
            return load_own(path, strict=strict, verify=verify, on_progress=on_progress)
        dataset = (
            _loader(card)(path) if card else lists.load(path, images_root=Path(images_root) if images_root else None)
        )
    if strict:
        refuse_broken(dataset, on_progress)
    return dataset


def _has_idx_files(path: Path) -> bool:
    return any(path.glob("t10k-images*idx3-ubyte*"))


def _is_fashion(path: Path) -> bool:
    """Return whether idx files are Fashion-MNIST's: they have MNIST's names, so only the folder can tell."""
    return _has_idx_files(path) and "fashion" in str(path.resolve()).lower()


_LOOKS_LIKE: Mapping[str, Callable[[Path], bool]] = {
    "sample": lambda path: False,
    "cifar10": lambda path: cifar10.distribution(path) is not None,
    "svhn": lambda path: all((path / name).is_file() for name in svhn.FILES.values()),
    "nuswide": lambda path: (path / "ImageList").is_dir() and (path / "Groundtruth").is_dir(),
    "fashion-mnist": _is_fashion,
    "mnist": lambda path: _has_idx_files(path) and not _is_fashion(path),
}


def recognise(path: Path) -> DatasetCard | None:
    """Return the known dataset whose official files are in this folder, if there is one."""
    return next((DATASETS[name] for name, looks_like in _LOOKS_LIKE.items() if looks_like(path)), None)


def _load_named(card: DatasetCard, root: Path | None) -> Dataset:
    loader = _loader(card)
    if not card.folders:
        return loader()
    if root is None:
        raise DataError(f"{card.name}: say where your datasets are: root=... (command line: --root DIR or DDSH_DATA).")
    folder = card.find(root)
    if folder is not None:
        return loader(folder)
    advice = (
        f"Run: ddsh data fetch {card.name} --root {root}" if card.name in SOURCES else "Put its official files there."
    )
    raise DataError(f"{card.name}: its files are not in {root} (looked in {', '.join(card.folders)}). {advice}")


def _names_lists(path: Path) -> bool:
    """Return whether `path` is a list, a prefix of lists, or a folder with lists and no subfolder for a class."""
    if path.suffix.lower() == ".txt":
        return True
    return lists.is_prefix(path) and not (path.is_dir() and any(child.is_dir() for child in path.iterdir()))


def _not_found(given: str) -> DataError | UnknownName:
    if "/" in given or "\\" in given or "." in given:
        return DataError(f"{given} does not exist; give a dataset's name, a folder or a table.")
    return UnknownName("dataset (and no such folder)", given, DATASETS)


def _loader(card: DatasetCard) -> Callable[..., Dataset]:
    module, function = card.loader.split(":")
    loader: Callable[..., Dataset] = getattr(importlib.import_module(module), function)
    return loader
