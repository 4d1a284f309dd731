"""Compiled indexes beside faiss and usearch: supervised and uniform codes, single queries, batches and radii.

Usage: ``python benchmarks/kernels.py FOLDER [--quick] [--out FILE]``, with the authors' codes in FOLDER. One thread,
CPU time; the searches of an index and of faiss alternate, so that other load meets both. Every result is compared with
that of ``faiss.IndexBinaryFlat``. The exit code is 1 if a ratio is below its target.
"""

import argparse
import json
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from scaled_codes import read, scale
from usearch.index import Index as UsearchIndex

from ddsh.codes import BinaryCodes, CodePair
from ddsh.index import get_index, load_kernels
from ddsh.index.base import Index
from ddsh.index.pairs import PairIndex

K = 100
TARGETS = {
    "supervised, one query, p50": {1_000_000: 100, 10_000_000: 1000},
    "supervised, one query, p99": {1_000_000: 10, 10_000_000: 40},
    "supervised, batch": {1_000_000: 50, 10_000_000: 100},
    "supervised, radius 0": {1_000_000: 15, 10_000_000: 15},
    "supervised, radius 1": {1_000_000: 15, 10_000_000: 15},
    "supervised, radius 2": {1_000_000: 15, 10_000_000: 15},
    "uniform, one query, p50": {1_000_000: 5, 10_000_000: 3},
    "label and look bits, one query, p50": {1_000_000: 5, 10_000_000: 5},
}
"""How many times as fast as ``IndexBinaryFlat``, by number of codes."""


def padded(codes: BinaryCodes) -> NDArray[np.uint8]:
    """Return codes padded to a multiple of 64 bits, with which faiss is fastest."""
    return np.ascontiguousarray(codes.words().T).view(np.uint8)


