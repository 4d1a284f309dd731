"""Images per second of indexing, beside the bare forward pass and bare decoding.

Usage: ``python benchmarks/encode.py [--quick] [--out FILE]``. It makes small photos (320 x 240), where the network is
the limit, and large ones (3000 x 2000), where decoding is, and adds them to an index, as ``ddsh index`` does. Beside
that it measures the same network on pixels that are decoded already, and the fastest decoder that is installed, in as
many threads as there are cores. That is wall-clock time and needs a machine without other work.

On as many cores as the network uses, decoding and resizing cannot overlap with it: each takes CPU time from the other.
So the CPU time of all steps that an image needs is measured, too: decoding, a small and a tiny copy from all pixels,
and the forward pass. Where a share is missed, indexing may take as much longer than the sum of these. The exit code
is 1 if it takes longer. Photos are added in ten parts, and all measurements take turns.
"""

import argparse
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from json_file import json_file
from PIL import Image as Pillow

import ddsh
from ddsh.images import Image, decode_image
from ddsh.memory import reuse_freed_memory
from ddsh.search.duplicates import tiny_copy
from ddsh.search.indexer import NewImage
from ddsh.search.onnx_encoder import OnnxEncoder

SIZES = {"small": (320, 240), "large": (3000, 2000)}
LEAST_OF_FORWARD, LEAST_OF_DECODING, LEAST_OF_STEPS = 0.95, 0.9, 0.9
N_PARTS = 10
BATCH = 128


def make_photos(folder: Path, size: tuple[int, int], n_photos: int) -> list[Path]:
    """Write JPEG files of smooth colours with some noise."""
    rng, paths = np.random.default_rng(0), []
    folder.mkdir()
    for number in range(n_photos):
        coarse = Pillow.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(size, Pillow.Resampling.BICUBIC)
        noise = np.resize(rng.integers(0, 24, 99_991, np.uint8), (size[1], size[0], 3))
        pixels = np.clip(np.asarray(coarse).astype(np.int16) + noise, 0, 255).astype(np.uint8)
        paths.append(folder / f"{number:05d}.jpg")
        Pillow.fromarray(pixels).save(paths[-1], quality=90)
    return paths


def decode(path: Path) -> Image:
    """Decode a file with the fastest decoder there is."""
    data = path.read_bytes()
    if find_spec("simplejpeg"):
        import simplejpeg

        pixels: Image = simplejpeg.decode_jpeg(data)
        return pixels
    with Pillow.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


class Clock:
    """Adds up wall-clock time and CPU time."""

    def __init__(self) -> None:
        self.n_images, self.wall, self.cpu = 0, 0.0, 0.0

    def measure(self, n_images: int, call: Callable[[], object]) -> None:
        """Measure a call that does something with some images."""
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        self.n_images += n_images
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu

    def rates(self) -> dict[str, float]:
        """Return images per second of wall-clock time, and of CPU time."""
        return {"per second": round(self.n_images / self.wall, 1), "per CPU second": round(self.n_images / self.cpu, 1)}


def compare(name: str, paths: Sequence[Path], model: ddsh.Model, folder: Path) -> dict[str, Any]:
    """Return the rates of indexing, of the network alone, and of decoding alone."""
    threads = os.cpu_count() or 1
    with ddsh.ImageSearch.create(folder, model) as search:
        warm = [np.full((8, 8, 3), shade, np.uint8) for shade in range(16)]
        search.add(warm)
        encoder = search._encoder_for([NewImage(path) for path in paths] * 20)
        pixels = [encoder.prepare(decode(path)) for path in paths[:BATCH]]
        encoder.encode_pair(pixels)

        def forward(some: Sequence[Path]) -> None:
            for start in range(0, len(some), BATCH):
                encoder.encode_pair(pixels[: min(BATCH, len(some) - start)])

        def decode_all(some: Sequence[Path]) -> None:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(decode, some):
                    pass

        def take_steps(some: Sequence[Path]) -> None:
            for start in range(0, len(some), BATCH):
                decoded = [decode_image(path.read_bytes()) for path in some[start : start + BATCH]]
                for image in decoded:
                    tiny_copy(image)
                encoder.encode_pair([encoder.prepare(image) for image in decoded])

        calls: dict[str, Callable[[list[Path]], object]] = {
            "forward": forward,
            "decode": decode_all,
            "steps": take_steps,
            "index": search.add,
        }
        clocks = {name: Clock() for name in calls}
        size = -(-len(paths) // N_PARTS)
        for start in range(0, len(paths), size):
            part = list(paths[start : start + size])
            for what, call in calls.items():
                clocks[what].measure(len(part), partial(call, part))
        rows = {what: clock.rates() for what, clock in clocks.items()}
    peer, least = ("forward", LEAST_OF_FORWARD) if name == "small" else ("decode", LEAST_OF_DECODING)
    share = rows["index"]["per second"] / rows[peer]["per second"]
    engine = "onnxruntime" if isinstance(encoder, OnnxEncoder) else "PyTorch"
    return {
        "photos": f"{len(paths):,} {name}",
        "engine": engine,
        **rows,
        "share of": peer,
        "share": round(share, 2),
        "least": least,
        "share of steps": round(rows["index"]["per CPU second"] / rows["steps"]["per CPU second"], 2),
    }


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the photos")
    parser.add_argument("--out", type=Path, help="JSON file; beside this one, or in build/ with --quick")
    given = parser.parse_args()
    out = given.out or json_file(__file__, quick=given.quick)
    reuse_freed_memory()  # as every command of ddsh does
    model = ddsh.Model(None, look_bits=128)
    model.fit([np.random.default_rng(seed).integers(0, 256, (64, 64, 3), np.uint8) for seed in range(300)])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, n_photos in (("small", 2000), ("large", 300)):
            paths = make_photos(Path(folder) / name, SIZES[name], n_photos // 10 if given.quick else n_photos)
            rows.append(compare(name, paths, model, Path(folder) / f"{name}-index"))
            print(rows[-1], flush=True)
    missed = [
        f"{row['photos']} photos are indexed at {row['share']:.2f} of the rate of bare {row['share of']}, the target is"
        f" {row['least']}, or {LEAST_OF_STEPS} of the rate of its steps by CPU time, which is {row['share of steps']}"
        for row in rows
        if row["share"] < row["least"] and row["share of steps"] < LEAST_OF_STEPS
    ]
    for line in missed:
        print(f"missed: {line}")
    out.write_text(json.dumps({"rows": rows, "missed": missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
