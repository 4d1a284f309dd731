"""Time of a report of all results: the first one, and one of the same results again.

Usage: ``python benchmarks/report.py [RESULTS] [--quick] [--out FILE]``. The first report draws every figure, the second
one reuses them; their pages are compared. The exit code is 1 if a target is missed.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from joblib.externals.loky import get_reusable_executor
from json_file import json_file

from ddsh.report import read_folder, write_report

MOST_SECONDS = 15.0
"""CPU time of the first report, that of all its processes together."""

LEAST_RATIO = 3.0
"""First report to the second one, CPU time."""


def used() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    times = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in times)


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"))
    parser.add_argument("--quick", action="store_true", help="one experiment only")
    parser.add_argument("--out", type=Path, help="JSON file; beside this one, or in build/ with --quick")
    given = parser.parse_args()
    out = given.out or json_file(__file__, quick=given.quick)
    results, _ = read_folder(given.results)
    first = [results[0].experiment] if given.quick else []
    rows: list[dict[str, Any]] = []
    pages = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "again"):
            start, wall = used(), time.perf_counter()
            report = write_report(results, folder, first=first, only_first=given.quick)
            pages.append(report.page.read_bytes())
            wall = time.perf_counter() - wall
            if name == "first":
                get_reusable_executor().shutdown(wait=True)  # so that the time of its processes is counted
            rows.append({"report": name, "figures": len(report.figures), "cpu": used() - start, "wall": wall})
    assert pages[0] == pages[1], "the same results give the same page"
    missed = []
    if rows[0]["cpu"] > MOST_SECONDS:
        missed.append(f"{rows[0]['cpu']:.1f} s of CPU time, the target is {MOST_SECONDS:g}")
    if rows[0]["cpu"] < LEAST_RATIO * rows[1]["cpu"]:
        missed.append(f"again takes {rows[1]['cpu']:.1f} s of CPU time, the target is a third of {rows[0]['cpu']:.1f}")
    for row in rows:
        print(row)
    for line in missed:
        print(f"missed: {line}")
    out.write_text(json.dumps({"reports": rows, "missed": missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
