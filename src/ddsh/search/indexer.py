"""Adding images to a store, and keeping it up to date with their files."""

import hashlib
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from ddsh.codes import CodePair
from ddsh.datasets import Skipped
from ddsh.errors import BrokenImage, Busy, InvalidInput
from ddsh.images import (
    MAX_BYTES,
    Image,
    ImageLike,
    as_image,
    check_file,
    decode_image,
    encode_png,
    extension_of,
    find_images,
)
from ddsh.model import Model
from ddsh.search.duplicates import tiny_copy
from ddsh.search.onnx_encoder import OnnxEncoder
from ddsh.search.results import AddReport, RefreshReport
from ddsh.search.store import Content, StoredFile, StoreWriter, check_metadata

__all__ = [
    "BATCH",
    "MAX_LABEL",
    "MAX_LABELS",
    "MAX_METADATA_BYTES",
    "SAMPLE",
    "Indexer",
    "NewImage",
    "Progress",
    "absolute_path",
    "check_labels",
    "list_images",
    "map_in_threads",
    "pack_codes",
    "read_file",
    "read_sample",
]

BATCH = 128
"""Images that are encoded and written together; an interruption loses at most these."""

MAX_LABEL = 200
"""Largest number of characters of a label."""

MAX_LABELS = 1000
"""Largest number of labels of an image."""

MAX_METADATA_BYTES = 1 << 16
"""Largest size of the metadata of an image, as JSON."""

SAMPLE = 2000
"""Number of images that look bits are learned from, if an index is made without a model."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of items done and their total."""

_MAX_PIXELS = 1 << 26
_LOG = logging.getLogger(__name__)

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class NewImage:
    """An image to add.

    Parameters
    ----------
    image : path, bytes, Pillow image or array
        The image.
    labels : tuple of str or None
        Its labels; None keeps those of an indexed image.
    metadata : str or None
        Its metadata as JSON; None keeps that of an indexed image.
    read_again : bool
        Read an indexed file even if its size and time are those of the entry.
    """

    image: ImageLike
    labels: tuple[str, ...] | None = None
    metadata: str | None = None
    read_again: bool = False


@dataclass(frozen=True)
class _DecodedImage:
    """Size, tiny copy, and pixels prepared for the model."""

    width: int
    height: int
    tiny: bytes
    pixels: Image


@dataclass(frozen=True)
class _ImageFile:
    """A file that was read; `decoded` is None if its content is stored already."""

    path: Path
    sha256: bytes
    n_bytes: int
    mtime_ns: int
    decoded: _DecodedImage | None


_ReadImage: TypeAlias = tuple[NewImage, StoredFile | _ImageFile | Skipped]


