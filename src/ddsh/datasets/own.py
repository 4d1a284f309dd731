"""Loaders for your own images: a folder with one subfolder per class, or a table of paths and labels."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.datasets.dataset import Dataset, Skipped
from ddsh.datasets.tables import PARTS, Item, checked_text, read_table
from ddsh.errors import BrokenImage, DataError
from ddsh.images import FileImages, check_file, find_images, is_image_name, read_image
from ddsh.labels import Labels, as_labels

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many files are done, and how many there are."""

_BATCH = 1024
_N_NAMED = 5


def load_folder(
    root: Path, *, strict: bool = False, verify: bool = True, on_progress: Progress | None = None
) -> Dataset:
    """Load a folder that has one subfolder per class.

    Images are searched at any depth below a class folder, in the order of their names; hidden files
    and folders, files that are no images and linked folders inside a class folder are passed over.

    Parameters
    ----------
    root : path
        The folder.
    strict : bool
        Raise if anything would be left out, rather than list it in ``skipped``.
    verify : bool
        Decode every image once to find the broken ones; otherwise only their existence is checked.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    Dataset
        With one label per image.

    Raises
    ------
    DataError
        If it is no such folder, if no image can be read, or if `strict` and anything would be left out.
    """
    root = Path(root)
    with _problems_of(root):
        folders, loose = _class_folders(root)
        items = [Item(path, (folder.name,)) for folder in folders for path in find_images(folder)]
    if not items:
        raise DataError(f"{root}: its {len(folders)} subfolders hold no images; put each class's images into one.")
    kept, broken = _divide(items, verify, on_progress)
    present = _class_names(kept)
    lost = [Skipped(str(path), "class left out: no readable image") for path in folders if path.name not in present]
    skipped = (*loose, *broken, *lost)
    _insist(root, kept, skipped, strict)
    return Dataset(_name_of(root), _files(kept), _single_labels(kept), present, skipped=skipped)


def load_table(
    path: Path, *, strict: bool = False, verify: bool = True, on_progress: Progress | None = None
) -> Dataset:
    """Load the images that a table lists with their labels.

    The columns (in JSONL: keys) are ``path``, relative to the table's folder; ``label`` for one label,
    or ``labels`` for many (separated by ``;``, in JSONL a list); and, if you like, ``part``:
    query, train or database. Other columns are passed over.

    Parameters
    ----------
    path : path
        A ``.csv``, ``.tsv`` or ``.jsonl`` file in UTF-8.
    strict : bool
        Raise if any image would be left out, rather than list it in ``skipped``.
    verify : bool
        Decode every image once to find the broken ones; otherwise only their existence is checked.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    Dataset
        Its protocol is ``given`` if the table says which images are queries and which the database.

    Raises
    ------
    DataError
        If the table has a mistake, if no image can be read, or if `strict` and any would be left out.
    """
    table = Path(path)
    with _problems_of(table):
        many, items = read_table(table)
    kept, broken = _divide(items, verify, on_progress)
    present = _class_names(kept)
    lost = sorted(set(_class_names(items)).difference(present))
    skipped = (
        *broken,
        *(Skipped(str(table), f"class {name!r} left out: no readable image") for name in lost),
    )
    _insist(table, kept, skipped, strict)
    labels = _multi_labels(kept) if many else _single_labels(kept)
    parts = _parts(table, items, kept)
    protocol = "given" if {"query", "database"} <= parts.keys() else "own"
    return Dataset(table.stem, _files(kept), labels, present, parts, protocol, skipped)


def load_unlabelled(path: Path, on_progress: Progress | None = None) -> tuple[FileImages, tuple[Skipped, ...]]:
    """Return one image, or the images at any depth below a folder, and those that are broken.

    Parameters
    ----------
    path : path
        An image file or a folder.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    FileImages
        The images that can be read.
    tuple of Skipped
        The others.
    """
    with _problems_of(path):
        files = find_images(path) if path.is_dir() else [path]
    kept, skipped = _divide([Item(file, ()) for file in files], True, on_progress)
    if not kept:
        raise DataError(f"{path}: no image can be read ({len(skipped)} broken); give an image or a folder of images.")
    return _files(kept), tuple(skipped)


def is_unlabelled(path: Path) -> bool:
    """Return whether `path` is an image, or a folder in which images lie without a class folder."""
    if path.is_dir():
        return any(is_image_name(child.name) for child in path.iterdir() if child.is_file())
    return path.is_file() and is_image_name(path.name)


