"""The command that makes a report from results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli import show


def report(
    results: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="Folder for the page and its figures.")] = Path("report"),
    figures: Annotated[list[str] | None, typer.Option("--format", help="svg, png or pdf; repeatable.")] = None,
    page_only: Annotated[bool, typer.Option("--page-only", help="Write no files for the figures.")] = False,
    markdown: Annotated[str | None, typer.Option(help="Print this experiment as a Markdown table instead.")] = None,
) -> None:
    """Make a page and figures from results; no model is run."""
    from ddsh.report import FORMATS, markdown_table, read_folder, write_report

    records, problems = read_folder(results)
    if markdown is not None:
        _complain(problems)
        typer.echo(markdown_table(records, markdown))
        return
    formats = () if page_only else figures or FORMATS
    with show.counting("Figures") as on_progress:
        made = write_report(records, out, problems=problems, formats=formats, on_progress=on_progress)
    _complain(made.problems)
    typer.echo(f"{made.page}: {len(records)} results, {len(made.figures)} files of figures")


def _complain(problems: Sequence[str]) -> None:
    for problem in problems:
        typer.echo(f"ddsh: {problem}", err=True)
