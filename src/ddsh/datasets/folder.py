"""Folders of images: one subfolder per class, or unlabelled."""

import os
from pathlib import Path

from ddsh.datasets._labelled_files import LabelledFile, build_dataset, check_text, find_readable, reading
from ddsh.datasets.base import Dataset, ProgressCallback, Skipped
from ddsh.errors import DataError
from ddsh.images import FileImages, find_images, is_image_name

__all__ = ["is_unlabelled", "load_folder", "load_unlabelled"]


def load_folder(
    root: str | os.PathLike[str],
    *,
    strict: bool = False,
    verify: bool = True,
    on_progress: ProgressCallback | None = None,
) -> Dataset:
    """Load a folder that has one subfolder per class.

    Images are found at any depth below a class folder, in the order of their names; images directly in `root` are
    unlabelled and come last. Hidden files and folders, files that are no images, and linked folders inside a class
    folder are ignored.

    Parameters
    ----------
    root : path
        The folder.
    strict : bool
        Raise if anything would be left out, instead of listing it in ``skipped``.
    verify : bool
        Decode every image once to find broken ones; otherwise only check that the files exist.
    on_progress : callable, optional
        Called with (done, total) after each file.

    Returns
    -------
    Dataset
        With one label per image of a class folder.

    Raises
    ------
    DataError
        If it is no such folder, if no image can be read, or if `strict` and anything would be left out.
    """
    root = Path(root)
    if not root.exists():
        raise DataError(f"{root} does not exist; give a folder that has one subfolder per class.")
    if not root.is_dir():
        raise DataError(f"{root} is a file; give a folder that has one subfolder per class, or load it as a table.")
    with reading(root):
        visible = sorted((path for path in root.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)
        folders = [path for path in visible if path.is_dir()]
        loose = [path for path in visible if not path.is_dir() and is_image_name(path.name)]
        if not folders and not loose:
            raise DataError(
                f"{root} has no images and no subfolders; give a folder of images, in subfolders if they have classes."
            )
        for folder in folders:
            check_text(folder.name, "the folder name", str(root))
        files = [LabelledFile(path, (folder.name,)) for folder in folders for path in find_images(folder)]
    if not files and loose:
        raise DataError(
            f"{root} is unlabelled: {len(loose)} images, none in a subfolder; move them into one subfolder per class,"
            " or list them with their labels in a CSV or JSONL table. Search by look needs no labels:"
            f" ddsh index {root} --out my-index"
        )
    if not files:
        raise DataError(f"{root}: its {len(folders)} subfolders hold no images; put each class's images into one.")
    readable, broken = find_readable([*files, *(LabelledFile(path, ()) for path in loose)], verify, on_progress)
    present = {label for file in readable for label in file.labels}
    skipped = [
        *broken,
        *(Skipped(str(path), "class left out: no readable image") for path in folders if path.name not in present),
    ]
    name = root.name if root.name not in ("", "..") else root.resolve().name or str(root)
    return build_dataset(name, root, readable, skipped, strict=strict)


def load_unlabelled(
    path: str | os.PathLike[str], on_progress: ProgressCallback | None = None
) -> tuple[FileImages, tuple[Skipped, ...]]:
    """Return an image, or the images at any depth below a folder.

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
    path = Path(path)
    with reading(path):
        files = find_images(path) if path.is_dir() else [path]
    readable, skipped = find_readable([LabelledFile(file, ()) for file in files], True, on_progress)
    if not readable:
        raise DataError(f"{path}: no image can be read ({len(skipped)} broken); give an image or a folder of images.")
    return FileImages([file.path for file in readable]), tuple(skipped)


def is_unlabelled(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is an image, or a folder with images directly in it and none in subfolders."""
    path = Path(path)
    if path.is_dir():
        visible = [child for child in path.iterdir() if not child.name.startswith(".")]
        has_loose = any(is_image_name(child.name) for child in visible if child.is_file())
        return has_loose and not any(find_images(child) for child in visible if child.is_dir())
    return path.is_file() and is_image_name(path.name)
