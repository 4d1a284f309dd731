"""Time and memory of the methods on features, each in its own process, compared with other libraries.

Usage: python benchmarks/baselines.py [CASE ...]

Features are drawn around ten centres, one per class. Two-step methods use a linear map as extension, so that mostly
their coding step is measured; boosted trees are measured separately. With 59,000 items an n x n matrix of float64 would
take 27.8 GB: the peak memory shows that there is none.
"""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels, as_labels
from ddsh.methods import get_method

N_BITS, N_CLASSES = 48, 10
PAPER = (5000, 4096)
"""Training items and features in the paper."""
WHOLE = (59_000, 64)
"""Items in the database of CIFAR-10."""

Items = tuple[NDArray[np.float32], Labels]
Fit = Callable[[NDArray[np.float32], Labels], object]


def draw(n_items: int, width: int) -> Items:
    """Draw features around the centres of ten classes, and their labels."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, N_CLASSES, n_items)
    centres = rng.standard_normal((N_CLASSES, width), np.float32)
    noise = rng.standard_normal((n_items, width), np.float32)
    return centres[classes] + 2 * noise, as_labels(classes)


def ours(name: str, **params: Any) -> Fit:  # noqa: ANN401 -- parameters of any method
    """Return a function that fits one of our methods."""
    return lambda features, labels: get_method(name)(N_BITS, **params).fit(features, labels)


def faiss_itq(features: NDArray[np.float32], _: Labels) -> None:
    """Train faiss's ITQ: centring, PCA and rotation."""
    import faiss

    faiss.ITQTransform(features.shape[1], N_BITS, True).train(features)


def sklearn_projection(features: NDArray[np.float32], _: Labels) -> None:
    """Fit scikit-learn's random projection."""
    from sklearn.random_projection import GaussianRandomProjection

    GaussianRandomProjection(N_BITS, random_state=0).fit(features)


CASES: dict[str, tuple[tuple[int, int], Fit]] = {
    "LSH": (PAPER, ours("lsh")),
    "scikit-learn's GaussianRandomProjection": (PAPER, sklearn_projection),
    "ITQ": (PAPER, ours("itq")),
    "faiss's ITQTransform": (PAPER, faiss_itq),
    "SDH": (PAPER, ours("sdh")),
    "LFH coding": (PAPER, ours("lfh", extension="linear")),
    "COSDISH coding": (PAPER, ours("cosdish", extension="linear")),
    "FastH coding": (PAPER, ours("fasth", extension="linear")),
    "FastH with boosted trees": (PAPER, ours("fasth")),
    "SDH, 59,000": (WHOLE, ours("sdh")),
    "LFH coding, 59,000": (WHOLE, ours("lfh", extension="linear")),
    "COSDISH coding, 59,000": (WHOLE, ours("cosdish", extension="linear")),
    "FastH coding, 59,000": (WHOLE, ours("fasth", extension="linear")),
}


def measure(case: str) -> None:
    """Run one case and print a line; the peak is that of the whole process, features included."""
    shape, fit = CASES[case]
    features, labels = draw(*shape)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    fit(features, labels)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = "{:,} x {:,}".format(*shape)
    print(
        f"{case:40s} {size:15s} {wall:7.1f} s {cpu:7.1f} CPU s   peak {peak / 2**20:5.2f} GB,"
        f" {(peak - before) / 2**20:5.2f} GB more than the data",
        flush=True,
    )


def main() -> None:
    """Measure all cases, or those given on the command line."""
    context = multiprocessing.get_context("spawn")
    for case in sys.argv[1:] or CASES:
        child = context.Process(target=measure, args=(case,))
        child.start()
        child.join()


if __name__ == "__main__":
    main()
