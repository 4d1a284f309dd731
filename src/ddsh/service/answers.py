"""What the service answers; each class is a JSON object. Of a path, only the name of the file is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from ddsh.search import Entry, Hit, SearchInfo
from ddsh.service.settings import Settings

N_LABELS = 1000
"""How many labels are listed; an index may have as many as images."""


@dataclass(frozen=True)
class Item:
    """An image of the index."""

    id: int
    name: str
    labels: tuple[str, ...]
    width: int
    height: int
    n_bytes: int
    sha256: str
    metadata: Mapping[str, Any]

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """Return what is told of an image."""
        name, size = entry.name, (entry.width, entry.height, entry.n_bytes)
        return cls(entry.id, name, entry.labels, *size, entry.sha256, entry.metadata)


@dataclass(frozen=True)
class Found:
    """An image that was found: in how many bits its code differs from the query's, its code, and which bits differ."""

    id: int
    name: str
    labels: tuple[str, ...]
    width: int
    height: int
    distance: int
    bits: str
    flipped: tuple[int, ...]

    @classmethod
    def of(cls, hit: Hit) -> Self:
        """Return what is told of an image that was found."""
        entry = hit.entry
        known = (entry.id, entry.name, entry.labels, entry.width, entry.height)
        return cls(*known, hit.distance, hit.bits, hit.flipped)


@dataclass(frozen=True)
class Answer:
    """What a search found, nearest first; bits is the query's code, told where anything was found."""

    hits: list[Found]
    bits: str | None
    n_bits: int
    k: int
    radius: int | None
    label: str | None
    rerank: bool
    seconds: float


@dataclass(frozen=True)
class Facts:
    """Facts about the index, the labels that most images carry, and the limits of this service."""

    n_images: int
    n_contents: int
    n_codes: int
    n_bits: int
    n_bytes: int
    n_labels: int
    labels: Mapping[str, int]
    method: str
    keeps_outputs: bool
    read_only: bool
    max_k: int
    max_upload_bytes: int
    max_pixels: int

    @classmethod
    def of(cls, info: SearchInfo, settings: Settings) -> Self:
        """Return the facts."""
        return cls(
            n_images=info.n_images,
            n_contents=info.n_contents,
            n_codes=info.n_codes,
            n_bits=info.n_bits,
            n_bytes=info.n_bytes,
            n_labels=len(info.labels),
            labels=_most_frequent(info.labels),
            method=info.method,
            keeps_outputs=info.keeps_outputs,
            read_only=settings.read_only,
            max_k=settings.max_k,
            max_upload_bytes=settings.max_upload_bytes,
            max_pixels=settings.max_pixels,
        )


@dataclass(frozen=True)
class Added:
    """The id of an image that was to be added, and whether it is new."""

    id: int
    new: bool


@dataclass(frozen=True)
class Removed:
    """The id of an image that was removed."""

    id: int


@dataclass(frozen=True)
class Alive:
    """The process lives."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class Ready:
    """Requests can be answered."""

    n_images: int
    status: Literal["ready"] = "ready"


@dataclass(frozen=True)
class Refusal:
    """Why a request was refused, in one line."""

    error: str


def query_bits(hits: list[Found]) -> str | None:
    """Return the query's code: that of any image that was found, with the bits that differ turned."""
    if not hits:
        return None
    bits = list(hits[0].bits)
    for place in hits[0].flipped:
        bits[place] = "10"[int(bits[place])]
    return "".join(bits)


def _most_frequent(labels: Mapping[str, int]) -> dict[str, int]:
    """Return the labels of most images, by name."""
    chosen = sorted(labels, key=lambda name: (-labels[name], name))[:N_LABELS]
    return {name: labels[name] for name in sorted(chosen)}
