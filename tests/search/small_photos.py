"""Small photos for the tests of search."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"blue": (40, 60, 200), "green": (40, 190, 60), "red": (210, 50, 40)}
SIDE = 16


def draw(rng: np.random.Generator, colour: tuple[int, int, int]) -> np.ndarray:
    """A picture of mostly one colour, like no other."""
    coarse = rng.integers(-60, 60, (4, 4, 3))
    noise = np.kron(coarse, np.ones((SIDE // 4, SIDE // 4, 1), np.int64))
    return np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)


def write_photos(folder: Path, rng: np.random.Generator, n_each: int = 6) -> Path:
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(n_each):
            Image.fromarray(draw(rng, colour)).save(folder / name / f"{number}.png")
    return folder


def touch(path: Path, seconds: int = 5) -> None:
    """Make a file look as if it was changed some seconds later."""
    time = path.stat().st_mtime_ns + seconds * 10**9
    os.utime(path, ns=(time, time))


def huge_png(side: int = 50_000) -> bytes:
    """Return a PNG that says it is huge, in no more than a few bytes."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(bytes(1000))), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
