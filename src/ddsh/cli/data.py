"""Commands about datasets."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli import show
from ddsh.datasets import DATASETS, get_protocol, load
from ddsh.datasets.check import check as check_dataset
from ddsh.datasets.fetch import fetch as fetch_dataset

app = typer.Typer(help="List, check and download datasets.")

Root = Annotated[Path | None, typer.Option(envvar="DDSH_DATA", help="Folder where datasets are kept.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def _data(context: typer.Context) -> None:
    show.help_when_alone(context)


@app.command("list")
def list_datasets(root: Root = None, json: Json = False) -> None:
    """List the datasets ddsh knows by name and where each was found."""
    if json:
        show.as_json([vars(card) | {"found": str(card.find(root) or "") or None} for card in DATASETS.values()])
    else:
        show.datasets(list(DATASETS.values()), root)


@app.command()
def check(
    name_or_path: Annotated[str, typer.Argument(help="A dataset's name, a folder of images, a table or a list.")],
    root: Root = None,
    protocol: Annotated[str | None, typer.Option(help="How to split; the dataset's usual way if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    query_per_class: Annotated[int | None, typer.Option(min=1, help="Queries of each class in the split.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder that the paths of a list start from.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a dataset with broken files.")] = False,
    json: Json = False,
) -> None:
    """Read every image: counts per class, sizes, broken files, images that are both query and database."""
    with show.counting("Reading files") as on_progress:
        dataset = load(name_or_path, root=root, images_root=images, strict=strict, on_progress=on_progress)
    rule = get_protocol(protocol or dataset.protocol)
    if query_per_class:
        rule = replace(rule, query_per_class=query_per_class, n_query=None)
    with show.counting("Checking images") as on_progress:
        report = check_dataset(dataset, rule, seed, on_progress)
    if json:
        show.as_json(report.to_dict())
    else:
        show.report(report)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="The dataset to download.")],
    root: Annotated[Path, typer.Option(envvar="DDSH_DATA", help="Folder where datasets are kept.")],
    mirror: Annotated[str | None, typer.Option(help="Address of a folder with the same files.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a silent server.")] = 30.0,
) -> None:
    """Download a dataset from its official address; run again to go on after a cut."""
    with show.downloading() as on_progress:
        paths = fetch_dataset(name, root, mirror=mirror, timeout=timeout, on_progress=on_progress)
    for path in paths:
        typer.echo(path)
