"""The desk: search as the endpoints need it, with the gates in front of it and what is remembered."""

import secrets
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import Request

from ddsh.errors import BrokenImage, InvalidInput, UnknownName
from ddsh.images import Image, check_file, decode_image
from ddsh.search import Entry, ImageSearch, SearchInfo
from ddsh.service.answers import Added, Answer, Facts, Found, query_bits
from ddsh.service.arguments import Asked
from ddsh.service.gates import Gate
from ddsh.service.memory import BytesCache, Remembered
from ddsh.service.metrics import Metrics
from ddsh.service.problems import Problem
from ddsh.service.settings import Settings

_LOOKUPS = 4
_PICTURES = 2  # a large photo takes much memory while it is decoded
_WAITING_LOOKUPS = 256
_WAITING_CHANGES = 16
_THUMBNAIL_BYTES = 64_000_000
_NAMED_LABELS = 50
_MAX_ID = 1 << 62
_MEDIA_TYPES: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8", "image/jpeg"),
    (b"\x89PNG", "image/png"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
    (b"II", "image/tiff"),
    (b"MM", "image/tiff"),
)


class Desk:
    """Answers what the endpoints ask. Its methods block; the gates say how many may run at the same time.

    Parameters
    ----------
    search : ImageSearch
        Where to search.
    settings : Settings
        The limits.
    """

    def __init__(self, search: ImageSearch, settings: Settings) -> None:
        self._search, self.settings = search, settings
        self.metrics = Metrics()
        self.encodes = Gate(settings.encodes, settings.waiting, settings.timeout)
        self.lookups = Gate(_LOOKUPS, _WAITING_LOOKUPS, settings.timeout)
        self.pictures = Gate(_PICTURES, _WAITING_LOOKUPS, settings.timeout)
        self.changes = Gate(1, _WAITING_CHANGES, settings.timeout)
        self._info: Remembered[SearchInfo] = Remembered(search.info)
        self._thumbnails = BytesCache(_THUMBNAIL_BYTES)

    def close(self) -> None:
        """Begin no other work."""
        for gate in (self.encodes, self.lookups, self.pictures, self.changes):
            gate.close()

    def n_images(self) -> int:
        """Return how many images there are."""
        return len(self._search)

    def facts(self) -> Facts:
        """Return facts about the index; they may be some seconds old."""
        return Facts.of(self._info.get(), self.settings)

    def find_like(self, data: bytes, asked: Asked) -> Answer:
        """Return what is like an uploaded image."""
        began = time.perf_counter()
        self._check(asked)
        return self._find(decode_image(data, self.settings.max_pixels), asked, began)

    def find_from(self, image: int, asked: Asked) -> Answer:
        """Return what is like an image of the index."""
        began = time.perf_counter()
        self._check(asked)
        return self._find(self.entry(image).id, asked, began)

    def entry(self, image: int) -> Entry:
        """Return what is known of an image."""
        found = self._search.entries([image])
        if not found:
            raise Problem(404, f"No image has the id {image}.")
        return found[0]

    def sample(self, n: int) -> list[Entry]:
        """Return some images, drawn at random."""
        if self.n_images() <= n:
            return self._search.entries(self._search.ids(limit=n))
        last = bisect_left(range(_MAX_ID), True, key=lambda after: not self._search.ids(after, 1))
        drawn: dict[int, None] = {}
        for _ in range(3 * n):  # some are drawn twice
            drawn.update(dict.fromkeys(self._search.ids(secrets.randbelow(last + 1) - 1, 1)))
        return self._search.entries(list(drawn)[:n])

    def file_of(self, image: int) -> tuple[Entry, str]:
        """Return an image whose file is there, and what kind of file it is by its first bytes."""
        entry = self.entry(image)
        try:
            check_file(entry.path)
            with Path(entry.path).open("rb") as file:
                start = file.read(8)
        except (BrokenImage, OSError):
            raise _lost(image) from None
        kind = next((kind for magic, kind in _MEDIA_TYPES if start.startswith(magic)), None)
        if kind is None:
            raise _lost(image)
        return entry, kind

    def thumbnail(self, entry: Entry, side: int) -> bytes:
        """Return a small JPEG of an image."""
        try:
            return self._thumbnails.get(f"{entry.sha256}-{side}", lambda: self._search.thumbnail(entry.id, side))
        except BrokenImage:
            raise _lost(entry.id) from None

    def add(self, data: bytes, labels: Sequence[str], metadata: Mapping[str, Any] | None) -> Added:
        """Add an image."""
        decode_image(data, self.settings.max_pixels)
        report = self._search.add([data], labels=[list(labels) or None], metadata=[metadata])
        if report.broken:
            raise InvalidInput(f"{report.broken[0].reason}.")
        self._info.forget()
        return Added((*report.added, *report.moved, *report.changed, *report.known)[0], new=bool(report.added))

    def remove(self, image: int) -> None:
        """Remove an image."""
        self.entry(image)
        self._search.remove([image])
        self._info.forget()

    def _find(self, query: Image | int, asked: Asked, began: float) -> Answer:
        choice = asked.model_dump(include={"k", "radius", "label", "rerank"})
        hits = [Found.of(hit) for hit in self._search.query(query, **choice)]
        took = time.perf_counter() - began
        return Answer(hits, query_bits(hits), self._search.n_bits, **choice, seconds=round(took, 6))

    def _check(self, asked: Asked) -> None:
        """Refuse what would cost too much to find out."""
        if asked.k > self.settings.max_k:
            raise Problem(422, f"k is {self.settings.max_k:,} at most here; got {asked.k:,}.")
        if asked.label is not None:
            self._check_label(asked.label)

    def _check_label(self, label: str) -> None:
        """Refuse a label that no image carries; among very many, nobody looks for a similar one."""
        labels = self._info.get().labels
        if label in labels:
            return
        if len(labels) <= _NAMED_LABELS:
            raise UnknownName("label", label, labels)
        raise Problem(422, f"Unknown label {label!r}; /info lists those that most images carry.")


async def desk_of(request: Request) -> Desk:
    """Return the desk of the service that a request came to."""
    desk: Desk = request.app.state.desk
    return desk


def _lost(image: int) -> Problem:
    return Problem(404, f"The file of image {image} cannot be read any more; the operator may run: ddsh index refresh")
