"""How results look in a terminal."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from ddsh.cli import tables
from ddsh.datasets import DatasetCard, DatasetReport, Skipped
from ddsh.evaluation import Result, Scores
from ddsh.evaluation.records import Record, Summary

if TYPE_CHECKING:
    from ddsh.experiment import Plan, Run, Trial
    from ddsh.methods.base import MethodCard
    from ddsh.methods.training import TrainingStep
    from ddsh.search import AddReport, Entry, Hit, RefreshReport, SearchInfo

_NAMED = 10
_COLUMNS = ("method", "bits", "seeds", "MAP", "P@100")
_LEARNS_FROM = {"none": "nothing", "unsupervised": "items", "supervised": "labels"}


def help_when_alone(context: typer.Context) -> None:
    """Show the help of a command group that was called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def as_json(content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print `content` as JSON."""
    typer.echo(json.dumps(content, indent=2))


@contextmanager
def counting(title: str, unit: str | None = None) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (done, total) that draws a progress bar on standard error, with the speed if it has a unit."""
    speed = (_SpeedColumn(unit),) if unit else ()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *speed, TimeRemainingColumn())
    with _progress(*columns) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _SpeedColumn(ProgressColumn):
    """How many of something are done a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> str:
        """Return the speed of the last few steps."""
        return f"{task.speed:,.1f} {self._unit}/s" if task.speed else ""


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a callback (file, bytes done, bytes in all) that draws a progress bar on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with _progress(*columns) as progress:
        tasks: dict[str, Any] = {}

        def update(name: str, done: int, total: int | None) -> None:
            """Move the bar of a file."""
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done, total=total)

        yield update


def _progress(*columns: ProgressColumn) -> Progress:
    """Return a progress bar on standard error that leaves no trace, and is silent where nobody watches."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def datasets(cards: Sequence[DatasetCard], root: Path | None) -> None:
    """List the datasets and where each was found."""
    table = _table("dataset", "what it is", "where")
    for card in cards:
        table.add_row(escape(card.name), escape(card.title), escape(card.where(root)))
    _print(table)


def report(found: DatasetReport) -> None:
    """Show what a check of a dataset found."""
    _print(f"[bold]{escape(found.name)}[/]: {found.n_images:,} images, {found.labels_per_image:.2f} labels each")
    classes = _table("class", "images", right=(1,))
    for name, count in found.class_counts.items():
        classes.add_row(escape(name), f"{count:,}")
    _print(classes)
    sizes = list(found.sizes.items())
    more = f" and {len(sizes) - _NAMED} more sizes" if len(sizes) > _NAMED else ""
    _print("Sizes: " + (", ".join(f"{size} ({count:,})" for size, count in sizes[:_NAMED]) or "none") + more)
    skipped(found.broken)
    if found.n_readable == 0:
        _print("No image can be read: duplicates were not looked for.")
        return
    _print(f"Exact duplicates among the {found.n_readable:,} images that can be read: {found.n_duplicates:,}")
    if found.split is None:
        _print(f"Split {found.protocol!r}: not possible. {escape(found.no_split or '')}")
        return
    _print(f"Split {found.protocol!r}, seed {found.seed}: {found.split}")
    _print(f"Query images that are also in the database: {len({query for query, _ in found.shared}):,}")
    _some([f"{query} = {other}" for query, other in found.shared])


def skipped(files: Sequence[Skipped]) -> None:
    """Show how many files were left out, and the first of them."""
    _print(f"Broken or left out: {len(files):,}")
    _some([f"{file.path}: {file.reason}" for file in files])


def _some(lines: Sequence[str]) -> None:
    """Show the first lines and how many more there are."""
    for line in lines[:_NAMED]:
        _print(f"  {escape(line)}")
    if len(lines) > _NAMED:
        _print(f"  and {len(lines) - _NAMED:,} more")


def scores(found: Scores) -> None:
    """Show the scores of one set of codes."""
    scope = f"top {found.top_k:,}, {found.ap_convention}" if found.top_k else "whole ranking"
    _print(f"{found.n_query:,} queries, {found.n_database:,} items, {found.n_bits} bits")
    table = _table("score", "value", right=(1,))
    table.add_row(f"MAP ({scope}, ties {found.ties})", f"{found.map:.4f}")
    table.add_row("MAP, worst and best order of ties", f"{found.map_low:.4f} .. {found.map_high:.4f}")
    for k, value in found.precision_at.items():
        table.add_row(f"precision and recall at {k:,}", f"{value:.4f}, {found.recall_at[k]:.4f}")
    for radius, value in found.success_rate.items():
        table.add_row(f"success rate within radius {radius}", f"{value:.4f}")
    _print(table)
    if found.n_without_relevant:
        _print(f"{found.n_without_relevant:,} queries have no relevant item and count as 0.")


