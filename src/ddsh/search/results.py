"""Results of queries and reports of changes."""

import base64
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, TypeAlias, overload

from ddsh.calibration import CUT_OFF
from ddsh.datasets import Skipped
from ddsh.errors import InvalidInput
from ddsh.index.pairs import By
from ddsh.search.store import Content, Entry

__all__ = [
    "AddReport",
    "Hit",
    "LabelChange",
    "LabelReport",
    "Match",
    "QueryCode",
    "QueryResult",
    "RefreshReport",
    "RemovedImage",
    "SearchInfo",
    "UpgradeReport",
]

Match: TypeAlias = Literal["query", "file", "pixels"]
"""How an image is the query itself: its entry, a copy of its file, or another file with equal pixels."""

_HEAD = struct.Struct("<8s32s16sf")


@dataclass(frozen=True)
class QueryCode:
    """The codes of a query image, enough to search with it again without the image.

    Parameters
    ----------
    fingerprint : bytes
        The first 8 bytes of the fingerprint of the model.
    code : bytes
        The packed label bits, then the packed look bits.
    sha256 : bytes
        Checksum of the image's file; empty if it has none.
    pixels : bytes
        Checksum of its pixels, 16 bytes; empty if they are not known.
    familiarity : float or None
        How familiar the image is to the model (:meth:`ddsh.look.Look.familiarity`), if that is known.
    """

    fingerprint: bytes
    code: bytes
    sha256: bytes = b""
    pixels: bytes = b""
    familiarity: float | None = None

    def to_text(self) -> str:
        """Return a short text for URLs, which :meth:`from_text` reads."""
        known = math.nan if self.familiarity is None else self.familiarity
        head = _HEAD.pack(self.fingerprint, self.sha256, self.pixels, known)
        return base64.urlsafe_b64encode(head + self.code).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the text of :meth:`to_text`."""
        try:
            data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
            fingerprint, sha256, pixels, familiarity = _HEAD.unpack(data[: _HEAD.size])
        except (ValueError, struct.error):
            raise InvalidInput("This is not the code of a query; search with the image again.") from None
        return cls(
            fingerprint,
            data[_HEAD.size :],
            sha256 if any(sha256) else b"",
            pixels if any(pixels) else b"",
            familiarity if math.isfinite(familiarity) else None,
        )


class Hit(NamedTuple):
    """An image found by a query; a tuple, because a search makes many.

    Attributes
    ----------
    entry : Entry
        The image.
    distance : int
        Distance to the query, by which the hits are ordered; see :class:`ddsh.index.pairs.PairDistance`.
    bits : str
        Its label bits, or its look bits if there are no others, as zeros and ones.
    flipped : tuple of int
        Positions of the bits that differ from the query's, counted from 0.
    label_distance, look_distance : int or None
        Number of label bits and of look bits that differ; None where there are none.
    similarity : float or None
        In per cent: what share of images at this distance is relevant; None if that was not learned. See
        :class:`ddsh.calibration.Calibration`.
    match : {"query", "file", "pixels"} or None
        Whether it is the query itself: its entry, a copy of its file, or another file with equal pixels.
    """

    entry: Entry
    distance: int
    bits: str
    flipped: tuple[int, ...]
    label_distance: int | None = None
    look_distance: int | None = None
    similarity: float | None = None
    match: Match | None = None

    @property
    def is_identical(self) -> bool:
        """Whether its file is the query's, or a copy of it."""
        return self.match in ("query", "file")

    @property
    def id(self) -> int:
        """Id of the image."""
        return self.entry.id

    @property
    def path(self) -> str:
        """Path of the image file."""
        return self.entry.path

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the image."""
        return self.entry.labels


class QueryResult(Sequence[Hit]):
    """Hits of a query, nearest first: a sequence that also has the code of the query.

    It compares equal to another result, list or tuple with the same hits.

    Parameters
    ----------
    hits : sequence of Hit
        The hits.
    code : str
        The label bits of the query, or its look bits if there are no others, as zeros and ones.
    by : {"both", "label", "look"}
        What ordered the hits.
    query : QueryCode, optional
        The codes of the query, to search with it again.
    has_more : bool
        Whether there are further hits after these; see the `offset` of :meth:`ddsh.ImageSearch.query`.
    """

    def __init__(
        self,
        hits: Sequence[Hit],
        code: str,
        by: By = "both",
        *,
        query: QueryCode | None = None,
        has_more: bool = False,
    ) -> None:
        self.hits = tuple(hits)
        self.code = code
        self.by = by
        self.query = query
        self.has_more = has_more

    @property
    def nothing_similar(self) -> bool:
        """Whether similarities are known and not even the first hit is 50 per cent similar."""
        return bool(self.hits) and (best := self.hits[0].similarity) is not None and best < CUT_OFF

    @property
    def n_bits(self) -> int:
        """Code length."""
        return len(self.code)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...

    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        return list(self.hits[place]) if isinstance(place, slice) else self.hits[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueryResult | list | tuple):
            return NotImplemented
        return self.hits == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        nearest = f", nearest at distance {self.hits[0].distance}" if self.hits else ""
        return f"QueryResult({len(self)} hits of {self.n_bits} bits{nearest})"


@dataclass(frozen=True)
class AddReport:
    """Result of adding images.

    Parameters
    ----------
    added : tuple of int
        Ids of new images.
    known : tuple of int
        Ids of images that were indexed before and have not changed.
    moved : tuple of int
        Ids of images whose file was moved; they kept their ids.
    changed : tuple of int
        Ids of images whose file has new content; they kept their ids.
    broken : tuple of Skipped
        Files that were skipped, with the reason.
    encoded : int
        Number of images that the model encoded; copies of an image are encoded once.
    """

    added: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    broken: tuple[Skipped, ...] = ()
    encoded: int = 0


@dataclass(frozen=True)
class RefreshReport:
    """Result of refreshing an index.

    Parameters
    ----------
    unchanged : int
        Number of files that have not changed.
    changed, moved, removed : tuple of int
        Ids of images with new content, with a new path, and of images that were removed because their file is gone.
    broken : tuple of Skipped
        Files whose new content is not an image; they were removed, too.
    out_of_reach : tuple of str
        Missing or empty folders, such as a disk that is not mounted; their images were not removed.
    """

    unchanged: int = 0
    changed: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    broken: tuple[Skipped, ...] = ()
    out_of_reach: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelChange:
    """Labels to give to images, and labels to take from them.

    Parameters
    ----------
    ids : tuple of int
        Ids of the images.
    add, remove : tuple of str
        The labels. Giving a label that an image has, or taking one that it does not have, changes nothing.
    """

    ids: tuple[int, ...]
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def inverse(self) -> "LabelChange":
        """Return the change that undoes this one."""
        return LabelChange(self.ids, add=self.remove, remove=self.add)


@dataclass(frozen=True)
class LabelReport:
    """Result of changing labels.

    Parameters
    ----------
    changes : tuple of LabelChange
        What really changed; the inverse of each undoes it, and leaves what others changed.
    missing : tuple of int
        Ids that are not in the index; others may have removed them.
    """

    changes: tuple[LabelChange, ...] = ()
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class RemovedImage:
    """An image that was removed and can be restored.

    Parameters
    ----------
    entry : Entry
        Its entry.
    content : Content
        Its content and codes.
    fingerprint : str
        Fingerprint of the model that computed the codes.
    """

    entry: Entry
    content: Content
    fingerprint: str


@dataclass(frozen=True)
class UpgradeReport:
    """Result of an upgrade to another model.

    Parameters
    ----------
    n_images : int
        Number of images in the index.
    encoded : int
        Number of contents that were encoded; an earlier, interrupted upgrade may have encoded others.
    removed : tuple of int
        Ids of images that were removed because their file is missing or changed.
    n_bits, look_bits : int
        Number of label bits and of look bits now.
    """

    n_images: int
    encoded: int
    removed: tuple[int, ...]
    n_bits: int
    look_bits: int


@dataclass(frozen=True)
class SearchInfo:
    """Facts about a search index.

    Parameters
    ----------
    n_images, n_contents, n_codes : int
        Number of images, of different contents, and of different codes.
    n_bits, look_bits, n_bytes : int
        Number of label bits and of look bits, and size of all codes.
    labels : dict of str to int
        Number of images with each label.
    method, fingerprint : str
        Method and fingerprint of the model.
    preprocessing : dict
        Preprocessing of the model.
    similarity : {"labels", "copies"} or None
        What similarities mean: the share of images with a common label, or of altered copies; None if they were not
        learned.
    index : str
        Name of the index.
    generation : int
        Number of changes so far.
    """

    n_images: int
    n_contents: int
    n_codes: int
    n_bits: int
    look_bits: int
    n_bytes: int
    labels: Mapping[str, int]
    method: str
    fingerprint: str
    preprocessing: Mapping[str, Any]
    similarity: Literal["labels", "copies"] | None
    index: str
    generation: int
