"""What a change of an index brought, and what it holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddsh.datasets.base import Skipped


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


@dataclass(frozen=True)
class SearchInfo:
    """Facts about a search index.

    Parameters
    ----------
    n_images, n_contents, n_codes : int
        How many images there are, how many of them differ in content, and how many codes differ.
    n_bits, n_bytes : int
        Code length, and what all codes take.
    labels : dict of str to int
        How many images carry each label.
    method, fingerprint : str
        Of the model.
    preprocessing : dict
        How an image becomes what the model sees.
    index : str
        Kind of the index.
    keeps_outputs : bool
        Whether real outputs are kept for re-ranking.
    generation : int
        How many changes led to this state.
    """

    n_images: int
    n_contents: int
    n_codes: int
    n_bits: int
    n_bytes: int
    labels: Mapping[str, int]
    method: str
    fingerprint: str
    preprocessing: Mapping[str, Any]
    index: str
    keeps_outputs: bool
    generation: int