@contextmanager
def training() -> Iterator[Callable[["TrainingStep"], None]]:
    """Yield a callback that draws a progress bar with loss, objective, bits per second and time left."""
    with _progress(*_fact_columns()) as progress:
        task = progress.add_task("Training", total=None, facts="")
        yield lambda step: _draw_step(progress, task, step)


def _fact_columns() -> tuple[ProgressColumn, ...]:
    return TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}")


def _draw_step(progress: Progress, task: TaskID, step: "TrainingStep") -> None:
    objective = "" if step.objective is None else f", objective {step.objective:,.0f}"
    facts = f"loss {step.loss:.4f}{objective}, {step.bits_per_second:,.0f} bits/s, {_time(step.seconds_left)} left"
    title = f"Pass {step.epoch} of {step.epochs}"
    progress.update(task, completed=step.done, total=step.total, description=title, facts=facts, visible=True)


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


@contextmanager
def experiment() -> Iterator["ExperimentBars"]:
    """Yield what draws the progress of an experiment: all of its runs, and the training of one."""
    with _progress(*_fact_columns()) as progress:
        yield ExperimentBars(progress)


class ExperimentBars:
    """Watches an experiment; see :class:`ddsh.experiment.Watcher`.

    Parameters
    ----------
    progress : Progress
        What it draws on.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._runs = progress.add_task("Runs", total=None, facts="")
        self._training = progress.add_task("Training", total=None, facts="", visible=False)
        self._ended = self._n_runs = self._n_there = self._n_all = 0
        self._started = time.monotonic()

    def planned(self, what: "Plan") -> None:
        """Say how much is there and how much is to be made."""
        self._n_runs, self._n_there = len(what.missing), what.n_there
        self._n_all = self._n_runs + self._n_there
        if what.missing and what.n_there:
            self._say(self.state())
        self._draw(0.0)

    def begins(self, run: "Run") -> None:
        """Hide the training of the run before."""
        self._progress.update(self._training, visible=False)
        self._progress.update(self._runs, description=escape(run.title))

    def steps(self, step: "TrainingStep") -> None:
        """Draw a step of the training."""
        _draw_step(self._progress, self._training, step)
        self._draw(step.done / step.total)

    def ends(self, record: Record) -> None:
        """Say what a run brought."""
        title = f"{record.label}, {record.n_bits} bits, seed {record.seed}"
        took = "" if record.seconds is None else f" ({_time(record.seconds)})"
        self._say(f"{title}: MAP {record.map:.4f}{took}")
        self._ended += 1
        self._n_there += 1
        self._draw(0.0)

    def fails(self, run: "Run", reason: str) -> None:
        """Say why a run could not be made."""
        line = escape(f"ddsh: {run.title}: {' '.join(reason.split())}")
        self._progress.console.print(line, highlight=False, soft_wrap=True)
        self._ended += 1
        self._draw(0.0)

    def state(self) -> str:
        """Return how much is there."""
        return f"{self._n_there} of {self._n_all} results are there"

    def close(self) -> None:
        """Remove the bars."""
        self._progress.stop()

    def _say(self, line: str) -> None:
        """Print a line on standard output; above the bars where these are on the same terminal."""
        output = Console()
        console = self._progress.console if output.is_terminal and not self._progress.disable else output
        console.print(escape(line), highlight=False, soft_wrap=True)

    def _draw(self, part: float) -> None:
        """Draw the runs that are done and the part of the one under way; time is spent on runs evenly, we assume."""
        done = self._ended + part
        left = (time.monotonic() - self._started) * (self._n_runs - done) / done if done else None
        facts = f"{self._ended} of {self._n_runs} runs" + ("" if left is None else f", {_time(left)} left")
        self._progress.update(self._runs, completed=done, total=self._n_runs, facts=facts)


def trial(found: "Trial") -> None:
    """Show what one learning rate brought."""
    _print(f"learning rate {found.learning_rate:g}: validation MAP {found.map:.4f}")


def methods(cards: Sequence["MethodCard"]) -> None:
    """List methods."""
    table = _table("method", "what it is", "published", "learns from", "takes")
    for card in cards:
        published = f"{card.authors}, {card.venue} {card.year}"
        table.add_row(card.name, card.title, published, _LEARNS_FROM[card.supervision], card.inputs)
    _print(table)


def results(rows: Sequence[Result]) -> None:
    """Show results, one line each."""
    table = _table(
        "method",
        "bits",
        "MAP",
        "worst .. best ties",
        "P@100",
        "success r=2",
        "seconds",
        right=(1, 2, 3, 4, 5, 6),
    )
    for row in rows:
        found = row.scores
        table.add_row(
            row.method,
            str(row.n_bits),
            f"{found.map:.4f}",
            f"{found.map_low:.4f} .. {found.map_high:.4f}",
            f"{found.precision_at[100]:.4f}",
            f"{found.success_rate[2]:.4f}",
            f"{row.seconds:.1f}",
        )
    _print(table)


def summaries(lines: Sequence[Summary]) -> None:
    """Show results, one table for each experiment and one line for all seeds."""
    for (experiment, dataset, protocol), group in groupby(lines, key=_table_of):
        _print(f"[bold]{escape(experiment)}[/] ({escape(dataset)}, protocol {escape(protocol)})")
        _print(tables.rich_table(tables.summary_table(list(group)).select(_COLUMNS)))
    if not lines:
        _print("No results.")


def _table_of(line: Summary) -> tuple[str, str, str]:
    return line.experiment, line.dataset, line.protocol


def added(reports: Sequence["AddReport"], left_out: Sequence[Skipped]) -> None:
    """Show what became of images that were to be indexed."""
    counts = {
        name: sum(len(getattr(each, name)) for each in reports) for name in ("added", "known", "moved", "changed")
    }
    _print(", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "added"))
    broken = [*left_out, *(file for report in reports for file in report.broken)]
    if broken:
        skipped(broken)


def refreshed(report: "RefreshReport", n_images: int) -> None:
    """Show what has become of the files of an index."""
    changes = ((name, len(getattr(report, name))) for name in ("changed", "moved", "removed"))
    _print(", ".join([f"{report.unchanged:,} unchanged", *(f"{count:,} {name}" for name, count in changes)]))
    if report.broken:
        skipped(report.broken)
    for folder in report.out_of_reach:
        _print(escape(f"{folder} is not there or is empty; what it held was left alone."))
    _print(f"{n_images:,} images")


def index_facts(facts: "SearchInfo") -> None:
    """Show facts about a search index."""
    table = _table("fact", "value")
    table.add_row("images", f"{facts.n_images:,} ({facts.n_contents:,} different)")
    table.add_row("codes", f"{facts.n_codes:,} different, {facts.n_bits} bits, {facts.n_bytes:,} bytes in all")
    table.add_row("model", f"{facts.method}, fingerprint {facts.fingerprint[:12]}")
    table.add_row("sees", escape(", ".join(f"{name} {value}" for name, value in facts.preprocessing.items())))
    table.add_row("index", f"{facts.index}, real outputs {'kept' if facts.keeps_outputs else 'not kept'}")
    labels = [f"{name} ({count:,})" for name, count in facts.labels.items()]
    more = f" and {len(labels) - _NAMED:,} more" if len(labels) > _NAMED else ""
    table.add_row("labels", escape(", ".join(labels[:_NAMED]) or "none") + more)
    _print(table)


def answers(found: Mapping[str, Sequence["Hit"]]) -> None:
    """Show what each query found."""
    for query, hits in found.items():
        _print(f"[bold]{escape(query)}[/]" + ("" if hits else ": nothing was found"))
        if hits:
            table = _table("distance", "id", "labels", "path", right=(0, 1))
            for hit in hits:
                table.add_row(str(hit.distance), str(hit.id), escape(", ".join(hit.labels)), escape(hit.path))
            _print(table)


def groups(found: Sequence[Sequence["Entry"]]) -> None:
    """Show groups of near-identical images."""
    for number, group in enumerate(found, 1):
        _print(f"[bold]Group {number}[/]")
        for entry in group:
            _print(escape(f"  {entry.id}: {entry.path} ({entry.width} x {entry.height}, {entry.n_bytes:,} bytes)"))
    _print(f"{len(found):,} groups of near-identical images, {sum(map(len, found)):,} images in all")


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(header_style="bold")
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place in right else "left", overflow="fold")
    return table


def _print(content: Any) -> None:  # noqa: ANN401 -- anything rich can show
    Console(soft_wrap=isinstance(content, str), highlight=False).print(content)
