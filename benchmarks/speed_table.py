"""Write the figures of the benchmarks' JSON files into docs/explanation/speed.md.

Usage: ``python benchmarks/speed_table.py``. A benchmark without a JSON file has no row.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "explanation" / "speed.md"
START, END = "<!-- figures -->\n", "<!-- end figures -->"


def startup(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield rows of seconds."""
    for name, seconds in content["seconds"].items():
        yield f"`{name}`", f"{seconds:.2f} s of CPU time"


def service(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield rows of requests."""
    for row in content["requests"]:
        share = f"**{row['share of the bare rate']}** of its rate"
        parts = ", ".join(f"{name} {ms}" for name, ms in row["parts ms"].items())
        text = f"{row['ms']} ms of CPU time, bare endpoint {row['bare ms']} ms: {share}; its parts {parts} ms"
        yield f"`GET /search?id=`, {content['n_entries']:,} entries, {row['k']} results", text
    if rates := content.get("processes"):
        text = f"{rates['one process, ms']} and {rates['two processes, ms']} ms of CPU time: **{rates['gain']} x**"
        yield "one process and two", text


def evaluate(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield rows of scores."""
    for name, row in content["rows"].items():
        if "ratio" in row:
            yield (
                f"all scores, {name}",
                f"{row['seconds']} s, argsort loop {row['loop seconds']} s: **{row['ratio']} x**",
            )
        else:
            yield f"scores, {name}", f"{row['megabytes']} MB, of which {row['before']} MB before"


def report(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield rows of reports."""
    for row in content["reports"]:
        yield f"report of all results, {row['report']}", f"{row['cpu']:.1f} s of CPU time, {row['figures']} figures"


def train(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield rows of epochs."""
    for row in content["networks"]:
        text = f"{row['seconds']} s, plain {row['plain seconds']} s: **{row['ratio']} x**"
        yield f"an epoch of DDSH, {row['network']}", text
    for row in content["schedules"]:
        text = f"{row['epochs']} epochs, the authors' schedule {row['of release']}: **{row['saving']} x**"
        yield f"DDSH to a MAP of {row['map']}, validation part of CIFAR-10, 32 bits", text


def encode(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield rows of indexing."""
    for row in content["rows"]:
        rates = {name: row[name]["per second"] for name in ("index", row["share of"])}
        text = (
            f"{rates['index']} per second, bare {row['share of']} {rates[row['share of']]}: **{row['share']:.2f}**;"
            f" **{row['share of steps']:.2f}** of the rate of its steps by CPU time"
        )
        yield f"index {row['photos']} photos with {row['engine']}", text


BENCHMARKS: tuple[Callable[[dict[str, Any]], Iterator[tuple[str, str]]], ...] = (
    startup,
    service,
    evaluate,
    report,
    train,
    encode,
)


def main() -> None:
    """Replace the table in the page."""
    lines = ["| | |", "|---|---|"]
    missed: list[str] = []
    for make_rows in BENCHMARKS:
        path = FOLDER / f"{make_rows.__name__}.json"
        if path.exists():
            content = json.loads(path.read_text())
            lines += [f"| {what} | {value} |" for what, value in make_rows(content)]
            missed += content["missed"]
    if missed:
        lines += ["", "Not reached: " + "; ".join(missed) + "."]
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + "\n" + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
