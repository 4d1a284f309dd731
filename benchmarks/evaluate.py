"""Score every metric at once beside the field's usual loop (argsort per query, AP only), in one run.

Usage: python benchmarks/evaluate.py [FOLDER WITH hashCodes-48.mat]
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from threadpoolctl import threadpool_limits

from ddsh.codes import BinaryCodes
from ddsh.evaluation import score

Signs = NDArray[np.float32]
REPEATS = 3
NUSWIDE_DENSITY = (0.40, 0.28, 0.24, 0.19, 0.18, 0.12, 0.09, 0.08, 0.07, 0.06)


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


def best_of(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest time of several calls, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def random_signs(rng: np.random.Generator, n_rows: int, n_bits: int) -> Signs:
    """Codes that are all different: the worst case, as nothing can be visited once for many."""
    return rng.choice(np.array([-1, 1], np.float32), (n_rows, n_bits))


def compare(title: str, query: Signs, database: Signs, query_labels: NDArray[Any], labels: NDArray[Any]) -> None:
    """Time both ways on the same codes and print the ratio."""
    ours = BinaryCodes.from_signs(query), BinaryCodes.from_signs(database)
    seconds, found = best_of(REPEATS, lambda: score(*ours, query_labels, labels))
    loop_seconds, loop_map = best_of(REPEATS, lambda: usual_loop(query, database, query_labels, labels))
    print(
        f"{title}: all scores {seconds:.3f} s, usual loop {loop_seconds:.3f} s, ratio {loop_seconds / seconds:.1f};"
        f" MAP {found.map:.4f} (loop, one order of ties: {loop_map:.4f})"
    )


def peak_megabytes() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run the three comparisons."""
    rng = np.random.default_rng(0)
    print(f"start: peak memory {peak_megabytes():.0f} MB")
    query, database = random_signs(rng, 1867, 48), random_signs(rng, 184_710, 48)
    marks = [(rng.random((len(codes), 10)) < NUSWIDE_DENSITY).astype(np.uint8) for codes in (query, database)]
    codes = BinaryCodes.from_signs(query), BinaryCodes.from_signs(database)
    del query, database
    seconds, found = best_of(1, lambda: score(*codes, *marks, top_k=5000))
    print(f"1,867 x 184,710, multi-label, top 5000, 48 bits: all scores {seconds:.2f} s; MAP {found.map:.4f}")
    print(f"peak memory {peak_megabytes():.0f} MB")

    labels = rng.integers(0, 10, 1000), rng.integers(0, 10, 59_000)
    compare("1,000 x 59,000, random, 48 bits", random_signs(rng, 1000, 48), random_signs(rng, 59_000, 48), *labels)
    print(f"peak memory {peak_megabytes():.0f} MB")
    if len(sys.argv) > 1:
        content = loadmat(Path(sys.argv[1]) / "hashCodes-48.mat")
        learned = content["tB"].astype(np.float32), content["dB"].astype(np.float32)
        compare("the authors' codes, 48 bits", *learned, np.repeat(np.arange(10), 100), np.repeat(np.arange(10), 5900))
        print(f"peak memory {peak_megabytes():.0f} MB")


if __name__ == "__main__":
    # One BLAS thread: two of them make the loop's small products slower, not faster, on a busy machine.
    with threadpool_limits(1):
        main()
