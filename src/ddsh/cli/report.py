"""The command ``ddsh report``."""

from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli.options import writable_folder

__all__ = ["report"]


def report(
    results: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    out: Annotated[Path, typer.Option(callback=writable_folder, help="Folder for the page and its figures.")] = Path(
        "report"
    ),
    experiment: Annotated[list[str] | None, typer.Option(help="Show this experiment first; repeatable.")] = None,
    only: Annotated[bool, typer.Option("--only", help="Leave out all other experiments.")] = False,
    figures: Annotated[
        list[str] | None, typer.Option("--format", help="Format of figures: svg (default), png or pdf; repeatable.")
    ] = None,
    page_only: Annotated[bool, typer.Option("--page-only", help="Write no files of figures.")] = False,
    markdown: Annotated[str | None, typer.Option(help="Print this experiment as a Markdown table instead.")] = None,
) -> None:
    """Write a page and figures of results; no model is run."""
    from ddsh.cli.progress import Progress
    from ddsh.errors import InvalidInput
    from ddsh.report import markdown_table, read_folder, write_report

    if only and not experiment:
        raise InvalidInput("--only needs --experiment.")
    found, problems = read_folder(results)
    if markdown is None:
        with Progress("Figures", "figures") as progress:
            written = write_report(
                found,
                out,
                problems=problems,
                formats=() if page_only else figures or ("svg",),
                first=experiment or (),
                only_first=only,
                on_progress=progress.on_count,
            )
        problems = list(written.problems)
        line = f"{written.page}: {written.n_runs} results, {len(written.figures)} files of figures"
    else:
        line = markdown_table(found, markdown)
    for problem in problems:
        typer.echo(f"ddsh: {problem}", err=True)
    typer.echo(line)
