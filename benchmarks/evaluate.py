"""Score every metric at once beside the field's usual loop (argsort per query, AP only), in one run.

Usage: ``python benchmarks/evaluate.py [FOLDER WITH hashCodes-48.mat] [--quick] [--out FILE]``. One thread, CPU time;
both ways alternate, so that other load meets both. Memory is measured in a process of its own. The exit code is 1 if
a target is missed.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from json_file import json_file
from numpy.typing import NDArray
from scipy.io import loadmat
from threadpoolctl import threadpool_limits

from ddsh.codes import BinaryCodes
from ddsh.evaluation import score
from ddsh.evaluation.counts import get_kernel

Signs = NDArray[np.float32]
REPEATS = 3
LEAST_RATIO = 25
"""Speed on random codes, as a multiple of the usual loop's."""

MOST_MEGABYTES = 500
"""Peak memory of the process that scores 1,000 queries against 10 million items of 48 bits."""


def usual_loop(query: Signs, database: Signs, query_labels: NDArray[Any], labels: NDArray[Any]) -> float:
    """Mean average precision as most of the field's repositories compute it; ties fall as argsort drops them."""
    n_bits = query.shape[1]
    total = 0.0
    for row, label in zip(query, query_labels, strict=True):
        relevant = (labels == label).astype(np.float32)
        ranking = relevant[np.argsort(0.5 * (n_bits - row @ database.T))]
        places = np.flatnonzero(ranking) + 1.0
        total += float((np.arange(1, len(places) + 1) / places).mean())
    return total / len(query)


def cpu_time(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of a call, and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def random_signs(rng: np.random.Generator, n_rows: int, n_bits: int) -> Signs:
    """Codes that are all different: the worst case, as nothing can be visited once for many."""
    return rng.choice(np.array([-1, 1], np.float32), (n_rows, n_bits))


def compare(query: Signs, database: Signs, query_labels: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
    """Return the best times of both ways on the same codes, measured in turns."""
    ours = BinaryCodes.from_signs(query), BinaryCodes.from_signs(database)
    mine, theirs = [], []
    for _ in range(REPEATS):
        mine.append(cpu_time(lambda: score(*ours, query_labels, labels)))
        theirs.append(cpu_time(lambda: usual_loop(query, database, query_labels, labels)))
    seconds, loop_seconds = min(each[0] for each in mine), min(each[0] for each in theirs)
    return {
        "seconds": round(seconds, 3),
        "loop seconds": round(loop_seconds, 3),
        "ratio": round(loop_seconds / seconds, 1),
        "map": round(mine[0][1].map, 4),
        "loop map (one order of ties)": round(theirs[0][1], 4),
    }


def measure_memory(n_query: int, n_database: int) -> None:
    """Score random codes and print the peak memory of this process as JSON."""
    rng = np.random.default_rng(0)
    sizes = n_query, n_database
    codes = [BinaryCodes(rng.integers(0, 256, (n_items, 6), np.uint8), 48) for n_items in sizes]
    labels = [rng.integers(0, 10, n_items) for n_items in sizes]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, _ = cpu_time(lambda: score(codes[0], codes[1], labels[0], labels[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"megabytes": round(peak / 1024), "before": round(before / 1024), "seconds": round(seconds, 1)}))


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=Path, nargs="?")
    parser.add_argument("--quick", action="store_true", help="fewer queries and items")
    parser.add_argument("--memory", type=int, nargs=2, help="measure memory only: numbers of queries and items")
    parser.add_argument("--out", type=Path, help="JSON file; beside this one, or in build/ with --quick")
    given = parser.parse_args()
    out = given.out or json_file(__file__, quick=given.quick)
    if given.memory:
        measure_memory(*given.memory)
        return 0
    n_query = 200 if given.quick else 1000
    sizes = (100, 2_000_000) if given.quick else (1000, 10_000_000)
    command = [sys.executable, __file__, "--memory", *map(str, sizes)]
    memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rows: dict[str, Any] = {f"memory, {sizes[0]:,} x {sizes[1]:,}": memory}
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n_query), rng.integers(0, 10, 59_000)
    random = random_signs(rng, n_query, 48), random_signs(rng, 59_000, 48)
    rows[f"random, {n_query:,} x 59,000, NumPy"] = compare(*random, *labels)
    if get_kernel(0, worth_loading=0):
        rows[f"random, {n_query:,} x 59,000, numba"] = compare(*random, *labels)
    if given.codes:
        content = loadmat(given.codes / "hashCodes-48.mat")
        every = 1000 // n_query
        learned = content["tB"].astype(np.float32)[::every], content["dB"].astype(np.float32)
        classes = np.repeat(np.arange(10), 100)[::every], np.repeat(np.arange(10), 5900)
        rows["the authors' codes, 48 bits"] = compare(*learned, *classes)
    missed = []
    best = max(row["ratio"] for name, row in rows.items() if name.startswith("random"))
    if best < LEAST_RATIO:
        missed.append(f"{best} times the speed of the usual loop, the target is {LEAST_RATIO}")
    if memory["megabytes"] > MOST_MEGABYTES:
        missed.append(f"{memory['megabytes']} MB of memory, the target is {MOST_MEGABYTES}")
    for name, row in rows.items():
        print(f"{name}: {row}")
    for line in missed:
        print(f"missed: {line}")
    out.write_text(json.dumps({"rows": rows, "missed": missed}, indent=2, ensure_ascii=False) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    # One BLAS thread: two of them make the loop's small products slower, not faster, on a busy machine.
    with threadpool_limits(1):
        sys.exit(main())