def cpu_time(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of this thread for a call, and its result."""
    start = time.thread_time()
    result = call()
    return time.thread_time() - start, result


def alternate(ours: Callable[[int], Any], theirs: Callable[[int], Any], n_ours: int, n_theirs: int) -> tuple[Any, Any]:
    """Return the times of both for each query; theirs is asked less often, and evenly spread."""
    every = max(1, n_ours // n_theirs)
    mine, others = [], []
    for query in range(n_ours):
        mine.append(cpu_time(lambda query=query: ours(query))[0])  # type: ignore[misc]
        if query % every == 0:
            others.append(cpu_time(lambda query=query: theirs(query))[0])  # type: ignore[misc]
    return np.array(mine), np.array(others)


class Report:
    """Collects figures and compares them with the targets."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, what: str, n_codes: int, ours: float, theirs: float, **facts: object) -> None:
        """Record the seconds of both."""
        target = TARGETS.get(what, {}).get(n_codes)
        row = {"what": what, "codes": n_codes, "ms": ours * 1e3, "faiss_ms": theirs * 1e3, "ratio": theirs / ours}
        self.rows.append({**row, "target": target, **facts})
        print(
            f"{n_codes:>10,} {what:38} {ours * 1e3:9.4f} ms, faiss {theirs * 1e3:9.3f} ms: {theirs / ours:8.1f} x"
            + ("" if target is None else f" (target {target})")
        )

    @property
    def missed(self) -> list[dict[str, Any]]:
        """Rows whose ratio is below the target."""
        return [row for row in self.rows if row.get("target") and row["ratio"] < row["target"]]


def single_queries(report: Report, title: str, index: Index, flat: Any, queries: BinaryCodes, n_flat: int) -> None:  # noqa: ANN401
    """Measure one query at a time."""
    ones, asked = [queries[[row]] for row in range(len(queries))], padded(queries)
    index.search(ones[0], K)
    for row in (0, len(queries) // 2):
        expected = flat.search(asked[row : row + 1], K)[0]
        assert np.array_equal(index.search(ones[row], K).distances, expected[0]), "distances differ from those of faiss"
    mine, others = alternate(
        lambda row: index.search(ones[row], K), lambda row: flat.search(asked[row : row + 1], K), len(queries), n_flat
    )
    for share in (50, 99):
        ours, theirs = np.percentile(mine, share), np.percentile(others, share)
        report.add(f"{title}, one query, p{share}", len(index), float(ours), float(theirs))


def supervised(report: Report, folder: Path, n_codes: int, n_flat: int) -> None:
    """Measure scaled codes of 48 bits."""
    queries, given = read(folder, 48)
    codes = scale(given, n_codes)
    flat = faiss.IndexBinaryFlat(64)
    flat.add(padded(codes))
    index = get_index("buckets")(48)
    index.add(codes)
    single_queries(report, "supervised", index, flat, queries, n_flat)
    asked = padded(queries)
    ours, _ = cpu_time(lambda: index.search(queries, K))
    theirs, _ = cpu_time(lambda: flat.search(asked[:n_flat], K))
    report.add("supervised, batch", n_codes, ours / len(queries), theirs / n_flat)
    some = range(0, len(queries), len(queries) // n_flat)
    for radius in (0, 1, 2):
        times = []
        for row in some:
            one = queries[[row]]
            mine, hits = cpu_time(lambda one=one, radius=radius: index.within(one, radius))  # type: ignore[misc]
            other, (_, _, found) = cpu_time(
                lambda row=row, radius=radius: flat.range_search(asked[row : row + 1], radius + 1)  # type: ignore[misc]
            )
            assert len(hits.ids) == len(found), "the codes within the radius differ from those of faiss"
            times.append((mine, other))
        ours, theirs = np.median(np.array(times), axis=0)
        report.add(f"supervised, radius {radius}", n_codes, float(ours), float(theirs))
    removal, _ = cpu_time(lambda: index.remove([n_codes // 2]))
    with tempfile.TemporaryDirectory() as disk:
        index.save(disk)
        size = sum(path.stat().st_size for path in Path(disk).iterdir()) / n_codes
    report.rows.append({"what": "remove one", "codes": n_codes, "ms": removal * 1e3})
    report.rows.append({"what": "bytes per code on disk", "codes": n_codes, "bytes": size})
    print(f"{n_codes:>10,} remove one {removal * 1e3:.3f} ms; {size:.1f} bytes per code on disk")
    peers(report, codes, queries, flat)


def uniform(report: Report, n_codes: int, n_flat: int) -> None:
    """Measure unrelated codes of 64 bits, and how long memory takes to be read."""
    rng = np.random.default_rng(0)
    codes = BinaryCodes(rng.integers(0, 256, (n_codes, 8), np.uint8), 64)
    queries = BinaryCodes(rng.integers(0, 256, (100, 8), np.uint8), 64)
    flat = faiss.IndexBinaryFlat(64)
    flat.add(codes.packed)
    index = get_index("exact")(64)
    index.add(codes)
    single_queries(report, "uniform", index, flat, queries, n_flat)
    words = codes.packed.view(np.uint64)
    floor = float(np.median([cpu_time(words.sum)[0] for _ in range(20)]))
    report.rows.append({"what": "sum of all words (memory bandwidth)", "codes": n_codes, "ms": floor * 1e3})
    print(f"{n_codes:>10,} sum of all words: {floor * 1e3:.3f} ms")


def pairs(report: Report, folder: Path, n_codes: int, n_flat: int) -> None:
    """Measure scaled label bits (32) with look bits (128) that are drawn around the class of the image.

    faiss compares the same 160 bits; it has no order by both codes, so only the times are compared.
    """
    queries, given = read(folder, 32)
    label = scale(given, n_codes)
    rng = np.random.default_rng(1)

    def looks(codes: BinaryCodes) -> BinaryCodes:
        """Return look bits of which a quarter differs from those of the label bits' class."""
        kinds = np.random.default_rng(2).integers(0, 1 << 64, (256, 2), np.uint64)
        words = kinds[codes.packed[:, 0]]
        for _ in range(2):  # two random words have a quarter of their bits in common
            words ^= rng.integers(0, 1 << 64, words.shape, np.uint64) & rng.integers(0, 1 << 64, words.shape, np.uint64)
        return BinaryCodes(words.view(np.uint8).reshape(-1, 16), 128)

    codes, asked = CodePair(label, looks(label)), CodePair(queries, looks(queries))
    index = PairIndex(32, 128, get_index("buckets"))
    index.add(codes, np.arange(n_codes))
    assert codes.look is not None
    assert asked.look is not None
    flat = faiss.IndexBinaryFlat(160)
    flat.add(np.hstack([label.packed, codes.look.packed]))
    bits, ones = np.hstack([queries.packed, asked.look.packed]), [asked[[row]] for row in range(len(asked))]
    index.search(ones[0], K)
    mine, others = alternate(
        lambda row: index.search(ones[row], K), lambda row: flat.search(bits[row : row + 1], K), 200, n_flat
    )
    for share in (50, 99):
        ours, theirs = float(np.percentile(mine, share)), float(np.percentile(others, share))
        report.add(f"label and look bits, one query, p{share}", n_codes, ours, theirs)


def peers(report: Report, codes: BinaryCodes, queries: BinaryCodes, flat: Any) -> None:  # noqa: ANN401
    """Measure other binary indexes with their recall: found at a distance no larger than the true k-th."""
    packed, asked = padded(codes), padded(queries)[:100]
    furthest = flat.search(asked, K)[0][:, -1:]
    others: dict[str, Any] = {"faiss IndexBinaryHash, 16 bits": faiss.IndexBinaryHash(64, 16)}
    others["faiss IndexBinaryMultiHash, 4 x 12 bits"] = faiss.IndexBinaryMultiHash(64, 4, 12)
    quantizer = faiss.IndexBinaryFlat(64)
    others["faiss IndexBinaryIVF, 1,024 lists, 8 probed"] = faiss.IndexBinaryIVF(quantizer, 64, 1024)
    others["faiss IndexBinaryIVF, 1,024 lists, 8 probed"].nprobe = 8
    if len(codes) <= 1_000_000:
        others["faiss IndexBinaryHNSW, M = 16"] = faiss.IndexBinaryHNSW(64, 16)
    for name, other in others.items():
        if not other.is_trained:
            other.train(packed[:100_000])
        other.add(packed)
        seconds, (distances, found) = cpu_time(lambda other=other: other.search(asked, K))  # type: ignore[misc]
        recall = float(((found >= 0) & (distances <= furthest)).mean())
        record_peer(report, name, len(codes), seconds / len(asked), recall)
    if len(codes) <= 1_000_000:
        graph = UsearchIndex(ndim=64, metric="hamming", dtype="b1")
        graph.add(np.arange(len(codes)), packed, threads=1)
        seconds, found = cpu_time(lambda: graph.search(asked, K, threads=1))
        record_peer(report, "usearch b1", len(codes), seconds / len(asked), float((found.distances <= furthest).mean()))


def record_peer(report: Report, name: str, n_codes: int, seconds: float, recall: float) -> None:
    """Record the time per query and the recall of an index."""
    report.rows.append({"what": name, "codes": n_codes, "ms": seconds * 1e3, "recall": recall})
    print(f"{n_codes:>10,} {name:42} {seconds * 1e3:9.4f} ms per query, recall {recall:.3f}")


def growth(report: Report, folder: Path, sizes: list[int]) -> None:
    """Measure the median of one query for growing numbers of codes."""
    queries, given = read(folder, 48)
    ones = [queries[[row]] for row in range(0, len(queries), 5)]
    for n_codes in sizes:
        codes = (
            scale(given, n_codes)
            if n_codes > len(given)
            else given[np.random.default_rng(0).permutation(len(given))[:n_codes]]
        )
        index = get_index("buckets")(48)
        index.add(codes)
        index.search(ones[0], K)
        times = [cpu_time(lambda index=index, one=one: index.search(one, K))[0] for one in ones]  # type: ignore[misc]
        figures = {f"p{share}_ms": float(np.percentile(times, share)) * 1e3 for share in (50, 90, 99)}
        report.rows.append({"what": "growth", "codes": n_codes, **figures})
        print(f"{n_codes:>10,} growth: " + ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="folder with hashCodes-32.mat and hashCodes-48.mat")
    parser.add_argument("--quick", action="store_true", help="one million codes only")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/kernels.json"))
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    if not load_kernels():
        sys.exit("numba is not installed: pip install 'ddsh[fast]'")
    report = Report()
    for n_codes, n_flat in [(1_000_000, 100)] if options.quick else [(1_000_000, 100), (10_000_000, 20)]:
        supervised(report, options.folder, n_codes, n_flat)
        uniform(report, n_codes, n_flat)
        pairs(report, options.folder, n_codes, n_flat)
    growth(report, options.folder, [10_000, 100_000, 1_000_000] + ([] if options.quick else [10_000_000]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    machine = {"cpu": platform.processor() or platform.machine(), "faiss": faiss.__version__, "peak_mb": peak}
    options.out.write_text(json.dumps({"machine": machine, "rows": report.rows}, indent=1) + "\n")
    for row in report.missed:
        print(f"missed: {row['what']}, {row['codes']:,} codes: {row['ratio']:.1f} of {row['target']}")
    sys.exit(1 if report.missed else 0)


if __name__ == "__main__":
    main()
