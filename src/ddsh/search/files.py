"""Image files on their way into the catalogue: found, read once, hashed, decoded and made small."""

import hashlib
import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from PIL import Image as Pillow

from ddsh.datasets.dataset import Skipped
from ddsh.errors import BrokenImage, InvalidInput
from ddsh.images import EXTENSIONS, MAX_BYTES, Image, check_file, decode_image, read_image
from ddsh.search.looks import look_of

ImageLike: TypeAlias = str | os.PathLike[str] | bytes | Image
"""The path of an image, the content of an image file, or pixels: uint8, (height, width, 1 or 3)."""

MAX_THUMBNAIL = 1024

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Picture:
    """A decoded image: its size, its look, and its pixels as small as the model needs them."""

    width: int
    height: int
    look: bytes
    pixels: Image


@dataclass(frozen=True)
class ImageFile:
    """An image file that was read.

    Parameters
    ----------
    sha256 : bytes
        Checksum of its content.
    n_bytes, mtime_ns : int
        Its size, and when it was last changed.
    picture : Picture or None
        The image; None where its content is known, so that nobody needs it.
    """

    sha256: bytes
    n_bytes: int
    mtime_ns: int
    picture: Picture | None


@dataclass(frozen=True)
class Reader:
    """Reads image files.

    Parameters
    ----------
    prepare : callable
        Makes an image as small as the model needs it.
    is_known : callable
        Says whether a content, given by its checksum, need not be decoded; called from several threads.
    """

    prepare: Callable[[Image], Image]
    is_known: Callable[[bytes], bool]

    def read(self, path: Path) -> ImageFile | Skipped:
        """Read a file, or say why it must be left out."""
        try:
            data, mtime_ns = _content(path)
            return self.read_bytes(data, mtime_ns)
        except (BrokenImage, InvalidInput) as error:
            return Skipped(str(path), _reason(error, path))

    def read_bytes(self, data: bytes, mtime_ns: int) -> ImageFile:
        """Read the content of a file."""
        sha256 = hashlib.sha256(data).digest()
        picture = None if self.is_known(sha256) else self._picture(decode_image(data))
        return ImageFile(sha256, len(data), mtime_ns, picture)

    def _picture(self, image: Image) -> Picture:
        height, width = image.shape[:2]
        return Picture(width, height, look_of(image), self.prepare(image))


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return a path from the root, with links as they are."""
    return Path(os.path.abspath(path))  # noqa: PTH100 -- resolve() would follow links to names nobody gave


def find_images(folder: Path) -> list[Path]:
    """Return the images at any depth below a folder, in an order that does not depend on the machine.

    Hidden files and folders, files that are no images by their names, and linked folders are passed over.
    """
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        images = (name for name in names if Path(name).suffix.lower() in EXTENSIONS and not name.startswith("."))
        found += [Path(parent, name) for name in images]
    return sorted(found, key=lambda path: path.parts)


def file_bytes(image: bytes | Image) -> tuple[bytes, str]:
    """Return the content of a file for an image that has none, and what its name must end in."""
    if isinstance(image, bytes):
        return image, _suffix(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3) or not image.size:
        raise InvalidInput(
            f"An image is uint8 of shape (height, width, 1 or 3); got {image.dtype} of shape {image.shape}."
        )
    file = io.BytesIO()
    Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file, "PNG")
    return file.getvalue(), ".png"


def thumbnail(path: str | os.PathLike[str], side: int) -> bytes:
    """Return a JPEG of an image file that is no larger than a square of `side` pixels."""
    if not 1 <= side <= MAX_THUMBNAIL:
        raise InvalidInput(f"A thumbnail has a side of 1 to {MAX_THUMBNAIL} pixels; got {side}.")
    picture = Pillow.fromarray(read_image(path))
    picture.thumbnail((side, side), Pillow.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=85)
    return file.getvalue()


def in_threads(work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """Yield what `work` makes of each item, in order; a few items ahead, so that memory stays bounded."""
    n_threads = os.cpu_count() or 1
    pending: deque[Future[B]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > 2 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _content(path: Path) -> tuple[bytes, int]:
    """Return the content of a file and when it was last changed."""
    check_file(path)
    try:
        str(path).encode()
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1), os.fstat(file.fileno()).st_mtime_ns
    except UnicodeEncodeError:
        raise BrokenImage("the name is not text in UTF-8; rename the file.") from None
    except OSError as error:
        raise BrokenImage(f"cannot be read ({error.strerror or error}).") from error


def _reason(error: Exception, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ").removesuffix(".")


def _suffix(data: bytes) -> str:
    """Return what the name of a file with this content ends in; the decoder has the last word on what it is."""
    starts = {b"\xff\xd8": ".jpg", b"\x89PNG": ".png", b"GIF8": ".gif", b"BM": ".bmp", b"II": ".tif", b"MM": ".tif"}
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((suffix for start, suffix in starts.items() if data.startswith(start)), ".img")
