"""Compiled indexes beside faiss and usearch: supervised and uniform codes, single queries, batches and radii.

Usage: ``python benchmarks/kernels.py FOLDER [--quick] [--out FILE]``, with the authors' codes in FOLDER. One thread,
CPU time; the searches of an index and of faiss alternate, so that other load meets both. Distances are compared with
those of ``faiss.IndexBinaryFlat``. The exit code is 1 if a target is missed.

``--only supervised pairs --size 1000000`` measures some parts and replaces their figures in the JSON file.
Without ``--quick`` it measures one and ten million codes and writes the JSON file, the table in
docs/reference/indexes.md and the figure beside it; ``--docs FILE`` writes the latter two from a JSON file.
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
import matplotlib.pyplot as plt
import numpy as np
from look_codes import looks_of, read_looks
from numpy.typing import NDArray
from scaled_codes import read, scale
from usearch.index import Index as UsearchIndex

from ddsh.codes import BinaryCodes, CodePair
from ddsh.index import BucketsIndex, get_index, load_kernels
from ddsh.index.base import Index
from ddsh.index.pairs import PairIndex
from ddsh.memory import reuse_freed_memory

K = 100
ROUNDS = 3
PARTS = ("supervised", "uniform", "pairs", "peers", "growth")
ROOT = Path(__file__).parents[1]
PAGE, FIGURE = ROOT / "docs" / "reference" / "indexes.md", ROOT / "docs" / "pictures" / "index-growth.svg"
TARGETS = {
    "supervised, one query, p50": {1_000_000: 100, 10_000_000: 1000},
    "supervised, one query, p99": {1_000_000: 10, 10_000_000: 40},
    "supervised, batch of 1,000": {1_000_000: 50, 10_000_000: 100},
    "supervised, radius 0": {1_000_000: 15, 10_000_000: 15},
    "supervised, radius 1": {1_000_000: 15, 10_000_000: 15},
    "supervised, radius 2": {1_000_000: 15, 10_000_000: 15},
    "uniform, one query, p50": {1_000_000: 5, 10_000_000: 3},
    "label and look bits, one query, p50": {1_000_000: 5, 10_000_000: 5},
}
"""How many times as fast as ``IndexBinaryFlat``, by number of codes."""

BOUND_BY_MEMORY = ("uniform, one query, p50",)
"""Ratios that may miss their target, if reading all codes is the limit; see the next limit."""

LIMITS = {
    "uniform, one query, in sums of all words": 1.5,
    "remove one code, ms": 1.0,
    "memory, bytes per code": 20.0,
    "disk, bytes per code": 20.0,
}
"""Largest values."""


def padded(codes: BinaryCodes) -> NDArray[np.uint8]:
    """Return codes padded to a multiple of 64 bits, with which faiss is fastest."""
    return np.ascontiguousarray(codes.words().T).view(np.uint8)


def cpu_time(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of this thread for a call, without that of reading the clock, and its result."""
    start = time.thread_time()
    result = call()
    return time.thread_time() - start - CLOCK, result


CLOCK = 0.0
CLOCK = min(cpu_time(lambda: None)[0] for _ in range(10_000))
"""Seconds that it takes to read the clock."""


