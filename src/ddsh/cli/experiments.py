"""Commands that run experiments."""

from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli import show
from ddsh.cli.data import Root
from ddsh.datasets import load


def reproduce(
    spec: Annotated[Path, typer.Argument(help="An experiment: a TOML file.")],
    results: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    root: Root = None,
    force: Annotated[bool, typer.Option("--force", help="Make results again that are there.")] = False,
) -> None:
    """Run what is missing of an experiment; every run is one JSON in the results folder."""
    from ddsh.experiment import read_spec, run

    experiment = read_spec(spec)
    dataset = load(experiment.dataset, root=root)
    with show.training() as on_step:
        written = run(experiment, dataset, results, force=force, on_run=show.run, on_step=on_step)
    typer.echo(f"{len(written)} results written to {results / experiment.name}")
