"""Commands to list, check and download datasets."""

from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli.display import show_help_if_alone
from ddsh.cli.options import Json, QueriesPerClass, Root, writable_folder

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="List, check and download datasets.")


@app.callback(invoke_without_command=True)
def _data(context: typer.Context) -> None:
    show_help_if_alone(context)


@app.command("list")
def list_datasets(root: Root = None, json: Json = False) -> None:
    """List the datasets that can be loaded by name, and where each was found."""
    from ddsh.cli.display import print_json, show_datasets
    from ddsh.datasets import DATASETS

    if not json:
        show_datasets(list(DATASETS.values()), root)
        return
    print_json(
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
    queries_per_class: QueriesPerClass = None,
    images: Annotated[Path | None, typer.Option(help="Folder that the paths of a list are relative to.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if any file is broken.")] = False,
    json: Json = False,
) -> None:
    """Read every image: class counts, sizes, broken files, duplicates, and queries that are also in the database."""
    from ddsh.cli.display import print_json, show_dataset_report
    from ddsh.cli.progress import Progress
    from ddsh.datasets import check_dataset, get_protocol, load

    with Progress("Reading files", "files") as progress:
        dataset = load(name_or_path, root=root, images_root=images, strict=strict, on_progress=progress.on_count)
    rule = get_protocol(protocol or dataset.protocol).with_options(query_per_class=queries_per_class)
    with Progress("Checking images", "images") as progress:
        report = check_dataset(dataset, rule, seed, progress.on_count)
    if json:
        print_json(report.to_dict())
    else:
        show_dataset_report(report)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    root: Annotated[
        Path, typer.Option(envvar="DDSH_DATA", callback=writable_folder, help="Folder that holds the datasets.")
    ],
    mirror: Annotated[str | None, typer.Option(help="Address of a folder with the same files.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a server that does not respond.")] = 30.0,
) -> None:
    """Download a dataset from its official address; run it again to resume after an interruption."""
    from ddsh.cli.progress import Progress
    from ddsh.datasets import fetch as fetch_dataset

    with Progress("Downloading") as progress:
        paths = fetch_dataset(name, root, mirror=mirror, timeout=timeout, on_progress=progress.on_download)
    for path in paths:
        typer.echo(path)