def alternate(ours: Callable[[int], Any], theirs: Callable[[int], Any], n_ours: int, n_theirs: int) -> tuple[Any, Any]:
    """Return the times of both for each query; theirs is asked less often, and evenly spread.

    All queries are asked three times over, and the least time of each counts: other load can only add to it.
    """
    every = max(1, n_ours // n_theirs)
    mine: list[list[float]] = []
    others: list[list[float]] = []
    for _ in range(ROUNDS):
        mine.append([])
        others.append([])
        for query in range(n_ours):
            mine[-1].append(cpu_time(lambda query=query: ours(query))[0])  # type: ignore[misc]
            if query % every == 0:
                others[-1].append(cpu_time(lambda query=query: theirs(query))[0])  # type: ignore[misc]
    return np.min(mine, axis=0), np.min(others, axis=0)


def missed_targets(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each figure that misses its target."""
    missed = []
    for row in rows:
        name = f"{row['what']}, {row['codes']:,} codes"
        is_slow = row.get("target") is not None and row["ratio"] < row["target"]
        if is_slow and row["what"] not in BOUND_BY_MEMORY:
            missed.append(f"{name}: {row['ratio']:.1f} times as fast as faiss, not {row['target']}")
        if "limit" in row and row["value"] > row["limit"]:
            missed.append(f"{name}: {row['value']:.2f}, above {row['limit']}")
    return missed


class Report:
    """Collects figures and prints them."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def ratio(self, what: str, n_codes: int, ours: float, theirs: float) -> None:
        """Record the seconds of both."""
        target, ratio = TARGETS.get(what, {}).get(n_codes), theirs / ours
        times = {"ms": ours * 1e3, "faiss_ms": theirs * 1e3}
        self.rows.append({"what": what, "codes": n_codes, **times, "ratio": ratio, "target": target})
        line = f"{n_codes:>10,} {what:38} {ours * 1e3:9.4f} ms, faiss {theirs * 1e3:9.3f} ms: {ratio:8.1f} x"
        print(line + ("" if target is None else f" (target {target})"), flush=True)

    def value(self, what: str, n_codes: int, value: float) -> None:
        """Record a figure that has a limit."""
        self.rows.append({"what": what, "codes": n_codes, "value": value, "limit": LIMITS[what]})
        print(f"{n_codes:>10,} {what:38} {value:9.3f} (limit {LIMITS[what]})", flush=True)


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
        report.ratio(f"{title}, one query, p{share}", len(index), float(ours), float(theirs))


def supervised(report: Report, folder: Path, n_codes: int, n_flat: int) -> None:
    """Measure scaled codes of 48 bits."""
    queries, given = read(folder, 48)
    codes = scale(given, n_codes)
    flat = faiss.IndexBinaryFlat(64)
    flat.add(padded(codes))
    index = BucketsIndex(48)
    index.add(codes)
    single_queries(report, "supervised", index, flat, queries, n_flat)
    asked = padded(queries)
    ours, _ = cpu_time(lambda: index.search(queries, K))
    theirs, _ = cpu_time(lambda: flat.search(asked[:n_flat], K))
    report.ratio("supervised, batch of 1,000", n_codes, ours / len(queries), theirs / n_flat)
    some = range(0, len(queries), len(queries) // n_flat)
    for radius in (0, 1, 2):
        times = []
        for row in some:
            one = queries[[row]]
            rounds = []
            for _ in range(ROUNDS):
                mine, hits = cpu_time(lambda one=one, radius=radius: index.within(one, radius))  # type: ignore[misc]
                other, (_, _, found) = cpu_time(
                    lambda row=row, radius=radius: flat.range_search(asked[row : row + 1], radius + 1)  # type: ignore[misc]
                )
                assert len(hits.ids) == len(found), "the codes within the radius differ from those of faiss"
                rounds.append((mine, other))
            times.append(np.min(rounds, axis=0))
        ours, theirs = np.median(np.array(times), axis=0)
        report.ratio(f"supervised, radius {radius}", n_codes, float(ours), float(theirs))
    removals = [cpu_time(lambda row=row: index.remove([row]))[0] for row in range(n_codes // 2, n_codes // 2 + 20)]  # type: ignore[misc]
    report.value("remove one code, ms", n_codes, float(np.median(removals)) * 1e3)
    report.value("memory, bytes per code", n_codes, index.nbytes / n_codes)
    with tempfile.TemporaryDirectory() as disk:
        index.save(disk)
        size = sum(path.stat().st_size for path in Path(disk).iterdir())
    report.value("disk, bytes per code", n_codes, size / n_codes)


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
    words, ones = codes.packed.view(np.uint64), [queries[[row]] for row in range(len(queries))]
    mine, sums = alternate(lambda row: index.search(ones[row], K), lambda _: words.sum(), len(ones), len(ones))
    what = "uniform, one query, in sums of all words"
    report.value(what, n_codes, float(np.median(mine) / np.median(sums)))


def pairs(report: Report, folder: Path, n_codes: int, n_flat: int) -> None:
    """Measure scaled label bits (32) with look bits (128) of a trained model, scaled up; see :mod:`look_codes`.

    faiss compares the same 160 bits; it has no order by both codes, so only the times are compared.
    """
    queries, given = read(folder, 32)
    label = scale(given, n_codes)
    codes, asked = CodePair(label, looks_of(label, given)), CodePair(queries, read_looks()[0])
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
        report.ratio(f"label and look bits, one query, p{share}", n_codes, ours, theirs)


def peers(report: Report, folder: Path, n_codes: int) -> None:
    """Measure other binary indexes with their recall: found at a distance no larger than the true k-th."""
    queries, given = read(folder, 48)
    codes = scale(given, n_codes)
    packed, asked = padded(codes), padded(queries)[:100]
    flat = faiss.IndexBinaryFlat(64)
    flat.add(packed)
    furthest = flat.search(asked, K)[0][:, -1:]
    index = BucketsIndex(48)
    index.add(codes)
    index.search(queries[:1], K)
    seconds, hits = cpu_time(lambda: index.search(queries[:100], K))
    record_peer(report, "`buckets`", n_codes, seconds / 100, float((hits.distances.reshape(100, K) <= furthest).mean()))
    seconds, _ = cpu_time(lambda: flat.search(asked, K))
    record_peer(report, "faiss IndexBinaryFlat", n_codes, seconds / 100, 1.0)
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
    print(f"{n_codes:>10,} {name:44} {seconds * 1e3:9.4f} ms per query, recall {recall:.3f}", flush=True)


def growth(report: Report, folder: Path, sizes: list[int]) -> None:
    """Measure the median of one query for growing numbers of codes."""
    queries, given = read(folder, 48)
    ones = [queries[[row]] for row in range(0, len(queries), 5)]
    asked = [padded(one) for one in ones]
    for n_codes in sizes:
        codes = (
            scale(given, n_codes)
            if n_codes > len(given)
            else given[np.random.default_rng(0).permutation(len(given))[:n_codes]]
        )
        index = BucketsIndex(48)
        index.add(codes)
        index.search(ones[0], K)
        flat = faiss.IndexBinaryFlat(64)
        flat.add(padded(codes))
        mine, others = alternate(
            lambda row, index=index: index.search(ones[row], K),  # type: ignore[misc]
            lambda row, flat=flat: flat.search(asked[row], K),  # type: ignore[misc]
            len(ones),
            10,
        )
        figures = {f"p{share}_ms": float(np.percentile(mine, share)) * 1e3 for share in (50, 90, 99)}
        figures["faiss_ms"] = float(np.median(others)) * 1e3
        report.rows.append({"what": "growth", "codes": n_codes, **figures})
        print(
            f"{n_codes:>10,} growth: " + ", ".join(f"{name} {value:.4f}" for name, value in figures.items()), flush=True
        )


def make_tables(content: dict[str, Any]) -> str:
    """Return the figures of a JSON file as Markdown."""
    sizes = sorted({row["codes"] for row in content["rows"] if "ratio" in row or "limit" in row})
    cells: dict[str, dict[int, str]] = {}
    for row in content["rows"]:
        if "ratio" in row:
            asked = "" if row["target"] is None else f", target {row['target']}"
            text = f"{row['ms']:.3f} ms, faiss {row['faiss_ms']:.2f} ms: **{row['ratio']:.1f} x**{asked}"
        elif "limit" in row:
            text = f"**{row['value']:.2f}**, at most {row['limit']:g}"
        else:
            continue
        cells.setdefault(row["what"], {})[row["codes"]] = text
    lines = ["| | " + " | ".join(f"{size:,} codes" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
    lines += [
        f"| {what} | " + " | ".join(by_size.get(size, "") for size in sizes) + " |" for what, by_size in cells.items()
    ]
    lines += ["", "| supervised codes, 100 queries at once | codes | ms per query | recall |", "|---|---|---|---|"]
    for row in content["rows"]:
        if "recall" in row:
            lines.append(f"| {row['what']} | {row['codes']:,} | {row['ms']:.3f} | {row['recall']:.3f} |")
    if content.get("missed"):
        lines += ["", "Not reached: " + "; ".join(content["missed"]) + "."]
    if "note" in content["machine"]:
        lines += ["", f"Measured on {content['machine']['note']}."]
    return "\n".join(lines)


def write_docs(content: dict[str, Any]) -> None:
    """Write the tables into the page and draw the growth of the time per query."""
    page = PAGE.read_text()
    before, rest = page.split("<!-- kernels -->")
    after = rest.split("<!-- end kernels -->")[1]
    PAGE.write_text(f"{before}<!-- kernels -->\n\n{make_tables(content)}\n\n<!-- end kernels -->{after}")
    rows = [row for row in content["rows"] if row["what"] == "growth"]
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for name, label in (("faiss_ms", "IndexBinaryFlat"), ("p99_ms", "p99"), ("p90_ms", "p90"), ("p50_ms", "median")):
        axes.loglog([row["codes"] for row in rows], [row[name] for row in rows], "o-", label=label)
    axes.set(xlabel="codes", ylabel="ms of CPU time per query")
    axes.legend()
    axes.grid(alpha=0.3)
    with plt.rc_context({"svg.hashsalt": "index-growth"}):
        figure.savefig(FIGURE, metadata={"Date": None})


def measure(report: Report, options: argparse.Namespace) -> None:
    """Measure the parts that are asked for."""
    for n_codes, n_flat in [(1_000_000, 50)] if options.quick else [(1_000_000, 100), (10_000_000, 20)]:
        if options.size not in (None, n_codes):
            continue
        if "supervised" in options.only:
            supervised(report, options.folder, n_codes, n_flat)
        if "uniform" in options.only:
            uniform(report, n_codes, n_flat)
        if "pairs" in options.only:
            pairs(report, options.folder, n_codes, n_flat)
    if "peers" in options.only:
        peers(report, options.folder, 100_000 if options.quick else 1_000_000)
    if "growth" in options.only:
        growth(report, options.folder, [10_000, 100_000, 1_000_000] + ([] if options.quick else [10_000_000]))


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", help="folder with hashCodes-32.mat and hashCodes-48.mat")
    parser.add_argument("--quick", action="store_true", help="one million codes only; docs are left as they are")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these parts only")
    parser.add_argument("--size", type=int, choices=(1_000_000, 10_000_000), help="measure this number of codes only")
    parser.add_argument("--out", type=Path, help="benchmarks/kernels.json, or build/kernels.json with --quick")
    parser.add_argument("--docs", type=Path, help="only write the docs from this JSON file")
    options = parser.parse_args()
    if options.docs:
        write_docs(json.loads(options.docs.read_text()))
        return
    if options.folder is None:
        parser.error("the folder with the authors' codes is missing")
    faiss.omp_set_num_threads(1)
    reuse_freed_memory()  # as every command of ddsh does
    start = time.thread_time()
    if not load_kernels():
        sys.exit("numba is not installed: pip install 'ddsh[fast]'")
    print(f"The kernels were loaded in {time.thread_time() - start:.1f} s of CPU time.", flush=True)
    report = Report()
    measure(report, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    machine = {"cpu": platform.processor() or platform.machine(), "faiss": faiss.__version__, "peak_mb": peak}
    out = options.out or ROOT / ("build" if options.quick else "benchmarks") / "kernels.json"
    out.parent.mkdir(exist_ok=True)
    rows = report.rows
    if (options.only != PARTS or options.size) and out.exists():
        new = {(row["what"], row["codes"]): row for row in rows}
        rows = [new.pop((row["what"], row["codes"]), row) for row in json.loads(out.read_text())["rows"]]
        rows += new.values()
    content = {"machine": machine, "rows": rows, "missed": missed_targets(rows)}
    out.write_text(json.dumps(content, indent=1) + "\n")
    if not options.quick and options.out is None:
        write_docs(content)
    for line in content["missed"]:
        print(f"missed: {line}")
    sys.exit(1 if content["missed"] else 0)


if __name__ == "__main__":
    main()
