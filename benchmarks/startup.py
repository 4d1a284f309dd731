"""CPU time of short commands, beside bare imports of the packages they need.

Usage: ``python benchmarks/startup.py FOLDER [--quick] [--index INDEX] [--out FILE]``; FOLDER holds the authors' codes.
Commands and bare imports alternate, and the least time of several runs counts. The modules are compiled to bytecode
before, as those of an installed package are. The exit code is 1 if a target is missed.
"""

import argparse
import compileall
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from json_file import json_file
from large_index import make_index
from PIL import Image

import ddsh

BARE = {
    "python": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "import numpy, typer, pydantic": [sys.executable, "-c", "import numpy, typer; from pydantic import BaseModel"],
}


def cpu_time(command: list[str]) -> float:
    """Return the CPU time of a command in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=Path)
    parser.add_argument("--quick", action="store_true", help="100,000 entries instead of a million, fewer runs")
    parser.add_argument("--index", type=Path, help="an index that large_index.py made")
    parser.add_argument("--out", type=Path, help="JSON file; beside this one, or in build/ with --quick")
    given = parser.parse_args()
    out = given.out or json_file(__file__, quick=given.quick)
    compileall.compile_dir(Path(ddsh.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        index = given.index or Path(folder) / "index"
        if given.index is None:
            make_index(index, given.codes, 100_000 if given.quick else 1_000_000)
        photo = Path(folder) / "photo.png"
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(photo)
        program = [sys.executable, "-m", "ddsh"]
        commands = {
            "ddsh --help": ([*program, "--help"], 0.2),
            "ddsh --version": ([*program, "--version"], 0.2),
            "ddsh search INDEX ID": ([*program, "search", str(index), "17"], 0.6),
            "ddsh search INDEX PHOTO": ([*program, "search", str(index), str(photo)], 2.5),
        }
        seconds: dict[str, list[float]] = {name: [] for name in (*BARE, *commands)}
        for _ in range(2 if given.quick else 5):
            for name, command in BARE.items():
                seconds[name].append(cpu_time(command))
            for name, (command, _) in commands.items():
                seconds[name].append(cpu_time(command))
    least = {name: round(min(times), 3) for name, times in seconds.items()}
    missed = [
        f"{name}: {least[name]} s of CPU time, the target is {target}"
        for name, (_, target) in commands.items()
        if least[name] > target
    ]
    for name, value in least.items():
        print(f"{name}: {value} s")
    for line in missed:
        print(f"missed: {line}")
    out.write_text(json.dumps({"seconds": least, "missed": missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
