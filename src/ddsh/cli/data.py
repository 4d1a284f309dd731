"""Commands to list, check and download datasets."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, check and download datasets.")

Root = Annotated[Path | None, typer.Option(envvar="DDSH_DATA", help="Folder that holds the datasets.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def _data(context: typer.Context) -> None:
    from ddsh.cli import show

    show.help_when_alone(context)


@app.command("list")
def list_datasets(root: Root = None, json: Json = False) -> None:
    """List the datasets that can be loaded by name, and where each was found."""
    from ddsh.cli import show
    from ddsh.datasets import DATASETS

    if not json:
        show.datasets(list(DATASETS.values()), root)
        return
    show.as_json(
        [
            {
                "name": card.name,
                "title": card.title,
                "loader": card.loader if isinstance(card.loader, str) else card.loader.__qualname__,
                "folders": card.folders,
                "found": str(card.find(root) or "") or None,
            }
            for card in DATASETS.values()
        ]
    )


@app.command()
def check(
    name_or_path: Annotated[
        str, typer.Argument(help="Name of a dataset, folder of images, table, list, or module:function.")
    ],
    root: Root = None,
    protocol: Annotated[str | None, typer.Option(help="Protocol of the split; the dataset's own by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    query_per_class: Annotated[int | None, typer.Option(min=1, help="Queries per class in the split.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder that the paths of a list are relative to.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if any file is broken.")] = False,
    json: Json = False,
) -> None:
    """Read every image: class counts, sizes, broken files, duplicates, and queries that are also in the database."""
    from dataclasses import replace

    from ddsh.cli import show
    from ddsh.datasets import check_dataset, get_protocol, load

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
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    root: Annotated[Path, typer.Option(envvar="DDSH_DATA", help="Folder that holds the datasets.")],
    mirror: Annotated[str | None, typer.Option(help="Address of a folder with the same files.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a server that does not respond.")] = 30.0,
) -> None:
    """Download a dataset from its official address; run it again to resume after an interruption."""
    from ddsh.cli import show
    from ddsh.datasets import fetch as fetch_dataset

    with show.downloading() as on_progress:
        paths = fetch_dataset(name, root, mirror=mirror, timeout=timeout, on_progress=on_progress)
    for path in paths:
        typer.echo(path)
