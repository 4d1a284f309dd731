"""Commands for stores of search indexes."""

from typing import Annotated

import typer

from ddsh.cli.display import show_help_if_alone
from ddsh.cli.options import store_address, writable_store

__all__ = ["app", "copy"]

app = typer.Typer(rich_markup_mode=None, help="Move search indexes between folders and databases.")


@app.callback(invoke_without_command=True)
def _store(context: typer.Context) -> None:
    show_help_if_alone(context)


@app.command()
def copy(
    source: Annotated[str, typer.Argument(callback=store_address, help="Folder or address of a search index.")],
    target: Annotated[
        str, typer.Argument(callback=writable_store, help="Folder, postgresql://... or milvus://... for the copy.")
    ],
) -> None:
    """Copy a search index with its model, and compare both; after an interruption, run the same command to continue."""
    from ddsh.cli.progress import Progress
    from ddsh.search.engine import WAIT_SECONDS
    from ddsh.search.store_copy import copy_store

    with Progress("Copying", "images") as progress:
        copied = copy_store(source, target, wait=WAIT_SECONDS, on_progress=progress.on_count)
    typer.echo(f"{copied:,} images copied, and all are equal: {target}")
