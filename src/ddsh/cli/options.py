"""Arguments and options that several commands share."""

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from ddsh.errors import ArtefactError, InvalidInput

__all__ = [
    "BackboneName",
    "BatchSize",
    "Bits",
    "CacheDir",
    "Data",
    "Device",
    "Epochs",
    "ImageSize",
    "IndexAddress",
    "Json",
    "LookBits",
    "MethodName",
    "MissingLookBits",
    "ModelFolder",
    "NFrozen",
    "NQuery",
    "NTrain",
    "Part",
    "Preset",
    "ProtocolName",
    "QueriesPerClass",
    "Root",
    "Seed",
    "StoreCommand",
    "Weights",
    "store_address",
    "writable_file",
    "writable_folder",
    "writable_store",
]


class StoreCommand(TyperCommand):
    """A command whose first argument, the index, may also be given as ``--store INDEX``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 -- Typer's own type
        """Move the value of ``--store`` to the front."""
        for place, word in enumerate(args):
            if word == "--":
                break
            if word.startswith("--store="):
                args = [word.removeprefix("--store="), *args[:place], *args[place + 1 :]]
                break
            if word == "--store" and place + 1 < len(args):
                args = [args[place + 1], *args[:place], *args[place + 2 :]]
                break
        return super().parse_args(ctx, args)


def store_address(address: str) -> str:
    """Return the address of a store, or raise if everybody could read its password in the list of processes."""
    from ddsh.search.address import has_password

    if has_password(address):
        raise InvalidInput(
            "Leave the password out of the address, where every user of this machine can read it; set PGPASSWORD,"
            " PGPASSFILE or MILVUS_TOKEN."
        )
    return address


def writable_store(address: str) -> str:
    """Return the address of a store to be made, or raise if it is a folder that cannot be written."""
    from ddsh.search.address import is_database

    if not is_database(store_address(address)):
        writable_folder(Path(address))
    return address


def writable_folder(path: Path | None) -> Path | None:
    """Return the path of a folder, or raise if nothing can be written there.

    It is the callback of options such as ``--out``, so that a wrong path is refused before the work starts.
    """
    if path is not None:
        if path.exists() and not path.is_dir():
            raise InvalidInput(f"{path} is a file; give the path of a folder.")
        _write_something(path, path)
    return path


def writable_file(path: Path | None) -> Path | None:
    """Return the path of a file, or raise if it cannot be written; see :func:`writable_folder`."""
    if path is not None:
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise InvalidInput(f"{path} is {kind}; give the path of a file to write.")
        _write_something(path, path.parent)
    return path


def _write_something(path: Path, folder: Path) -> None:
    """Write an unnamed temporary file to a folder, or to the nearest one above it that exists."""
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(4096))
    except OSError as error:
        raise ArtefactError(f"{path} cannot be written ({place}: {error.strerror}); choose another path.") from error


BackboneName: TypeAlias = Annotated[
    str | None, typer.Option(help="Network: a name or module:function; the method's own by default.")
]
BatchSize: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Images in a mini-batch.")]
Bits: TypeAlias = Annotated[int, typer.Option(help="Code length.")]
CacheDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(callback=writable_folder, help="Folder that keeps outputs of frozen stages for later runs."),
]
Data: TypeAlias = Annotated[str, typer.Argument(help="Name of a dataset, folder of images, table or list.")]
Device: TypeAlias = Annotated[str, typer.Option(help="Where networks run: auto, cpu, cuda or mps.")]
Epochs: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Number of epochs.")]
ImageSize: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Side of the images that the backbone sees.")]
IndexAddress: TypeAlias = Annotated[
    str,
    typer.Argument(
        callback=store_address,
        help="Search index: a folder, postgresql://user@host/database or milvus://host:port; also as --store INDEX.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
LookBits: TypeAlias = Annotated[
    int,
    typer.Option(min=0, max=1024, help="Number of bits for what images look like, learned without labels."),
]
MissingLookBits: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0, max=1024, help="Number of bits for what images look like, if the model has none; 128 by default."
    ),
]
MethodName: TypeAlias = Annotated[str, typer.Option(help="Name of a method (see: ddsh methods), or module:Class.")]
ModelFolder: TypeAlias = Annotated[Path, typer.Argument(help="Folder of a trained model.")]
NQuery: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Number of all queries, drawn at random, instead of queries per class.")
]
NTrain: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Number of training images; all by default.")]
NFrozen: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Number of first stages of the backbone that are not trained.")
]
Part: TypeAlias = Annotated[str | None, typer.Option(help="Part of the dataset to learn from, such as train.")]
Preset: TypeAlias = Annotated[str | None, typer.Option(help="Preset of the method, such as paper.")]
ProtocolName: TypeAlias = Annotated[
    str | None, typer.Option(help="Protocol of the split; the dataset's own by default.")
]
QueriesPerClass: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--queries-per-class", "--query-per-class", min=1, help="Queries of each class; of a small class all but one."
    ),
]
Root: TypeAlias = Annotated[
    Path | None, typer.Option("--root", "--data", envvar="DDSH_DATA", help="Folder that holds the datasets.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of the split and of the method.")]
Weights: TypeAlias = Annotated[Path | None, typer.Option(help="File of pretrained weights of the backbone.")]
