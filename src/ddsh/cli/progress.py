"""Progress of long work: a bar in a terminal, lines in a log."""

import os
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Self

import typer

from ddsh.errors import InvalidInput

if TYPE_CHECKING:
    from ddsh.evaluation import Result
    from ddsh.experiment import Plan, Run
    from ddsh.methods import TrainingStep

__all__ = ["ExperimentProgress", "Progress", "format_time"]

_FIRST_SECONDS = 5.0
"""Work that ends sooner writes no log lines."""


def format_time(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``."""
    return str(timedelta(seconds=round(seconds)))


class Progress:
    """Shows the progress of one task on standard error.

    In a terminal or a notebook it draws a bar. Elsewhere, such as in a log file, it writes a line after five seconds,
    then every half minute, and one at the end; work that takes less than five seconds writes nothing.

    Parameters
    ----------
    title : str
        Name of the task, such as ``"Training"``.
    unit : str
        What :meth:`on_count` counts, such as ``"images"``.
    seconds : float, optional
        Seconds between log lines, 0 for none; by default the environment variable ``DDSH_LOG_SECONDS``, or 30.
    quiet : bool
        Show nothing, as in all but the first of several processes.

    Examples
    --------
    >>> import ddsh
    >>> sample = ddsh.load("sample")
    >>> model = ddsh.Model(ddsh.LSH(8))
    >>> with Progress("Training") as progress:
    ...     model = model.fit(sample.images, sample.labels, on_step=progress.on_step)
    >>> with Progress("Encoding", "images") as progress:
    ...     codes = model.encode(sample.images, progress.on_count)
    """

    def __init__(self, title: str, unit: str = "", *, seconds: float | None = None, quiet: bool = False) -> None:
        if seconds is None:
            given = os.environ.get("DDSH_LOG_SECONDS", "30")
            try:
                seconds = float(given)
            except ValueError:
                raise InvalidInput(
                    f"DDSH_LOG_SECONDS is the number of seconds between log lines; got {given!r}."
                ) from None
        self.title, self.unit, self.seconds, self.quiet = title, unit, seconds, quiet
        self._state = ""
        self._n_lines = 0
        self._start = time.monotonic()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._start = time.monotonic()
        console = Console(stderr=True)
        has_bar = console.is_jupyter or (sys.stderr.isatty() and not console.is_dumb_terminal)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[state]}", markup=False),
        )
        self._bar = Bar(*columns, console=console, transient=True, disable=self.quiet or not has_bar)
        self._task = self._bar.add_task(self.title, total=None, state="")
        self._bar.start()
        self._thread = threading.Thread(target=self._write_lines, daemon=True)
        if not has_bar and not self.quiet and self.seconds > 0:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._bar.stop()
        if self._n_lines and kind is None:
            self.print(f"ddsh: {self.title}: finished in {format_time(self.elapsed)}", err=True)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def update(self, done: float, total: float | None, state: str, title: str | None = None) -> None:
        """Show a new state.

        Parameters
        ----------
        done, total : float
            Length of the bar; None if the total is unknown.
        state : str
            Text after the bar, such as the loss and the time left.
        title : str, optional
            Text before the bar; the title of the task by default.
        """
        self._state = state if title is None else f"{title}: {state}"
        self._bar.update(self._task, completed=done, total=total, description=title or self.title, state=state)

    def on_count(self, done: int, total: int) -> None:
        """Show how many items are done."""
        state = f"{done:,} of {total:,}"
        if done and self.elapsed > 0:
            speed = f", {done / self.elapsed:,.1f} {self.unit}/s" if self.unit else ""
            state += f"{speed}, {format_time(self.elapsed * (total - done) / done)} left"
        self.update(done, total, state)

    def on_step(self, step: "TrainingStep") -> None:
        """Show a step of the training of a network."""
        self.update(step.done, step.total, f"{_describe_step(step)}, {format_time(step.seconds_left)} left")

    def on_download(self, name: str, done: int, total: int | None) -> None:
        """Show how much of a file is downloaded."""
        whole = "" if total is None else f" of {total / 1e6:,.1f}"
        self.update(done, total, f"{done / 1e6:,.1f}{whole} MB", name)

    def print(self, line: str, *, err: bool = False) -> None:
        """Print a line, above the bar if there is one in the same terminal."""
        if not self._bar.disable and (err or sys.stdout.isatty()):
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(line, err=err)

    def _write_lines(self) -> None:
        wait = min(_FIRST_SECONDS, self.seconds)
        while not self._stopped.wait(wait):
            state = self._state or f"running for {format_time(self.elapsed)}"
            self.print(f"ddsh: {self.title}: {state}", err=True)
            self._n_lines += 1
            wait = self.seconds


def _describe_step(step: "TrainingStep") -> str:
    """Return epoch, loss, objective and speed of a training step."""
    objective = "" if step.objective is None else f", objective {step.objective:,.0f}"
    speed = f"{step.bits_per_second:,.0f} bits/s"
    return f"epoch {step.epoch} of {step.epochs}, loss {step.loss:.4f}{objective}, {speed}"


class ExperimentProgress(Progress):
    """Shows the runs of an experiment; a :class:`ddsh.experiment.ExperimentListener`."""

    def __init__(self, *, seconds: float | None = None) -> None:
        super().__init__("Runs", seconds=seconds)
        self._n_missing = self._n_ended = self._n_done = self._n_runs = 0
        self._planned = 0.0
        self._run = ""

    @property
    def summary(self) -> str:
        """How many results exist."""
        return f"{self._n_done} of {self._n_runs} results exist"

    def on_plan(self, plan: "Plan") -> None:
        """Show how many results exist already."""
        self._n_missing, self._n_done = len(plan.missing), plan.n_done
        self._n_runs = self._n_missing + self._n_done
        self._n_ended, self._planned = 0, self.elapsed
        if plan.missing and plan.n_done:
            self.print(self.summary)
        self._show(0.0, "")

    def on_begin(self, run: "Run") -> None:
        """Show which run begins."""
        self._run = run.title
        self._show(0.0, run.title)

    def on_step(self, step: "TrainingStep") -> None:
        """Show a step of the training of a network."""
        self._show(step.done / step.total, f"{self._run}, {_describe_step(step)}", step.seconds_left)

    def on_end(self, result: "Result") -> None:
        """Print the score of a run."""
        seconds = "" if result.seconds is None else f" ({format_time(result.seconds)})"
        self.print(f"{result.label}, {result.n_bits} bits, seed {result.seed}: MAP {result.map:.4f}{seconds}")
        self._n_ended += 1
        self._n_done += 1
        self._show(0.0, "")

    def on_fail(self, run: "Run", reason: str) -> None:
        """Print why a run failed."""
        self.print(f"ddsh: {run.title}: {' '.join(reason.split())}", err=True)
        self._n_ended += 1
        self._show(0.0, "")

    def _show(self, part: float, current: str, current_left: float = 0.0) -> None:
        """Show the runs that ended and the part of the current one.

        Runs are assumed to take equal time, but the current one no less than it says itself.
        """
        done = self._n_ended + part
        elapsed = self.elapsed - self._planned
        left = ""
        if done:
            seconds = elapsed * (self._n_missing - done) / done
            left = f", {format_time(max(seconds, current_left))} left"
        now = f"; {current}" if current else ""
        self.update(done, self._n_missing, f"{self._n_ended} of {self._n_missing} done{left}{now}")
