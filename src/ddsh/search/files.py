"""Image files on their way into the catalogue: found, read once, hashed, decoded and made small."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from ddsh.datasets.base import Skipped
from ddsh.errors import BrokenImage, InvalidInput
from ddsh.images import MAX_BYTES, Image, as_image, check_file, decode_image, encode_png, extension_of
from ddsh.search.looks import look_of

ImageLike: TypeAlias = str | os.PathLike[str] | bytes | Image
"""The path of an image, the content of an image file, or pixels: uint8, (height, width, 1 or 3)."""

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


def file_bytes(image: bytes | Image) -> tuple[bytes, str]:
    """Return the content of a file for an image that has none, and its extension."""
    if isinstance(image, bytes):
        return image, extension_of(image)
    return encode_png(as_image(image)), ".png"


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
