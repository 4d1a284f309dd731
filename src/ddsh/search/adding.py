"""Adding images: a batch at a time, each batch whole or not at all."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ddsh.codes import BinaryCodes
from ddsh.datasets.base import Skipped
from ddsh.errors import BrokenImage, InvalidInput
from ddsh.images import Image, find_images
from ddsh.index.reranking import Outputs, to_half
from ddsh.search.catalogue import Catalogue, Content, FileRow
from ddsh.search.encoder import Encoder
from ddsh.search.files import ImageFile, ImageLike, Reader, absolute, file_bytes, in_threads
from ddsh.search.folder import IMAGES
from ddsh.search.reports import AddReport
from ddsh.storage import atomic_write

BATCH = 128
"""Images that are coded and written together; a cut costs at most these."""

MAX_LABEL = 200
MAX_METADATA_BYTES = 1 << 16
_MAX_PIXELS = 1 << 26


@dataclass(frozen=True)
class Given:
    """An image that is to be added.

    Parameters
    ----------
    image : path, bytes or array
        The image.
    labels : tuple of str or None
        Its labels; None leaves those of a known image as they are.
    metadata : str or None
        JSON to keep with it; None leaves that of a known image as it is.
    """

    image: ImageLike
    labels: tuple[str, ...] | None = None
    metadata: str | None = None

    @classmethod
    def checked(
        cls, image: ImageLike, labels: str | Sequence[str] | None, metadata: Mapping[str, Any] | None
    ) -> "Given":
        """Return the image with its labels and metadata, or say what is wrong with these."""
        return cls(image, None if labels is None else _labels(labels), None if metadata is None else _json(metadata))


@dataclass(frozen=True)
class _Found:
    """What was found out about an image: it is as the catalogue says, it was read, or it must be left out."""

    given: Given
    path: Path
    what: FileRow | ImageFile | Skipped


@dataclass
class _Tally:
    """What has become of the images so far."""

    added: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    broken: list[Skipped] = field(default_factory=list)
    encoded: int = 0

    def report(self) -> AddReport:
        """Return what was counted."""
        return AddReport(
            tuple(self.added),
            tuple(self.known),
            tuple(self.moved),
            tuple(self.changed),
            tuple(self.broken),
            self.encoded,
        )


class Adder:
    """Adds images to a catalogue; for the only writer.

    Parameters
    ----------
    catalogue : Catalogue
        Where to.
    encoder : Encoder
        What makes the codes.
    folder : path
        The folder of the search index; images without a file of their own are kept there.
    keeps_outputs : bool
        Keep real outputs beside the codes.
    """

    def __init__(self, catalogue: Catalogue, encoder: Encoder, folder: Path, *, keeps_outputs: bool) -> None:
        self._catalogue, self._encoder, self._folder = catalogue, encoder, folder
        self._keeps_outputs = keeps_outputs
        self._lock = Lock()
        self._reader = Reader(encoder.prepare, self._is_known)
        self._tally = _Tally()

    def add(self, images: Sequence[Given], on_progress: Callable[[int, int], None] | None) -> AddReport:
        """Add images, and say what became of each."""
        for batch in _batches(_counted(in_threads(self._find, images), len(images), on_progress)):
            self._write(batch)
        if self._tally.changed:
            # Not sooner: what one file held before, another one may hold now.
            with self._catalogue.writing():
                self._catalogue.drop_unused_contents()
        return self._tally.report()

    def _find(self, given: Given) -> _Found:
        """Find out about an image; a file whose size and time are known is not read."""
        if isinstance(given.image, bytes | np.ndarray):
            return self._find_loose(given, given.image)
        path = absolute(given.image)
        row = self._unchanged(path)
        return _Found(given, path, row or self._reader.read(path))

    def _find_loose(self, given: Given, image: bytes | Image) -> _Found:
        """Read an image that has no file, and keep it as one; the name is the content's, so that none is kept twice."""
        try:
            data, suffix = file_bytes(image)
            read = self._reader.read_bytes(data, 0)
        except (BrokenImage, InvalidInput) as error:
            return _Found(given, Path(), Skipped("an image without a file", str(error).removesuffix(".")))
        path = self._folder / IMAGES / f"{read.sha256.hex()}{suffix}"
        if not path.exists():
            with atomic_write(path) as file:
                file.write(data)
        return _Found(given, path, ImageFile(read.sha256, read.n_bytes, path.stat().st_mtime_ns, read.picture))

    def _unchanged(self, path: Path) -> FileRow | None:
        try:
            status = path.stat()
            with self._lock:
                row = self._catalogue.file_at(path)
        except (OSError, ValueError):  # the reader will say what is wrong with it
            return None
        return row if row and (row.n_bytes, row.mtime_ns) == (status.st_size, status.st_mtime_ns) else None

    def _is_known(self, sha256: bytes) -> bool:
        with self._lock:
            return self._catalogue.find_content(sha256) is not None

    def _write(self, batch: Sequence[_Found]) -> None:
        """Code what is new and write the batch in one transaction."""
        contents = self._encode([found.what for found in batch if isinstance(found.what, ImageFile)])
        with self._lock, self._catalogue.writing():
            for found in batch:
                if isinstance(found.what, Skipped):
                    self._tally.broken.append(found.what)
                else:
                    self._describe(self._put(found.path, found.what, contents), found.given)

    def _encode(self, files: Iterable[ImageFile]) -> dict[bytes, Content]:
        """Return the contents that are new, each coded once."""
        new = {file.sha256: file for file in files if file.picture is not None}
        if not new:
            return {}
        outputs = self._encoder.outputs([file.picture.pixels for file in new.values() if file.picture])
        codes = BinaryCodes.from_outputs(outputs)
        self._tally.encoded += len(new)
        return {
            sha256: self._content(file, code.tobytes(), row)
            for (sha256, file), code, row in zip(new.items(), codes.packed, outputs, strict=True)
        }

    def _content(self, file: ImageFile, code: bytes, outputs: Outputs) -> Content:
        assert file.picture is not None, "only decoded images are coded"
        kept = to_half(outputs).tobytes() if self._keeps_outputs else None
        picture = file.picture
        return Content(file.sha256, file.n_bytes, picture.width, picture.height, code, picture.look, kept)

    def _put(self, path: Path, what: FileRow | ImageFile, contents: Mapping[bytes, Content]) -> int:
        """Write what was found out about a file, and return the image's id."""
        if isinstance(what, FileRow):
            self._tally.known.append(what.id)
            return what.id
        content = self._catalogue.find_content(what.sha256)
        if content is None:
            content = self._catalogue.put_content(contents[what.sha256])
        before = self._catalogue.file_at(path)
        return self._put_new(path, content, what) if before is None else self._put_again(before, content, what)

    def _put_again(self, before: FileRow, content: int, file: ImageFile) -> int:
        if before.sha256 == file.sha256:
            self._catalogue.move(before.id, before.path, file.mtime_ns)
            self._tally.known.append(before.id)
        else:
            self._catalogue.replace(before.id, content, file.mtime_ns)
            self._tally.changed.append(before.id)
        return before.id

    def _put_new(self, path: Path, content: int, file: ImageFile) -> int:
        lost = next((row for row in self._catalogue.files_with(content) if not row.path.exists()), None)
        if lost is not None:
            self._catalogue.move(lost.id, path, file.mtime_ns)
            self._tally.moved.append(lost.id)
            return lost.id
        self._tally.added.append(self._catalogue.put_image(path, content, file.mtime_ns))
        return self._tally.added[-1]

    def _describe(self, image: int, given: Given) -> None:
        if given.labels is not None:
            self._catalogue.set_labels(image, given.labels)
        if given.metadata is not None:
            self._catalogue.set_metadata(image, given.metadata)


