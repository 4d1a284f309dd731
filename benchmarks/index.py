"""Benchmark of all indexes and faiss's IndexBinaryFlat on a million codes, one thread each.

Searches are measured in CPU time, so that other processes do not matter. Code lengths may be given, such as
``python benchmarks/index.py 12 24 32 48``. With ``--numpy``, the indexes do without compiled kernels.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.index import INDEXES, get_index, load_kernels
from ddsh.index.base import Hits, Index

N_CODES = 1_000_000
N_QUERIES = 100
N_CENTRES = 1000
FLIPPED = 0.03
K = 20
RADIUS = 2
REPEATS = 3
LENGTHS = (48, 64)


def random_bits(rng: np.random.Generator, n_rows: int, n_bits: int) -> NDArray[np.uint8]:
    """Draw unrelated codes: the worst case."""
    return rng.integers(0, 2, (n_rows, n_bits), np.uint8)


def clustered_bits(rng: np.random.Generator, n_rows: int, n_bits: int) -> NDArray[np.uint8]:
    """Draw codes near a thousand centres, with 3 of 100 bits flipped, similar to learned codes."""
    centres = np.random.default_rng(n_bits).integers(0, 2, (N_CENTRES, n_bits), np.uint8)
    flipped = (rng.random((n_rows, n_bits), np.float32) < FLIPPED).view(np.uint8)
    codes: NDArray[np.uint8] = centres[rng.integers(0, N_CENTRES, n_rows)]
    codes ^= flipped
    return codes


def best_of(repeats: int, call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    """Return the shortest time of several calls, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        start = clock()
        result = call()
        times.append(clock() - start)
    return min(times), result


def padded(codes: BinaryCodes) -> NDArray[np.uint8]:
    """Return codes padded to a multiple of 64 bits, with which faiss is fastest."""
    return np.ascontiguousarray(codes.words().T).view(np.uint8)


def agree(hits: Hits, distances: NDArray[Any]) -> bool:
    """Return whether the distances equal those of faiss, which orders ties differently."""
    return np.array_equal(hits.distances, distances.reshape(-1))


def time_peer(peer: Any, queries: BinaryCodes) -> tuple[float, float, NDArray[Any], int]:  # noqa: ANN401
    """Return the seconds of faiss for k nearest and for the radius, the distances, and the number within the radius."""
    asked = padded(queries)
    nearest, (distances, _) = best_of(REPEATS, lambda: peer.search(asked, K))
    radius, (ends, _, _) = best_of(REPEATS, lambda: peer.range_search(asked, RADIUS + 1))
    return nearest, radius, distances, int(ends[-1])


def compare(title: str, codes: BinaryCodes, queries: BinaryCodes) -> None:
    """Time all indexes on the same codes and print their speed relative to faiss."""
    filled = padded(codes)
    peer = faiss.IndexBinaryFlat(8 * filled.shape[1])
    peer.add(filled)
    nearest, radius, distances, n_inside = time_peer(peer, queries)
    per_query = 1000 / len(queries)
    print(f"{title}, {codes.n_bits} bits, {len(np.unique(filled, axis=0)):,} different:")
    print(f"  IndexBinaryFlat   k={K} {nearest * per_query:6.3f} ms, r={RADIUS} {radius * per_query:6.3f} ms")
    for name in INDEXES:
        index = get_index(name)(codes.n_bits)
        index.add(codes)
        first, _ = best_of(1, lambda index=index: index.search(queries[:1], K))  # type: ignore[misc]
        mine, hits = best_of(REPEATS, lambda index=index: index.search(queries, K))  # type: ignore[misc]
        inside, found = best_of(REPEATS, lambda index=index: index.within(queries, RADIUS))  # type: ignore[misc]
        assert agree(hits, distances), "the nearest differ from those of faiss"
        assert len(found.ids) == n_inside, "the codes within the radius differ from those of faiss"
        print(
            f"  {name:16}  k={K} {mine * per_query:6.3f} ms (x {nearest / mine:5.1f}), "
            f"r={RADIUS} {inside * per_query:6.3f} ms (x {radius / inside:5.1f}); first search {first:.2f} s"
        )


def time_opening(index: Index, queries: BinaryCodes) -> None:
    """Print how long a saved index takes to load and to answer its first query."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        saving, _ = best_of(1, lambda: index.save(path), time.perf_counter)
        opening, opened = best_of(REPEATS, lambda: type(index).load(path), time.perf_counter)
        first, _ = best_of(1, lambda: opened.search(queries[:1], K), time.perf_counter)
        size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    print(
        f"{index.name}: saved in {saving:.2f} s ({size:.0f} MB), opened in {opening * 1000:.1f} ms, "
        f"first query {first * 1000:.1f} ms"
    )


def main(lengths: Sequence[int]) -> None:
    """Compare random and clustered codes of each length, then load each index."""
    faiss.omp_set_num_threads(1)
    print(f"{N_CODES:,} codes, {N_QUERIES} queries at once, one thread, CPU time per query; faiss {faiss.__version__}")
    for n_bits in lengths:
        for title, draw in (("random", random_bits), ("clustered", clustered_bits)):
            rng = np.random.default_rng(0)
            codes = BinaryCodes.from_bits(draw(rng, N_CODES, n_bits))
            queries = BinaryCodes.from_bits(draw(rng, N_QUERIES, n_bits))
            compare(title, codes, queries)
    for name in INDEXES:
        index = get_index(name)(codes.n_bits)
        index.add(codes)
        time_opening(index, queries)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    if "--numpy" in sys.argv:
        sys.modules["numba"] = None  # type: ignore[assignment]
    load_kernels()
    main([int(n_bits) for n_bits in sys.argv[1:] if n_bits != "--numpy"] or LENGTHS)