@contextmanager
def _problems_of(source: Path) -> Iterator[None]:
    """Turn an error of the file system into one line that names the source."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror or error}).") from error


def _class_folders(root: Path) -> tuple[list[Path], list[Skipped]]:
    """Return the class folders, and the images that lie beside them."""
    if not root.exists():
        raise DataError(f"{root} does not exist; give a folder that has one subfolder per class.")
    if not root.is_dir():
        raise DataError(f"{root} is a file; give a folder that has one subfolder per class, or load it as a table.")
    visible = sorted((path for path in root.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)
    folders = [path for path in visible if path.is_dir()]
    loose = [path for path in visible if not path.is_dir() and is_image_name(path.name)]
    if not folders:
        _refuse_unlabelled(root, len(loose))
    for folder in folders:
        checked_text(folder.name, "the folder name", str(root))
    return folders, [Skipped(str(path), "not in a class folder") for path in loose]


def _refuse_unlabelled(root: Path, n_images: int) -> NoReturn:
    if not n_images:
        raise DataError(f"{root} has no images and no subfolders; give a folder that has one subfolder per class.")
    raise DataError(
        f"{root} is unlabelled: {n_images} images but no subfolders; move them into one subfolder per class, "
        "or list them with their labels in a CSV or JSONL table."
    )


def _name_of(root: Path) -> str:
    """Return the folder's own name, also where it is given as ``.`` or ``..``."""
    return root.name if root.name not in ("", "..") else root.resolve().name or str(root)


def _divide(items: Sequence[Item], verify: bool, on_progress: Progress | None) -> tuple[list[Item], list[Skipped]]:
    """Divide into the items whose file can be read, and the files that are skipped."""
    kept: list[Item] = []
    skipped: list[Skipped] = []
    check = read_image if verify else check_file
    with closing(_problems([item.path for item in items], check)) as problems:
        for done, (item, problem) in enumerate(zip(items, problems, strict=True), 1):
            if problem is None:
                kept.append(item)
            else:
                skipped.append(Skipped(str(item.path), problem))
            if on_progress:
                on_progress(done, len(items))
    return kept, skipped


def _problems(paths: Sequence[Path], check: Callable[[Path], object]) -> Generator[str | None, None, None]:
    """Check the files in as many threads as there are processors, a bounded number of files ahead."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), _BATCH):
            yield from pool.map(partial(_problem, check=check), paths[start : start + _BATCH])


def _problem(path: Path, check: Callable[[Path], object]) -> str | None:
    """Return what is wrong with a file; the image itself is dropped at once."""
    try:
        check(path)
    except BrokenImage as error:
        return str(error).removeprefix(f"{path}: ").removesuffix(".")
    return None


def _insist(source: Path, kept: Sequence[Item], skipped: Sequence[Skipped], strict: bool) -> None:
    """Raise if nothing is left, or if anything was left out and `strict`."""
    if kept and not (strict and skipped):
        return
    named = "; ".join(f"{_one_line(each.path)} ({each.reason})" for each in skipped[:_N_NAMED])
    more = f"; and {len(skipped) - _N_NAMED} more" if len(skipped) > _N_NAMED else ""
    problem = f"{len(skipped)} entries cannot be used" if kept else "no image can be read"
    raise DataError(f"{source}: {problem}: {named}{more}. Mend or remove them.")


def _one_line(path: str) -> str:
    return " ".join(path.splitlines())


def _class_names(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(sorted({label for item in items for label in item.labels}))


def _files(items: Iterable[Item]) -> FileImages:
    return FileImages([item.path for item in items])


def _single_labels(items: Sequence[Item]) -> Labels:
    position = _positions(items)
    return as_labels(np.array([position[item.labels[0]] for item in items], np.int64))


def _multi_labels(items: Sequence[Item]) -> Labels:
    position = _positions(items)
    columns = np.array([position[label] for item in items for label in item.labels], np.int64)
    starts = np.cumsum([0, *(len(item.labels) for item in items)])
    ones = np.ones(len(columns), np.int32)
    return as_labels(sparse.csr_array((ones, columns, starts), shape=(len(items), len(position))))


def _positions(items: Iterable[Item]) -> dict[str, int]:
    return {name: position for position, name in enumerate(_class_names(items))}


def _parts(table: Path, items: Iterable[Item], kept: Sequence[Item]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each part; a part that lost all its images would change the experiment."""
    given = {item.part for item in items}
    of_row = np.array([item.part for item in kept])
    parts = {part: np.flatnonzero(of_row == part).astype(np.int64) for part in PARTS if part in given}
    for part, rows in parts.items():
        if not rows.size:
            raise DataError(f"{table}: no image of the part {part} can be read; mend them or leave out the column.")
    return parts
