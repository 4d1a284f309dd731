"""What a change of an index brought."""

from dataclasses import dataclass

from ddsh.datasets.dataset import Skipped


@dataclass(frozen=True)
class AddReport:
    """What became of images that were to be added.

    Parameters
    ----------
    added : tuple of int
        Ids of the images that are new.
    known : tuple of int
        Ids of those that were there already and have not changed.
    moved : tuple of int
        Ids of those that were there under the path of a file that is gone; they kept their ids.
    changed : tuple of int
        Ids of those whose file has another content than before; they kept their ids.
    broken : tuple of Skipped
        Files that were left out, and why.
    encoded : int
        How many images the model was run on; copies of an image are coded once.
    """

    added: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    broken: tuple[Skipped, ...] = ()
    encoded: int = 0


@dataclass(frozen=True)
class RefreshReport:
    """What has become of the files of an index.

    Parameters
    ----------
    unchanged : int
        Files that are as they were.
    changed, moved, removed : tuple of int
        Ids of images with a new content, with a new path, and of those that are gone.
    broken : tuple of Skipped
        Files whose new content is no image; they were removed as well.
    out_of_reach : tuple of str
        Folders that are not there, such as a disk that is not plugged in; what they held was left alone.
    """

    unchanged: int = 0
    changed: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    broken: tuple[Skipped, ...] = ()
    out_of_reach: tuple[str, ...] = ()
