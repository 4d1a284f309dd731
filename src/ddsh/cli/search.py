"""Commands that index and search images."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from typer.core import TyperGroup

from ddsh.cli import show
from ddsh.cli.data import Json, Root
from ddsh.cli.models import Model
from ddsh.datasets import DATASETS, Dataset, Skipped, is_unlabelled, load
from ddsh.errors import InvalidInput
from ddsh.images import FileImages
from ddsh.storage import atomic_write

if TYPE_CHECKING:
    from ddsh.search import AddReport, Hit, ImageSearch

Folder = Annotated[Path, typer.Argument(help="Folder of a search index.")]
Source = Annotated[str, typer.Argument(help="Folder of images, an image, a table with labels, or a dataset's name.")]
Sources = Annotated[list[str], typer.Argument(help="Folders of images, images, tables with labels, dataset names.")]
Chosen = Annotated[list[str], typer.Argument(help="Ids or paths of images in the index.")]
Queries = Annotated[list[str], typer.Argument(help="Images, or ids of images in the index.")]
Radius = Annotated[int | None, typer.Option(help="Show only images whose codes differ in at most so many bits.")]
Tolerance = Annotated[float, typer.Option(help="Grey levels by which tiny copies of a pair may differ.")]


class _CreateByDefault(TyperGroup):
    """A group in which ``ddsh index MODEL IMAGES --out INDEX`` means ``ddsh index create MODEL IMAGES --out INDEX``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 -- Typer's own type
        """Name the command where the first word is none."""
        named = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if named else ["create", *args])


app = typer.Typer(cls=_CreateByDefault, help="Make and change a search index: ddsh index MODEL IMAGES --out INDEX.")


@app.callback(invoke_without_command=True)
def _index(context: typer.Context) -> None:
    show.help_when_alone(context)


@app.command()
def create(
    model: Model,
    images: Source,
    out: Annotated[Path, typer.Option(help="Folder for the index; one of the same model is added to.")],
    kind: Annotated[str, typer.Option("--kind", help="auto, exact, faiss or buckets; all answer the same.")] = "auto",
    keep_outputs: Annotated[bool, typer.Option("--keep-outputs", help="Keep real outputs, for --rerank.")] = False,
    root: Root = None,
) -> None:
    """Index images; run it again after a cut, and it goes on where it stopped."""
    from ddsh.search import ImageSearch
    from ddsh.search.local import is_search

    found = _Images.of(images, root)
    if is_search(out):
        search = ImageSearch.open(out, model=model)
    else:
        search = ImageSearch.create(out, model, index=kind, keep_outputs=keep_outputs)
    with search:
        _add(search, [found])


@app.command()
def add(index: Folder, images: Sources, root: Root = None) -> None:
    """Add images; those that are there already are passed over."""
    with _open(index) as search:
        _add(search, [_Images.of(source, root) for source in images])


@app.command()
def remove(index: Folder, images: Chosen) -> None:
    """Remove images from the index; their files stay."""
    with _open(index) as search:
        count = search.remove([_id_of(search, image) for image in images])
        typer.echo(f"{count:,} images removed, {len(search):,} left: {index}")


@app.command()
def refresh(index: Folder) -> None:
    """Notice files that were changed, moved or deleted since they were indexed."""
    with _open(index) as search:
        with show.counting("Looking at files", "files") as on_progress:
            report = search.refresh(on_progress=on_progress)
        show.refreshed(report, len(search))


@app.command()
def info(index: Folder, json: Json = False) -> None:
    """Show facts about an index."""
    with _open(index) as search:
        facts = search.info()
    if json:
        show.as_json(asdict(facts))
    else:
        show.index_facts(facts)


