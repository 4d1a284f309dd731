"""Output of commands in the terminal: tables, JSON and short reports."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ddsh.datasets import DatasetCard, DatasetReport, Skipped
    from ddsh.evaluation import Result, Scores, Summary
    from ddsh.report import TextTable
    from ddsh.search import AddReport, Entry, QueryResult, RefreshReport, SearchInfo

__all__ = [
    "print_json",
    "print_table",
    "show_added",
    "show_dataset_report",
    "show_datasets",
    "show_duplicates",
    "show_help_if_alone",
    "show_hits",
    "show_index",
    "show_problems",
    "show_refreshed",
    "show_results",
    "show_scores",
    "show_skipped",
    "show_summaries",
]

_MAX_LINES = 10
"""Longer lists are cut."""

_SIMILARITY = {
    "labels": "share of images at a distance that have a label in common",
    "copies": "share of pairs at a distance that are altered copies",
    None: "not learned (ddsh index upgrade INDEX)",
}


def show_help_if_alone(context: typer.Context) -> None:
    """Show the help of a group of commands that was called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def print_json(content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print `content` as JSON."""
    import json

    typer.echo(json.dumps(content, indent=2))


def print_table(table: "TextTable") -> None:
    """Print a table."""
    from rich.console import Console

    from ddsh.cli.tables import rich_table

    Console(highlight=False).print(rich_table(table))


def _make_table(header: Sequence[str], rows: Sequence[Sequence[object]], align: str = "") -> "TextTable":
    from ddsh.report import TextTable

    return TextTable(tuple(header), tuple(tuple(map(str, row)) for row in rows), align)


def _first(lines: Sequence[str], separator: str) -> str:
    """Join the first lines, and say how many more there are."""
    more = [f"and {len(lines) - _MAX_LINES:,} more"] if len(lines) > _MAX_LINES else []
    return separator.join([*lines[:_MAX_LINES], *more])


def show_datasets(cards: Sequence["DatasetCard"], root: Path | None) -> None:
    """List datasets and where each was found."""
    rows = []
    for card in cards:
        place = card.find(root) or "not found" if card.folders else "with the package"
        rows.append((card.name, card.title, place))
    print_table(_make_table(("dataset", "description", "location"), rows))


def show_dataset_report(report: "DatasetReport") -> None:
    """Show the report of a dataset check."""
    unlabelled = f"{report.n_unlabelled:,} of them unlabelled, the others with " if report.n_unlabelled else ""
    typer.echo(f"{report.name}: {report.n_images:,} images, {unlabelled}{report.labels_per_image:.2f} labels each")
    classes = [(name, f"{count:,}") for name, count in report.class_counts.items()]
    print_table(_make_table(("class", "images"), classes, "lr"))
    sizes = [f"{size} ({count:,})" for size, count in report.sizes.items()]
    typer.echo(f"Sizes: {_first(sizes, ', ') or 'none'}")
    show_skipped(report.broken, always=True)
    if report.n_readable == 0:
        typer.echo("No image can be read, so duplicates were not looked for.")
        return
    typer.echo(f"Exact duplicates among the {report.n_readable:,} readable images: {report.n_duplicates:,}")
    if report.split is None:
        typer.echo(f"Split {report.protocol!r}: not possible. {report.no_split or ''}")
        return
    typer.echo(f"Split {report.protocol!r}, seed {report.seed}: {report.split}")
    typer.echo(f"Query images that are also in the database: {len({query for query, _ in report.shared}):,}")
    if report.shared:
        typer.echo("  " + _first([f"{query} = {other}" for query, other in report.shared], "\n  "))


def show_skipped(files: Sequence["Skipped"], *, always: bool = False) -> None:
    """List files that were left out; without `always` nothing is printed if there are none."""
    if files or always:
        typer.echo(f"Broken files, left out: {len(files):,}")
    if files:
        typer.echo("  " + _first([f"{file.path}: {file.reason}" for file in files], "\n  "))


def show_problems(problems: Sequence[str]) -> None:
    """List problems, one line each."""
    typer.echo(_first(problems, "\n"))


def show_scores(scores: "Scores") -> None:
    """Show the scores of codes."""
    scope = f"top {scores.top_k:,}, {scores.ap_convention}" if scores.top_k else "whole ranking"
    rows = [
        (f"MAP ({scope}, ties {scores.ties})", f"{scores.map:.4f}"),
        ("MAP, worst and best order of ties", f"{scores.map_low:.4f} .. {scores.map_high:.4f}"),
        *(
            (f"precision and recall at {k:,}", f"{value:.4f}, {scores.recall_at[k]:.4f}")
            for k, value in scores.precision_at.items()
        ),
        *((f"success rate within radius {radius}", f"{value:.4f}") for radius, value in scores.success_rate.items()),
    ]
    typer.echo(f"{scores.n_query:,} queries, {scores.n_database:,} items, {scores.n_bits} bits")
    print_table(_make_table(("score", "value"), rows, "lr"))
    if scores.n_without_relevant:
        typer.echo(f"{scores.n_without_relevant:,} queries have no relevant item; their AP is 0.")


def show_results(results: Sequence["Result"]) -> None:
    """Show results, one row each."""
    header = ("method", "bits", "MAP", "worst .. best ties", "P@100", "success r=2", "seconds")
    rows = [
        (
            result.method,
            result.n_bits,
            f"{result.map:.4f}",
            f"{result.scores.map_low:.4f} .. {result.scores.map_high:.4f}",
            f"{result.scores.precision_at[100]:.4f}",
            f"{result.scores.success_rate[2]:.4f}",
            f"{result.seconds:.1f}",
        )
        for result in results
    ]
    print_table(_make_table(header, rows, "lrrrrrr"))


def show_summaries(summaries: Sequence["Summary"]) -> None:
    """Show results, one table per experiment and one row for all seeds."""
    from ddsh.cli.tables import summary_table

    if not summaries:
        typer.echo("No results.")
    for (experiment, dataset, protocol), group in groupby(
        summaries, key=lambda one: (one.experiment, one.dataset, one.protocol)
    ):
        typer.echo(f"{experiment} ({dataset}, protocol {protocol})")
        print_table(summary_table(list(group)).select(("method", "bits", "seeds", "MAP", "P@100")))


def show_added(reports: Sequence["AddReport"], skipped: Sequence["Skipped"]) -> None:
    """Show how many images were added to an index, and which were left out."""
    counts = {name: sum(len(getattr(one, name)) for one in reports) for name in ("added", "known", "moved", "changed")}
    typer.echo(", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "added"))
    show_skipped([*skipped, *(file for report in reports for file in report.broken)])


def show_refreshed(report: "RefreshReport", n_images: int) -> None:
    """Show the changes that a refresh found."""
    changes = [f"{len(getattr(report, name)):,} {name}" for name in ("changed", "moved", "removed")]
    typer.echo(", ".join([f"{report.unchanged:,} unchanged", *changes]))
    show_skipped(report.broken)
    for folder in report.out_of_reach:
        typer.echo(f"{folder} is missing or empty; its images stay in the index.")
    typer.echo(f"{n_images:,} images")


def show_index(info: "SearchInfo") -> None:
    """Show facts about a search index."""
    labels = [f"{name} ({count:,})" for name, count in info.labels.items()]
    rows = [
        ("images", f"{info.n_images:,} ({info.n_contents:,} different)"),
        ("codes", f"{info.n_codes:,} different, {info.n_bytes:,} bytes in all"),
        ("label bits", info.n_bits or "none (indexed without labels; search by look)"),
        ("look bits", info.look_bits or "none (to add them, make a new index with: ddsh index MODEL IMAGES --out NEW)"),
        ("similarity", _SIMILARITY[info.similarity]),
        ("model", f"{info.method}, fingerprint {info.fingerprint[:12]}"),
        ("preprocessing", ", ".join(f"{name} {value}" for name, value in info.preprocessing.items())),
        ("index", info.index),
        ("labels", _first(labels, ", ") or "none"),
    ]
    print_table(_make_table(("fact", "value"), rows))


def show_hits(found: Mapping[str, "QueryResult"]) -> None:
    """Show the hits of each query."""
    matches = {"query": "this image", "file": "same file", "pixels": "same pixels"}
    for query, hits in found.items():
        typer.echo(query if hits else f"{query}: no images found")
        if hits.nothing_similar:
            typer.echo(f"Nothing here is like this image; the nearest is {hits[0].similarity:.0f} % similar.")
        if not hits:
            continue
        # With one code, its distance is the distance.
        has_both = hits[0].label_distance is not None and hits[0].look_distance is not None
        columns: dict[str, list[object]] = {}
        if hits[0].similarity is not None:
            columns["similar"] = [f"{hit.similarity:.0f} %" for hit in hits]
        columns["distance"] = [hit.distance for hit in hits]
        if has_both:
            columns["label bits"] = [hit.label_distance for hit in hits]
            columns["look bits"] = [hit.look_distance for hit in hits]
        columns["id"] = [hit.id for hit in hits]
        n_numbers = len(columns)
        if any(hit.match for hit in hits):
            columns["is"] = [matches[hit.match] if hit.match else "" for hit in hits]
        columns["labels"] = [", ".join(hit.labels) for hit in hits]
        columns["path"] = [hit.path for hit in hits]
        rows = list(zip(*columns.values(), strict=True))
        print_table(_make_table(tuple(columns), rows, "r" * n_numbers + "l" * (len(columns) - n_numbers)))


def show_duplicates(groups: Sequence[Sequence["Entry"]]) -> None:
    """List groups of near-duplicates."""
    for number, group in enumerate(groups, 1):
        typer.echo(f"Group {number}")
        for entry in group:
            typer.echo(f"  {entry.id}: {entry.path} ({entry.width} x {entry.height}, {entry.n_bytes:,} bytes)")
    typer.echo(f"{len(groups):,} groups of near-duplicates, {sum(map(len, groups)):,} images in all")
