"""The datasets ddsh knows by name, and how a folder or file is recognised."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddsh.datasets import cifar10, lists, own, svhn
from ddsh.datasets.dataset import Dataset
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
        """Return the folder under `root` that is there, or None."""
        if root is None:
            return None
        return next((root / folder for folder in self.folders if (root / folder).is_dir()), None)


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
    root: Path | None = None,
    strict: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Read a dataset by name, or your own images by path.

    Parameters
    ----------
    name_or_path : str or path
        A name of :data:`DATASETS`; or a folder with one subfolder per class; or a ``.csv``, ``.tsv`` or ``.jsonl``
        table with a path and labels; or a list of ``path 0 1 0 ...``; or a folder with the files of a known dataset.
    root : path, optional
        The folder where named datasets are kept.
    strict : bool
        Refuse your own images if a file is broken, instead of leaving it out.
    on_progress : callable, optional
        Called with (done, total) while your own files are checked.

    Returns
    -------
    Dataset
        Its images are read only when they are asked for.
    """
    if str(name_or_path) in DATASETS:
        return _load_named(DATASETS[str(name_or_path)], root)
    path = Path(name_or_path)
    if not path.exists() and not lists.is_prefix(path):
        raise _not_found(str(name_or_path))
    card = recognise(path)
    if card is not None:
        return _loader(card)(path)
    return _load_own(path, strict, on_progress)


def recognise(path: Path) -> DatasetCard | None:
    """Return the known dataset whose official files are in this folder, if there is one."""
    if not path.is_dir():
        return None
    if cifar10.distribution(path) is not None:
        return DATASETS["cifar10"]
    if all((path / name).is_file() for name in svhn.FILES.values()):
        return DATASETS["svhn"]
    if (path / "ImageList").is_dir() and (path / "Groundtruth").is_dir():
        return DATASETS["nuswide"]
    if any(path.glob("t10k-images*idx3-ubyte*")):
        return DATASETS["fashion-mnist" if "fashion" in str(path.resolve()).lower() else "mnist"]
    return None


def _load_named(card: DatasetCard, root: Path | None) -> Dataset:
    loader = _loader(card)
    if not card.folders:
        return loader()
    folder = card.find(root)
    if folder is not None:
        return loader(folder)
    if root is not None and root.is_dir() and recognise(root) is card:
        return loader(root)
    if root is None:
        raise DataError(f"{card.name}: say where your datasets are, with --root DIR or the variable DDSH_DATA.")
    raise DataError(
        f"{card.name}: none of {', '.join(card.folders)} is in {root}. Run: ddsh data fetch {card.name} --root {root}"
    )


def _load_own(path: Path, strict: bool, on_progress: Callable[[int, int], None] | None) -> Dataset:
    if path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
        return own.load_table(path, strict=strict, on_progress=on_progress)
    if path.suffix.lower() == ".txt" or _names_lists(path):
        return lists.load(path)
    return own.load_folder(path, strict=strict, on_progress=on_progress)


def _names_lists(path: Path) -> bool:
    """Return whether `path` is a prefix of lists, or a folder with lists and no subfolder that could be a class."""
    return lists.is_prefix(path) and not (path.is_dir() and any(child.is_dir() for child in path.iterdir()))


def _not_found(given: str) -> DataError | UnknownName:
    if "/" in given or "\\" in given or "." in given:
        return DataError(f"{given} does not exist; give a dataset's name, a folder or a table.")
    return UnknownName("dataset (and no such folder)", given, DATASETS)


def _loader(card: DatasetCard) -> Callable[..., Dataset]:
    module, function = card.loader.split(":")
    loader: Callable[..., Dataset] = getattr(importlib.import_module(module), function)
    return loader
