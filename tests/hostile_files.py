"""Small files that cost much: time, memory, or the process that reads them."""

import io
import struct
import zlib
from functools import cache

import numpy as np
from PIL import Image, TiffImagePlugin


def jpeg_of_many_scans(side: int, n_scans: int) -> bytes:
    """Return a progressive JPEG that repeats its last scan; every scan costs a pass over all pixels."""
    file = io.BytesIO()
    Image.new("L", (side, side), 128).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    return data[:end] + data[last:end] * n_scans + data[end:]


def tiff_of_one_tile(image_side: int, tile_side: int) -> bytes:
    """Return a TIFF of a few pixels, stored in one huge compressed tile."""
    tile = zlib.compress(bytes(tile_side * tile_side), 1)
    directory = TiffImagePlugin.ImageFileDirectory_v2()
    for tag, value in (
        (TiffImagePlugin.IMAGEWIDTH, image_side),
        (TiffImagePlugin.IMAGELENGTH, image_side),
        (TiffImagePlugin.BITSPERSAMPLE, 8),
        (TiffImagePlugin.COMPRESSION, 8),
        (TiffImagePlugin.PHOTOMETRIC_INTERPRETATION, 1),
        (TiffImagePlugin.SAMPLESPERPIXEL, 1),
        (322, tile_side),
        (323, tile_side),
        (324, 8),
        (325, len(tile)),
    ):
        directory[tag] = value
    header = b"II" + struct.pack("<HI", 42, 8 + len(tile))
    file = io.BytesIO(header + tile)
    file.seek(len(header) + len(tile))
    directory.save(file)
    return file.getvalue()


def jpeg_of_many_segments(n_segments: int) -> bytes:
    """Return a JPEG with EXIF data in many segments, which Pillow joins one by one."""
    file = io.BytesIO()
    Image.new("L", (8, 8), 128).save(file, "JPEG")
    data = file.getvalue()
    return data[:2] + (b"\xff\xe1" + struct.pack(">H", 18) + b"Exif\0\0" + bytes(10)) * n_segments + data[2:]


def gif_of_many_comments(n_comments: int) -> bytes:
    """Return a GIF with many comments, which Pillow joins one by one."""
    file = io.BytesIO()
    Image.new("P", (8, 8)).save(file, "GIF")
    data = file.getvalue()
    first = data.index(b",\0\0\0\0")
    return data[:first] + b"!\xfe\x01a\0" * n_comments + data[first:]


def tiff_of_many_tiles(side: int) -> bytes:
    """Return a TIFF with a tile for every pixel; Pillow makes an object of each."""
    file = io.BytesIO(b"II" + struct.pack("<HI", 42, 8))
    directory = TiffImagePlugin.ImageFileDirectory_v2()
    for tag, value in ((256, side), (257, side), (258, 8), (259, 1), (262, 1), (277, 1), (322, 1), (323, 1)):
        directory[tag] = value
    directory[324] = directory[325] = (1,) * (side * side)
    file.seek(8)
    directory.save(file)
    return file.getvalue()


def png_of_one_column(height: int) -> bytes:
    """Return a PNG with one pixel per row, and a row for each of the pixels it may have."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def webp_of_huge_canvas() -> bytes:
    """Return an animated WebP of one small frame on a canvas of 169 million pixels."""
    frames = [Image.fromarray(np.full((2, 2, 3), value, np.uint8)) for value in (0, 255)]
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    data = bytearray(file.getvalue())
    assert data[12:16] == b"VP8X"
    data[24:30] = (12_999).to_bytes(3, "little") * 2
    return bytes(data)


@cache
def slow_jpeg() -> bytes:
    """Return a JPEG with as many scans as are read, which takes seconds to decode."""
    return jpeg_of_many_scans(7000, 90)