class Indexer:
    """Adds images through a writer, and compares its entries with their files.

    Parameters
    ----------
    writer : StoreWriter
        Write access to the store.
    model : Model or OnnxEncoder
        The model.
    decode : callable
        Decodes the content of an image file.
    """

    def __init__(
        self, writer: StoreWriter, model: Model | OnnxEncoder, decode: Callable[[bytes], Image] = decode_image
    ) -> None:
        self._writer, self._model, self._decode = writer, model, decode
        self._lock = Lock()  # files are read in several threads, which look up what is stored

    def add(self, images: Sequence[NewImage], on_progress: Progress | None = None) -> AddReport:
        """Add images, one transaction per batch."""
        report: dict[str, list[Any]] = {name: [] for name in ("added", "known", "moved", "changed", "broken")}
        encoded = n_pixels = 0
        batch: list[_ReadImage] = []
        for done, item in enumerate(map_in_threads(self._read, images), 1):
            if on_progress:
                on_progress(done, len(images))
            batch.append(item)
            if isinstance(item[1], _ImageFile) and item[1].decoded:
                n_pixels += item[1].decoded.pixels.size
            if len(batch) >= BATCH or n_pixels > _MAX_PIXELS or done == len(images):
                encoded += self._write(batch, report)
                batch, n_pixels = [], 0
        _LOG.debug("%d images read, %d encoded", len(images), encoded)
        return AddReport(**{name: tuple(values) for name, values in report.items()}, encoded=encoded)

    def refresh(self, on_progress: Progress | None = None, *, checksum: bool = False) -> RefreshReport:
        """Encode changed files again, follow moved files, and remove entries whose file is gone."""
        files, roots = self._writer.files(), self._writer.roots()
        touched: list[StoredFile] = []
        missing: list[StoredFile] = []
        for done, file in enumerate(files, 1):
            try:
                status = file.path.stat()
                changed = (status.st_size, status.st_mtime_ns) != (file.n_bytes, file.mtime_ns)
                if checksum and not changed:
                    with file.path.open("rb") as opened:
                        changed = hashlib.file_digest(opened, "sha256").digest() != file.sha256
            except OSError:
                missing.append(file)
            else:
                if changed:
                    touched.append(file)
            if on_progress:
                on_progress(done, len(files))
        moved = _find_moved(files, missing, roots)
        again = self.add([NewImage(path, read_again=True) for path in [*(file.path for file in touched), *moved]])
        broken = {skipped.path for skipped in again.broken}
        removed = [file.id for file in touched if str(file.path) in broken]
        out_of_reach: set[Path] = set()
        for file in missing:
            if file.id in again.moved:
                continue
            parents = (root for root in (self._writer.folder, *roots) if file.path.is_relative_to(root))
            folder = next(parents, file.path.parent)
            # The mount point of a disk that is not mounted is missing or empty.
            with suppress(OSError):
                if any(folder.iterdir()):
                    removed.append(file.id)
                    continue
            out_of_reach.add(folder)
        with self._writer.transaction():
            self._writer.remove(removed)
        self._writer.remove_unused_images()
        return RefreshReport(
            unchanged=len(files) - len(touched) - len(missing) + len(again.known),
            changed=again.changed,
            moved=again.moved,
            removed=tuple(sorted(removed)),
            broken=again.broken,
            out_of_reach=tuple(sorted(map(str, out_of_reach))),
        )

    def _read(self, item: NewImage) -> _ReadImage:
        """Read and decode an image; a file of known size and time is not read, known content is not decoded."""
        image, path, name = item.image, Path(), "an image without a file"
        try:
            if isinstance(image, str | os.PathLike):
                path = absolute_path(image)
                name = str(path)
                with suppress(OSError, ValueError):  # reading it will tell what is wrong
                    status = path.stat()
                    with self._lock:
                        stored = self._writer.file_at(path)
                    same = stored and (stored.n_bytes, stored.mtime_ns) == (status.st_size, status.st_mtime_ns)
                    if stored and same and not item.read_again:
                        return item, stored
                data, mtime_ns = read_file(path)
            elif isinstance(image, bytes):
                data, mtime_ns = image, None
            else:
                data, mtime_ns = encode_png(as_image(image)), None
            sha256 = hashlib.sha256(data).digest()
            with self._lock:
                is_stored = self._writer.has_content(sha256)
            decoded = None
            if not is_stored:
                pixels = self._decode(data)
                height, width = pixels.shape[:2]
                decoded = _DecodedImage(width, height, tiny_copy(pixels), self._model.prepare(pixels))
        except (BrokenImage, InvalidInput) as error:
            return item, Skipped(name, str(error).removeprefix(f"{name}: ").removesuffix("."))
        if mtime_ns is None:
            # Named by its checksum, so that no image is kept twice.
            path = self._writer.keep_image(f"{sha256.hex()}{extension_of(data)}", data)
            mtime_ns = path.stat().st_mtime_ns
        return item, _ImageFile(path, sha256, len(data), mtime_ns, decoded)

    def _write(self, batch: Sequence[_ReadImage], report: Mapping[str, list[Any]]) -> int:
        """Encode the new images of a batch, write it in one transaction, and return how many were encoded."""
        files = (read for _, read in batch if isinstance(read, _ImageFile))
        new = {file.sha256: (file, file.decoded) for file in files if file.decoded is not None}
        contents: dict[bytes, Content] = {}
        if new:
            pair = self._model.encode_pair([decoded.pixels for _, decoded in new.values()])
            for (file, decoded), code in zip(new.values(), pack_codes(pair), strict=True):
                contents[file.sha256] = Content(
                    file.sha256,
                    file.n_bytes,
                    decoded.width,
                    decoded.height,
                    code.tobytes(),
                    decoded.tiny,
                )
        with self._lock, self._writer.transaction():
            for item, read in batch:
                if isinstance(read, Skipped):
                    report["broken"].append(read)
                    continue
                number = read.id if isinstance(read, StoredFile) else None
                kind = "known"
                if isinstance(read, _ImageFile):
                    if not self._writer.has_content(read.sha256):
                        if read.sha256 not in contents:
                            raise Busy(f"Another writer has just removed the content of {read.path}; add it again.")
                        self._writer.put_content(contents[read.sha256])
                    kind, number = self._write_file(read)
                assert number is not None, "every file has an id"
                report[kind].append(number)
                if item.labels is not None:
                    self._writer.set_labels(number, item.labels)
                if item.metadata is not None:
                    self._writer.set_metadata(number, item.metadata)
        return len(contents)

    def _write_file(self, file: _ImageFile) -> tuple[str, int]:
        """Write the entry of a file, and return what it is (a field of `AddReport`) and its id."""
        before = self._writer.file_at(file.path)
        if before is not None and before.sha256 == file.sha256:
            self._writer.move(before.id, before.path, file.mtime_ns)
            return "known", before.id
        if before is not None:
            self._writer.replace(before.id, file.sha256, file.mtime_ns)
            return "changed", before.id
        lost = next((other for other in self._writer.files_with(file.sha256) if not other.path.exists()), None)
        if lost is not None:
            self._writer.move(lost.id, file.path, file.mtime_ns)
            return "moved", lost.id
        return "added", self._writer.add(file.path, file.sha256, file.mtime_ns)


