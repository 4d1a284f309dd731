"""Images: find, decode within limits, convert and shrink; lazy sequences."""

import io
import os
import re
import stat
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import ExifTags, UnidentifiedImageError
from PIL import Image as Pillow
from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    PHOTOMETRIC_INTERPRETATION,
    STRIPOFFSETS,
    TILELENGTH,
    TILEOFFSETS,
    TILEWIDTH,
    TiffImageFile,
)

from ddsh.errors import BrokenImage, DataError, InvalidInput, NotAnImage, TooManyPixels

__all__ = [
    "EXTENSIONS",
    "MAX_BYTES",
    "MAX_HEADER_READS",
    "MAX_PARTS",
    "MAX_PIXELS",
    "MAX_READS",
    "MAX_SCANS",
    "MAX_SIDE",
    "MAX_THUMBNAIL",
    "ArrayImages",
    "FileImages",
    "Image",
    "ImageLike",
    "Images",
    "SomeImages",
    "StackedImages",
    "as_image",
    "as_images",
    "check_file",
    "decode_image",
    "encode_png",
    "extension_of",
    "find_images",
    "is_image_name",
    "read_image",
    "thumbnail",
]

Image: TypeAlias = NDArray[np.uint8]
"""One image: uint8 of shape (height, width, channels), with 1 (grey) or 3 (RGB) channels."""

ImageLike: TypeAlias = str | os.PathLike[str] | bytes | Pillow.Image | ArrayLike
"""A path, the content of an image file, a Pillow image, an array, or a PyTorch tensor."""

MAX_PIXELS = 100_000_000
"""Images with more pixels are refused before they are decoded."""

MAX_SIDE = 65_535
"""Images with a longer side are refused, because every row takes memory of its own."""

MAX_SCANS = 100
"""JPEG files with more scans are refused, because each scan takes a pass over all pixels; photos have up to 12."""

MAX_PARTS = 500_000
"""TIFF files with more strips or tiles are refused, because each takes memory and time of its own."""

MAX_HEADER_READS = 10_000
"""Files whose header is read in more parts are refused; photos have up to a few hundred."""

MAX_READS = 3_000_000
"""Files that are read in more parts are refused, because each part runs code of its own."""

MAX_BYTES = 1_000_000_000
"""Files with more bytes are refused before they are opened."""

EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".dib", ".tif", ".tiff", ".gif"})
"""Extensions of image files, in lower case."""

MAX_THUMBNAIL = 1024
"""Largest side of a thumbnail in pixels."""