def _counted(found: Iterable[_Found], total: int, on_progress: Callable[[int, int], None] | None) -> Iterator[_Found]:
    for done, each in enumerate(found, 1):
        if on_progress:
            on_progress(done, total)
        yield each


def _batches(found: Iterable[_Found]) -> Iterator[list[_Found]]:
    """Yield batches that are bounded in number and in pixels."""
    batch: list[_Found] = []
    n_pixels = 0
    for each in found:
        batch.append(each)
        picture = each.what.picture if isinstance(each.what, ImageFile) else None
        n_pixels += picture.pixels.size if picture else 0
        if len(batch) >= BATCH or n_pixels > _MAX_PIXELS:
            yield batch
            batch, n_pixels = [], 0
    if batch:
        yield batch


def _labels(given: str | Sequence[str]) -> tuple[str, ...]:
    labels = (given,) if isinstance(given, str) else tuple(given)
    for label in labels:
        if not isinstance(label, str) or not 0 < len(label.strip()) <= MAX_LABEL or not label.isprintable():
            raise InvalidInput(f"A label is a line of 1 to {MAX_LABEL} characters; got {str(label)[:50]!r}.")
    return labels


def _json(metadata: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"Metadata must be JSON: {error}.") from error
    if len(text) > MAX_METADATA_BYTES:
        raise InvalidInput(f"Metadata of {len(text):,} bytes; the limit is {MAX_METADATA_BYTES:,} an image.")
    return text


def expand(
    images: ImageLike | Iterable[ImageLike],
    labels: Sequence[str | Sequence[str] | None] | None,
    metadata: Sequence[Mapping[str, Any] | None] | None,
) -> tuple[list[Given], list[Path]]:
    """Return every image with its labels and metadata, and the folders among what was given."""
    listed: list[ImageLike] = [images] if _is_one(images) else list(images)  # type: ignore[arg-type, list-item]
    for name, values in (("labels", labels), ("metadata", metadata)):
        if values is not None and len(values) != len(listed):
            raise InvalidInput(f"{len(listed)} images but {len(values)} {name}; give one for each, or None.")
    given: list[Given] = []
    roots: list[Path] = []
    for place, image in enumerate(listed):
        known = Given.checked(image, labels[place] if labels else None, metadata[place] if metadata else None)
        if isinstance(image, str | os.PathLike) and Path(image).is_dir():
            roots.append(absolute(image))
            given += [Given(path, known.labels, known.metadata) for path in find_images(roots[-1])]
        else:
            given.append(known)
    return given, roots


def _is_one(images: object) -> bool:
    return isinstance(images, str | os.PathLike | bytes) or (isinstance(images, np.ndarray) and images.ndim < 4)