def list_images(
    images: ImageLike | Iterable[ImageLike],
    labels: Sequence[str | Sequence[str] | None] | None = None,
    metadata: Sequence[Mapping[str, Any] | None] | None = None,
) -> tuple[list[NewImage], list[Path]]:
    """Return every image with its labels and metadata, and the folders among `images`.

    Raises
    ------
    InvalidInput
        If labels or metadata cannot be stored, or if their number differs from that of the images.
    """
    is_one = isinstance(images, str | os.PathLike | bytes | Pillow.Image) or (
        isinstance(images, np.ndarray) and images.ndim < 4
    )
    listed: list[ImageLike] = [images] if is_one else list(images)  # type: ignore[arg-type, list-item]
    for name, values in (("labels", labels), ("metadata", metadata)):
        if values is not None and len(values) != len(listed):
            raise InvalidInput(f"{len(listed)} images but {len(values)} {name}; give one for each, or None.")
    found: list[NewImage] = []
    roots: list[Path] = []
    for place, image in enumerate(listed):
        tags = None if labels is None else check_labels(labels[place])
        text = None if metadata is None else _to_json(metadata[place])
        if isinstance(image, str | os.PathLike) and Path(image).is_dir():
            roots.append(absolute_path(image))
            found += [NewImage(path, tags, text) for path in find_images(roots[-1])]
        else:
            found.append(NewImage(image, tags, text))
    return found, roots