_MAGIC = (
    (b"\xff\xd8", ".jpg"),
    (b"\x89PNG", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II", ".tif"),
    (b"MM", ".tif"),
    (b"RIFF....WEBP", ".webp"),
)
_CHUNK = 1 << 20
_START_OF_SCAN = b"\xff\xda"
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF")
_PILLOW_WARNINGS = ("ignore", None, Warning, re.compile(r"PIL\."), 0)
_TURNS = {
    2: Pillow.Transpose.FLIP_LEFT_RIGHT,
    3: Pillow.Transpose.ROTATE_180,
    4: Pillow.Transpose.FLIP_TOP_BOTTOM,
    5: Pillow.Transpose.TRANSPOSE,
    6: Pillow.Transpose.ROTATE_270,
    7: Pillow.Transpose.TRANSVERSE,
    8: Pillow.Transpose.ROTATE_90,
}


class Images(Protocol):
    """A sequence of images that are decoded on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Image: ...

    def take(self, rows: NDArray[np.integer[Any]]) -> Sequence[Image]:
        """Return the images of some rows, in that order."""
        return [self[int(row)] for row in rows]

    def name(self, row: int) -> str:
        """Return the name of an image for messages, such as its path."""


class ArrayImages(Images):
    """Images of one size in one array, opened on first access.

    Parameters
    ----------
    open_array : callable
        Returns an array or memory map of shape (n, height, width, channels).
    n_images : int
        Number of images.
    source : str
        Name of the source, for messages.
    """

    def __init__(self, open_array: Callable[[], NDArray[np.uint8]], n_images: int, source: str) -> None:
        self._open = open_array
        self._n_images = n_images
        self._source = source

    def __len__(self) -> int:
        return self._n_images

    def __getitem__(self, row: int) -> Image:
        return np.ascontiguousarray(self._array[row])

    def take(self, rows: NDArray[np.integer[Any]]) -> Sequence[Image]:
        """Return the images of some rows as one array."""
        return cast("Sequence[Image]", np.ascontiguousarray(self._array[rows]))

    def name(self, row: int) -> str:
        """Return the source and the row."""
        return f"{self._source}, image {row}"

    @cached_property
    def _array(self) -> NDArray[np.uint8]:
        array = self._open()
        if array.dtype != np.uint8 or array.ndim != 4 or len(array) != self._n_images:
            raise DataError(
                f"{self._source}: expected uint8 images ({self._n_images}, height, width, channels), "
                f"found {array.dtype} {array.shape}."
            )
        return array


class StackedImages(Images):
    """Several sequences of images, one after the other.

    Parameters
    ----------
    parts : sequence of Images
        The sequences.
    """

    def __init__(self, parts: Sequence[Images]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, row: int) -> Image:
        part, inner = self._locate(row)
        return self._parts[part][inner]

    def name(self, row: int) -> str:
        """Return the name of an image in its sequence."""
        part, inner = self._locate(row)
        return self._parts[part].name(inner)

    def _locate(self, row: int) -> tuple[int, int]:
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        part = int(np.searchsorted(self._ends, row, side="right"))
        return part, row - (int(self._ends[part - 1]) if part else 0)


class SomeImages(Images):
    """Selected rows of a sequence of images, in any order.

    Parameters
    ----------
    images : Images
        The sequence.
    rows : ndarray of int
        The rows.
    """

    def __init__(self, images: Images, rows: NDArray[np.integer[Any]]) -> None:
        self._images = images
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Image:
        return self._images[int(self._rows[row])]

    def take(self, rows: NDArray[np.integer[Any]]) -> Sequence[Image]:
        """Return the images of some of the rows."""
        return self._images.take(self._rows[rows])

    def name(self, row: int) -> str:
        """Return the name of an image in its sequence."""
        return self._images.name(int(self._rows[row]))


class FileImages(Images):
    """Image files, decoded on access.

    Parameters
    ----------
    paths : iterable of path
        The files.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        self.paths = tuple(path if isinstance(path, Path) else Path(path) for path in paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Image:
        return read_image(self.paths[row])

    def name(self, row: int) -> str:
        """Return the path."""
        return str(self.paths[row])


class _ConvertedImages(Images):
    """Any sequence of image-like objects, converted to arrays on access."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, row: int) -> Image:
        return as_image(self._items[row])

    def name(self, row: int) -> str:
        """Return the path if the image is one, otherwise the row."""
        item = self._items[row]
        return str(item) if isinstance(item, str | os.PathLike) else f"image {row}"


def as_image(item: ImageLike) -> Image:
    """Convert one image to a uint8 array of shape (height, width, 1 or 3).

    Parameters
    ----------
    item : path, bytes, Pillow image, array or tensor
        An image file, its content, a Pillow image, an array of uint8 of shape (height, width) or (height, width, 1 or
        3), or a PyTorch tensor of shape (height, width) or (1 or 3, height, width) of uint8 or of floats in 0..1.
    """
    if isinstance(item, bytes):
        return decode_image(item)
    if isinstance(item, str | os.PathLike):
        return read_image(item)
    if isinstance(item, Pillow.Image):
        return _to_array(item)
    is_tensor = type(item).__module__.partition(".")[0] == "torch"
    array = cast("Any", item).detach().cpu().numpy() if is_tensor else np.asarray(item)
    if is_tensor and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.ndim == 2:
        array = array[..., None]
    if is_tensor and array.dtype.kind == "f" and array.size:
        if not (array.min() >= 0 and array.max() <= 1):
            raise InvalidInput("A float tensor has values in 0..1; leave out a transform that normalises the images.")
        array = np.rint(array.astype(np.float64) * 255).astype(np.uint8)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in (1, 3) or not array.size:
        raise InvalidInput(
            "An image is a path, bytes, a Pillow image, uint8 of shape (height, width, 1 or 3), or a tensor"
            f" (1 or 3, height, width); got {array.dtype} of shape {array.shape}."
        )
    return np.ascontiguousarray(array) if is_tensor else array


def as_images(images: Any) -> Images:  # noqa: ANN401 -- arrays, paths, sequences
    """Convert images of any supported form to a lazy sequence.

    Parameters
    ----------
    images : array, path, Pillow image, or a sequence of them
        A uint8 array of shape (n, height, width) or (n, height, width, channels), a memory map of one, an image file,
        a folder of images (at any depth), a Pillow image, a batch of PyTorch tensors (n, channels, height, width), or
        any sequence of paths, bytes, Pillow images, arrays and tensors.
    """
    if isinstance(images, np.ndarray):
        array = images[..., None] if images.ndim == 3 and images.dtype == np.uint8 else images
        if array.ndim != 4 or array.dtype != np.uint8:
            raise InvalidInput(
                f"Images are uint8 of shape (n, height, width, channels); got {images.dtype} of shape {images.shape}."
                " Scale real pixels to 0..255 (NaN has no place) and use astype(uint8)."
            )
        sequence: Images = ArrayImages(lambda: array, len(array), "array")
    elif isinstance(images, str | os.PathLike):
        sequence = FileImages(find_images(images) if Path(images).is_dir() else [images])
    elif callable(getattr(images, "take", None)) and callable(getattr(images, "name", None)):
        sequence = images
    else:
        items = [images] if isinstance(images, Pillow.Image | bytes) else images
        if not hasattr(items, "__len__") or not hasattr(items, "__getitem__"):
            raise InvalidInput(f"Images are an array, a path, or a sequence of them; got {type(images).__name__}.")
        sequence = _ConvertedImages(items)
    if len(sequence) == 0:
        raise InvalidInput("There are no images.")
    return sequence


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the image files at any depth below a folder, sorted by path.

    Hidden files and folders, files with other extensions, and linked folders are left out.

    Raises
    ------
    OSError
        If the folder cannot be listed.
    """

    def stop(error: OSError) -> NoReturn:
        """Raise an error that ``os.walk`` would ignore."""
        raise error

    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in names if is_image_name(name)]
    return sorted(found, key=lambda path: path.parts)


def is_image_name(name: str) -> bool:
    """Return whether a file name has the extension of an image and is not hidden."""
    return Path(name).suffix.lower() in EXTENSIONS and not name.startswith(".")


def extension_of(data: bytes) -> str:
    """Return the file extension that fits the content; ``.img`` if it is unknown."""
    start = data[:4] + b"...." + data[8:12] if data[:4] == b"RIFF" else data
    return next((extension for magic, extension in _MAGIC if start.startswith(magic)), ".img")


def encode_png(image: Image) -> bytes:
    """Encode an image as PNG."""
    return _encode(image, "PNG")


def thumbnail(image: ImageLike, side: int) -> bytes:
    """Return a JPEG of an image, shrunk to fit into a square of `side` pixels."""
    if not 1 <= side <= MAX_THUMBNAIL:
        raise InvalidInput(f"A thumbnail has a side of 1 to {MAX_THUMBNAIL} pixels; got {side}.")
    return _encode(as_image(image), "JPEG", side)


def _encode(image: Image, kind: str, side: int | None = None) -> bytes:
    picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    if side is not None:
        picture.thumbnail((side, side), Pillow.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, kind, quality=85)
    return file.getvalue()


def read_image(path: str | os.PathLike[str]) -> Image:
    """Decode an image file to RGB.

    The first frame of an animation is taken, the camera's EXIF rotation is applied,
    transparency is laid over white, and grey, palette and CMYK images become RGB.

    Parameters
    ----------
    path : path
        A JPEG, PNG, WebP, BMP, TIFF or GIF file.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        The image.

    Raises
    ------
    BrokenImage
        If the file cannot be read or decoded, or is larger than `MAX_BYTES` or `MAX_PIXELS`.
    """
    check_file(path)
    with _naming(path), Path(path).open("rb") as file:
        return _decode(file, MAX_PIXELS)


def decode_image(data: bytes, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode the bytes of an image file to RGB; see :func:`read_image`.

    Parameters
    ----------
    data : bytes
        Content of the file.
    max_pixels : int
        Limit; a larger image is refused by its header, before it is decoded.
    """
    return _decode(io.BytesIO(data), max_pixels)


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise :class:`BrokenImage` unless `path` is a non-empty file within `MAX_BYTES`; nothing is decoded."""
    with _naming(path):
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would block
            raise BrokenImage("not a file.")
        if not status.st_size:
            raise BrokenImage("the file is empty.")
        if status.st_size > MAX_BYTES:
            raise BrokenImage(f"{status.st_size:,} bytes; the limit is {MAX_BYTES:,}.")


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in every error."""
    try:
        yield
    except FileNotFoundError as error:
        raise BrokenImage(f"{path}: does not exist.") from error
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        raise BrokenImage(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    except BrokenImage as error:
        raise BrokenImage(f"{path}: {error}") from error


def _decode(file: IO[bytes], max_pixels: int) -> Image:
    """Decode an open file; the header is checked before the pixels are read."""
    try:
        _check_webp(file, max_pixels)
        _check_tiff(file)
        counted = _CountedReads(file)
        with _quiet_pillow(), Pillow.open(cast("IO[bytes]", counted), formats=_FORMATS) as image:
            counted.n_left = MAX_READS
            _check_size(image.width, image.height, max_pixels)
            _check_cost(image, file, max_pixels)
            image.load()
            return _to_array(image)
    except BrokenImage:
        raise
    except UnidentifiedImageError:
        raise NotAnImage("not a JPEG, PNG, WebP, BMP, TIFF or GIF image.") from None
    except Pillow.DecompressionBombError:
        raise TooManyPixels(f"far more pixels than the limit of {max_pixels:,}.") from None
    except MemoryError as error:
        raise BrokenImage("decoding it needs more memory than there is.") from error
    except Exception as error:  # Pillow's decoders raise almost anything
        details = " ".join(f"{type(error).__name__}: {error}".split())
        raise BrokenImage(f"damaged ({details}).") from error


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if not 0 < width * height <= max_pixels:
        raise TooManyPixels(f"{width} x {height} pixels; expected 1 to {max_pixels:,} in all.")
    if max(width, height) > MAX_SIDE:
        raise TooManyPixels(f"{width} x {height} pixels; a side has {MAX_SIDE:,} at most.")


def _check_webp(file: IO[bytes], max_pixels: int) -> None:
    """Check the size of a WebP image before Pillow opens it, which allocates its canvas."""
    start = file.read(30)
    file.seek(0)
    if len(start) < 30 or start[:4] != b"RIFF" or start[8:12] != b"WEBP":
        return
    kind = start[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(start[place : place + 3], "little") for place in (24, 27))
    elif kind == b"VP8L":
        packed = int.from_bytes(start[21:25], "little")
        width, height = 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    else:
        width, height = (int.from_bytes(start[place : place + 2], "little") & 0x3FFF for place in (26, 28))
    _check_size(width, height, max_pixels)


def _check_tiff(file: IO[bytes]) -> None:
    """Check the number of strips or tiles of a TIFF image before Pillow opens it, which makes an object of each."""
    start = file.read(16)
    if len(start) == 16 and start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        order, is_big = "<" if start[:1] == b"I" else ">", b"+" in start[:4]
        (place,) = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", start, 8 if is_big else 4)
        file.seek(min(place, MAX_BYTES))
        (n_tags,) = struct.unpack(f"{order}Q", file.read(8)) if is_big else struct.unpack(f"{order}H", file.read(2))
        entry = struct.Struct(f"{order}{'HHQ8x' if is_big else 'HHI4x'}")
        tags = file.read(entry.size * min(n_tags, MAX_HEADER_READS))
        for tag, _, count in entry.iter_unpack(tags[: len(tags) // entry.size * entry.size]):
            if tag in (STRIPOFFSETS, TILEOFFSETS) and count > MAX_PARTS:
                raise BrokenImage(f"{count:,} strips or tiles; expected {MAX_PARTS:,} at most.")
    file.seek(0)


def _check_cost(image: Pillow.Image, file: IO[bytes], max_pixels: int) -> None:
    """Refuse files whose pixels take far more time or memory to decode than their number suggests."""
    if isinstance(image, TiffImageFile):
        tile = image.tag_v2.get(TILEWIDTH, 1) * image.tag_v2.get(TILELENGTH, 1)
        if tile > max_pixels:
            raise TooManyPixels(f"a tile of {tile:,} pixels; expected {max_pixels:,} at most.")
    elif image.format in ("JPEG", "MPO"):
        position, n_scans, last = file.tell(), 0, b""
        file.seek(0)
        while chunk := file.read(_CHUNK):
            n_scans += (last + chunk).count(_START_OF_SCAN)
            last = chunk[-1:]
        file.seek(position)
        if n_scans > MAX_SCANS:
            raise BrokenImage(f"{n_scans:,} scans; expected {MAX_SCANS} at most.")


class _CountedReads:
    """A file that may be read so many times; Pillow runs code for every part of a file, and there can be millions."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.n_left = MAX_HEADER_READS

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        self.n_left -= 1
        if self.n_left < 0:
            raise BrokenImage("the file has far more parts than a photo.")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- any other attribute of the file
        return getattr(self._file, name)


@contextmanager
def _quiet_pillow() -> Iterator[None]:
    """Silence Pillow's warnings about size and metadata, in any number of threads at once.

    ``warnings.catch_warnings`` is not thread-safe: it replaces the list of filters. Here every thread adds an entry to
    the list and removes one.
    """
    filters = cast("list[Any]", warnings.filters)
    filters.insert(0, _PILLOW_WARNINGS)
    try:
        yield
    finally:
        with suppress(ValueError):  # the list may have been reset meanwhile
            filters.remove(_PILLOW_WARNINGS)


def _to_array(image: Pillow.Image) -> Image:
    """Return an image as RGB, upright; damaged metadata does not spoil the pixels."""
    pixels = _to_rgb(image)
    orientation: object = None
    with suppress(Exception):
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    turn = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return np.array(pixels if turn is None else pixels.transpose(turn))


def _to_rgb(image: Pillow.Image) -> Pillow.Image:
    """Convert any of Pillow's modes to RGB, with transparency over white."""
    if image.mode.startswith("I") or image.mode == "F":
        return _deep_grey(image)
    if image.mode == "La":  # Pillow has no direct way from premultiplied grey to RGBA
        image = image.convert("LA")
    if image.mode in ("LA", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        layer = image if image.mode == "RGBA" and "transparency" not in image.info else image.convert("RGBA")
        return Pillow.alpha_composite(Pillow.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _deep_grey(image: Pillow.Image) -> Pillow.Image:
    """Convert 16-bit grey to 8 bits; other deep pixel types have no defined range and are refused."""
    if not image.mode.startswith("I;16") and not (image.mode == "I" and image.format == "PNG"):
        raise BrokenImage(f"pixel type {image.mode} has no agreed range; convert it to 8 bits first.")
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    deep = np.asarray(image).astype(np.uint32)
    grey = (deep >> (tags.get(BITSPERSAMPLE, (16,))[0] - 8)).astype(np.uint8)
    if tags.get(PHOTOMETRIC_INTERPRETATION) == 0:  # white is zero, which Pillow heeds up to 8 bits only
        grey = ~grey
    if "transparency" in image.info:
        grey[deep == image.info["transparency"]] = 255
    return Pillow.fromarray(grey).convert("RGB")