def search(
    index: Folder,
    queries: Queries,
    k: Annotated[int, typer.Option("-k", help="How many images to show at most.")] = 20,
    radius: Radius = None,
    label: Annotated[str | None, typer.Option(help="Show only images that carry this label.")] = None,
    rerank: Annotated[bool, typer.Option("--rerank", help="Order near ties by real outputs.")] = False,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures to this file.")] = None,
) -> None:
    """Find the images most similar to each query."""
    with _open(index) as found:
        answers = {query: found.query(_query(query), k, radius=radius, label=label, rerank=rerank) for query in queries}
    if html:
        _write_page(html, answers)
    if json:
        show.as_json([{"query": query, "hits": [_plain(hit) for hit in hits]} for query, hits in answers.items()])
    elif not html:
        show.answers(answers)


def duplicates(
    index: Folder,
    radius: Annotated[int, typer.Option(help="In how many bits the codes of a pair may differ.")] = 2,
    tolerance: Tolerance = 4.0,
    json: Json = False,
) -> None:
    """Show groups of near-identical images: copies, also resized or saved anew."""
    with _open(index) as search:
        groups = search.duplicates(radius, tolerance=tolerance)
    if json:
        show.as_json([[asdict(entry) for entry in group] for group in groups])
    else:
        show.groups(groups)


def export(
    model: Model,
    onnx: Annotated[Path, typer.Option("--onnx", help="The .onnx file to write.")],
) -> None:
    """Write a model's network as ONNX: uint8 images in, outputs and bits out."""
    from ddsh.search import export_onnx

    export_onnx(model, onnx)
    typer.echo(f"{onnx}: {onnx.stat().st_size:,} bytes")


def _open(folder: Path) -> "ImageSearch":
    from ddsh.search import ImageSearch

    return ImageSearch.open(folder)


class _Images:
    """What is to be indexed: images, their labels where they are known, and what was left out already."""

    def __init__(self, images: Sequence[Any], labels: Sequence[Sequence[str]] | None, root: Path | None) -> None:
        self.images, self.labels, self.root = images, labels, root
        self.skipped: tuple[Skipped, ...] = ()

    @classmethod
    def of(cls, source: str, root: Path | None) -> "_Images":
        """Find the images; nothing is decoded yet."""
        if source not in DATASETS and is_unlabelled(Path(source)):
            return cls([Path(source)], None, None)
        dataset = load(source, root=root, verify=False)
        files = dataset.images.paths if isinstance(dataset.images, FileImages) else None
        images = files or [dataset.images[row] for row in range(len(dataset))]
        found = cls(images, _label_names(dataset), Path(source) if Path(source).is_dir() else None)
        found.skipped = dataset.skipped
        return found


def _label_names(dataset: Dataset) -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = [()] * len(dataset)
    for position, name in enumerate(dataset.class_names):
        for row in np.flatnonzero(dataset.labels.having(position)).tolist():
            names[row] = (*names[row], name)
    return names


def _add(search: "ImageSearch", found: Sequence[_Images]) -> None:
    reports: list[AddReport] = []
    for part in found:
        with show.counting("Indexing", "images") as on_progress:
            reports.append(search.add(part.images, labels=part.labels, root=part.root, on_progress=on_progress))
    show.added(reports, [skipped for part in found for skipped in part.skipped])
    typer.echo(f"{len(search):,} images of {search.n_bits} bits: {search.folder}")


def _id_of(search: "ImageSearch", image: str) -> int:
    """Return the id that is meant: of the image at a path, or the number itself."""
    known = search.id_of(image)
    if known is None and not image.isdecimal():
        raise InvalidInput(f"{image} is not in the index; give the id or the path of an image that is.")
    return int(image) if known is None else known


def _query(query: str) -> str | int:
    return int(query) if query.isdecimal() and not Path(query).exists() else query


def _plain(hit: "Hit") -> dict[str, Any]:
    return {**asdict(hit.entry), "distance": hit.distance, "bits": hit.bits, "flipped": list(hit.flipped)}


def _write_page(path: Path, answers: Mapping[str, Sequence["Hit"]]) -> None:
    from ddsh.search.page import make_page

    with atomic_write(path) as file:
        file.write(make_page(answers).encode())
    typer.echo(path, err=True)