def read_sample(
    images: Sequence[NewImage],
    prepare: Callable[[Image], Image],
    n: int = SAMPLE,
    *,
    on_progress: Progress | None = None,
) -> list[Image]:
    """Return a random sample of images, prepared for a model; those that cannot be read are left out.

    Parameters
    ----------
    images : sequence of NewImage
        The images, from :func:`list_images`.
    prepare : callable
        Preprocessing, such as :meth:`ddsh.Model.prepare`.
    n : int
        Size of the sample.
    on_progress : callable, optional
        Called with the number of images read and their total.
    """

    def read(item: NewImage) -> Image | None:
        """Return a prepared image, or None if it cannot be read."""
        with suppress(BrokenImage, InvalidInput):
            return prepare(as_image(item.image))
        return None

    order = np.random.Generator(np.random.PCG64(0)).permutation(len(images))[:n]
    chosen = [images[row] for row in np.sort(order).tolist()]
    found = []
    for done, image in enumerate(map_in_threads(read, chosen), 1):
        if image is not None:
            found.append(image)
        if on_progress:
            on_progress(done, len(chosen))
    return found


def pack_codes(codes: CodePair) -> NDArray[np.uint8]:
    """Return the packed label bits and the packed look bits of each image side by side."""
    return np.hstack([each.packed for each in (codes.label, codes.look) if each is not None])


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path without resolving links."""
    return Path(os.path.abspath(path))  # noqa: PTH100 -- resolve() would follow links to names the user never gave


def check_labels(labels: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return labels as a tuple; raise :class:`~ddsh.errors.InvalidInput` for one that cannot be stored."""
    if labels is None:
        return None
    several = (labels,) if isinstance(labels, str) else tuple(labels)
    if len(several) > MAX_LABELS:
        raise InvalidInput(f"An image has at most {MAX_LABELS:,} labels; got {len(several):,}.")
    for label in several:
        if not isinstance(label, str) or not 0 < len(label.strip()) <= MAX_LABEL or not label.isprintable():
            raise InvalidInput(f"A label is a line of 1 to {MAX_LABEL} characters; got {str(label)[:50]!r}.")
    return several


def _to_json(metadata: Mapping[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    check_metadata(metadata)
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"Metadata must be JSON: {error}.") from error
    if len(text) > MAX_METADATA_BYTES:
        raise InvalidInput(f"Metadata of {len(text):,} bytes; the limit is {MAX_METADATA_BYTES:,} per image.")
    return text


def read_file(path: Path) -> tuple[bytes, int]:
    """Return the content of a file and its modification time."""
    check_file(path)
    try:
        str(path).encode()
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1), os.fstat(file.fileno()).st_mtime_ns
    except UnicodeEncodeError:
        raise BrokenImage("the name is not text in UTF-8; rename the file.") from None
    except OSError as error:
        raise BrokenImage(f"cannot be read ({error.strerror or error}).") from error


def _find_moved(files: Iterable[StoredFile], missing: Sequence[StoredFile], roots: Sequence[Path]) -> list[Path]:
    """Return files below `roots` that are not indexed and have the content of a missing file."""
    if not missing:
        return []
    known = {file.path for file in files}
    lost = {(file.n_bytes, file.sha256) for file in missing}
    sizes = {n_bytes for n_bytes, _ in lost}
    moved: dict[Path, None] = {}
    for path in (path for root in roots if root.is_dir() for path in find_images(root)):
        if path not in known and path not in moved:
            with suppress(OSError):
                n_bytes = path.stat().st_size
                if n_bytes in sizes:  # only then is it worth reading
                    with path.open("rb") as file:
                        if (n_bytes, hashlib.file_digest(file, "sha256").digest()) in lost:
                            moved[path] = None
    return list(moved)


def map_in_threads(work: Callable[[A], B], items: Iterable[A], ahead: int = BATCH) -> Iterator[B]:
    """Yield the results of `work` in order, computed in threads.

    Parameters
    ----------
    work : callable
        Called with each item, as many at a time as there are CPUs.
    items : iterable
        The items.
    ahead : int
        Number of results that are computed before they are asked for, which bounds the memory. By default it is that
        of a batch, so that files are decoded while the network computes the codes of the batch before.
    """
    n_threads = os.cpu_count() or 1
    pending: deque[Future[B]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
