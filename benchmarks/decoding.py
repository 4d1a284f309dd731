"""CPU time of decoding an upload: in this process, and in a worker process."""

import io
import os
import resource
import time
from pathlib import Path

import numpy as np
from PIL import Image

from ddsh.images import decode_image
from ddsh.sandbox import Sandbox

SIZES = {(640, 480): 40, (4000, 3000): 6}


def photo(width: int, height: int) -> bytes:
    """Return a JPEG of smooth noise."""
    noise = np.random.default_rng(0).integers(0, 256, (height // 20, width // 20, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize((width, height)).save(file, "JPEG", quality=90)
    return file.getvalue()


def cpu_of(process: int) -> float:
    """Return the CPU time of a process in seconds; Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the mean CPU time per image of both ways, measured in turns."""
    with Sandbox("ddsh.images:decode_image", cpu_seconds=60, timeout=600, max_bytes=10**9) as sandbox:
        sandbox.call(photo(64, 64))
        worker = next(
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdecimal() and f"\nPPid:\t{os.getpid()}\n" in (path / "status").read_text()
        )
        for (width, height), count in SIZES.items():
            data, here, there = photo(width, height), 0.0, 0.0
            for _ in range(count):
                began = time.process_time()
                decode_image(data)
                here += time.process_time() - began
                began, before = time.process_time(), cpu_of(worker)
                sandbox.call(data)
                there += time.process_time() - began + cpu_of(worker) - before
            print(f"{width} x {height}: {1e3 * here / count:.1f} ms here, {1e3 * there / count:.1f} ms with a worker")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory of this process: {peak / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
