"""Commands that index and search images."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ddsh.cli.display import show_help_if_alone
from ddsh.cli.options import (
    BackboneName,
    Device,
    ImageSize,
    IndexAddress,
    Json,
    MissingLookBits,
    Ray,
    RayCommand,
    Root,
    StoreCommand,
    writable_file,
    writable_store,
)

if TYPE_CHECKING:
    from ddsh.datasets import Skipped
    from ddsh.distributed.shards import Shard
    from ddsh.model import Model
    from ddsh.search import ImageSearch

__all__ = ["app", "create", "duplicates", "find_shards_of", "search"]


_HIT_FACTS = ("distance", "label_distance", "look_distance", "similarity", "match", "is_identical", "bits", "flipped")


class Order(StrEnum):
    """What orders the results of a search."""

    BOTH = "both"
    LABEL = "label"
    LOOK = "look"


class _CreateByDefault(TyperGroup):
    """A group in which ``ddsh index IMAGES --out INDEX`` means ``ddsh index create IMAGES --out INDEX``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 -- Typer's own type
        """Insert ``create`` if the first word is not a command."""
        named = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if named else ["create", *args])


app = typer.Typer(
    cls=_CreateByDefault,
    rich_markup_mode=None,
    help="Create and change a search index.\n\nddsh index [MODEL] IMAGES --out INDEX is short for ddsh index create.",
)


@app.callback(invoke_without_command=True)
def _index(context: typer.Context) -> None:
    show_help_if_alone(context)


@dataclass(frozen=True)
class ImageSource:
    """Images to index.

    Parameters
    ----------
    images : sequence
        Paths, or images in memory.
    labels : sequence of sequence of str, optional
        Labels of each image.
    root : path, optional
        Folder that the images come from.
    skipped : tuple of Skipped
        Files that were left out because they cannot be read.
    """

    images: Any
    labels: list[list[str]] | None = None
    root: Path | None = None
    skipped: "tuple[Skipped, ...]" = ()

    @classmethod
    def find(cls, source: str, root: Path | None) -> "ImageSource":
        """Find images by the name of a dataset or by path; nothing is decoded yet."""
        import numpy as np

        from ddsh.datasets import DATASETS, is_unlabelled, load
        from ddsh.images import FileImages

        if source not in DATASETS and is_unlabelled(Path(source)):
            return cls([Path(source)])
        dataset = load(source, root=root, verify=False)
        labels: list[list[str]] = [[] for _ in range(len(dataset))]
        for position, name in enumerate(dataset.class_names):
            for row in np.flatnonzero(dataset.labels.having(position)).tolist():
                labels[row].append(name)
        files = dataset.images.paths if isinstance(dataset.images, FileImages) else None
        images = files or [dataset.images[row] for row in range(len(dataset))]
        return cls(images, labels, Path(source) if Path(source).is_dir() else None, dataset.skipped)


def find_shards_of(source: str, root: Path | None) -> "list[Shard]":
    """Divide images into shards for a cluster: any source of images, archives, or a URL."""
    from ddsh.distributed.shards import find_shards, is_remote, split_files
    from ddsh.errors import InvalidInput
    from ddsh.search.indexer import absolute_path, list_images

    if is_remote(source):
        return find_shards(source)
    found = ImageSource.find(source, root)
    files = list_images(found.images, found.labels)[0]
    paths = [str(absolute_path(each.image)) for each in files if isinstance(each.image, str | Path)]
    if len(paths) < len(files):
        raise InvalidInput(f"The images of {source} are no files, so a cluster cannot read them; leave out --ray.")
    return split_files(paths, [list(each.labels or ()) for each in files]) if paths else find_shards(source)


def _add(index: "ImageSearch", sources: list[ImageSource]) -> None:
    """Add images to an index and print a report."""
    from ddsh.cli.display import show_added
    from ddsh.cli.progress import Progress
    from ddsh.errors import DataError

    reports = []
    for source in sources:
        with Progress("Indexing", "images") as progress:
            reports.append(
                index.add(source.images, labels=source.labels, root=source.root, on_progress=progress.on_count)
            )
    show_added(reports, [skipped for source in sources for skipped in source.skipped])
    typer.echo(_summary(index))
    if not any(report.added or report.known or report.moved or report.changed for report in reports):
        raise DataError("None of the images can be read, so none was added; the list above says why.")


def _summary(index: "ImageSearch") -> str:
    """Return one line with the number of images and of bits."""
    bits = [f"{index.n_bits} label" if index.look_bits else f"{index.n_bits}"] if index.n_bits else []
    bits += [f"{index.look_bits} look"] if index.look_bits else []
    return f"{len(index):,} images of {' and '.join(bits)} bits: {index.address}"


@app.command(cls=RayCommand)
def create(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] IMAGES",
            help="Folder of a trained model, if there is one, and the images: a folder, image, table with labels, or"
            " name of a dataset.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "--store",
            callback=writable_store,
            help="Folder for the index, postgresql://... or milvus://...; an index of the same model is extended.",
        ),
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--kind", help="auto, exact, faiss or buckets; hnsw (PostgreSQL) and ivf (Milvus) may miss some results."
        ),
    ] = "auto",
    look_bits: MissingLookBits = None,
    backbone: BackboneName = None,
    image_size: ImageSize = None,
    root: Root = None,
    device: Device = "auto",
    ray: Ray = None,
) -> None:
    """Index images; after an interruption, run the same command to continue.

    Without a model, images are found by what they look like: a pretrained backbone and look bits, no labels needed.
    With --ray, IMAGES may also be a URL such as s3://bucket/photos, or WebDataset archives.
    """
    from ddsh.errors import InvalidInput
    from ddsh.model import Model
    from ddsh.search import ImageSearch
    from ddsh.search.address import has_store

    *models, images = sources
    if len(models) > 1:
        raise InvalidInput(
            f"Give IMAGES, or MODEL and IMAGES; got {len(sources)} names. To index more: ddsh index add."
        )
    if not models and (Path(images) / "model.json").is_file():
        raise InvalidInput(f"{images} is a model; also give the images: ddsh index {images} IMAGES --out {out}")
    if models and (backbone or image_size):
        raise InvalidInput("The model has a backbone already; leave out --backbone and --image-size.")
    shards = None if ray is None else find_shards_of(images, root)
    if shards is None:
        source = ImageSource.find(images, root)
    else:  # a sample of local files may be needed to learn look bits
        source = ImageSource([each for one in shards for each in one.addresses if Path(each).is_file()])
    if has_store(out):
        opened = ImageSearch.open(out, model=Path(models[0]) if models else None, device=device)
        _check_settings(opened, kind, look_bits, backbone, image_size)
    else:
        loaded = Model.load(models[0], device=device) if models else None
        opened = ImageSearch.create(
            out, _with_look(loaded, source, look_bits, backbone, image_size, device), index=kind
        )
    with opened as index:
        if shards is None:
            _add(index, [source])
            return
    _add_on_ray(out, shards, ray or None, device)


def _add_on_ray(address: str, shards: "list[Shard]", cluster: str | None, device: str) -> None:
    """Add images to an index, encoded on Ray, and print a report."""
    from ddsh.cli.display import show_skipped
    from ddsh.cli.progress import Progress
    from ddsh.distributed.ray import encode_to_store
    from ddsh.search import ImageSearch
    from ddsh.search.engine import WAIT_SECONDS

    with Progress("Indexing", "shards") as progress:
        report = encode_to_store(
            address, shards, cluster=cluster, device=device, wait=WAIT_SECONDS, on_progress=progress.on_count
        )
    typer.echo(f"{report.n_images:,} added" + (f", {report.n_known:,} known" if report.n_known else ""))
    show_skipped(report.broken)
    with ImageSearch.open(address) as index:
        typer.echo(_summary(index))


def _check_settings(
    index: "ImageSearch", kind: str, look_bits: int | None, backbone: str | None, image_size: int | None
) -> None:
    """Refuse settings that an index which is extended does not have."""
    from ddsh.errors import InvalidInput

    given: dict[str, object] = {}
    present: dict[str, object] = {}
    if kind != "auto":
        given["kind"], present["kind"] = kind, index.info().index
    if look_bits is not None:
        given["look-bits"], present["look-bits"] = look_bits, index.look_bits
    network = index.load_model().backbone if backbone or image_size else None
    if backbone:
        given["backbone"], present["backbone"] = backbone, None if network is None else network.name
    if image_size:
        given["image-size"], present["image-size"] = image_size, None if network is None else network.image_size
    for name, value in given.items():
        if value != present[name]:
            raise InvalidInput(
                f"{index.address} has --{name} {present[name]}; got {value}. Leave it out, or give another --out."
            )


def _with_look(
    model: "Model | None",
    source: ImageSource,
    look_bits: int | None,
    backbone: str | None,
    image_size: int | None,
    device: str,
) -> "Model":
    """Return a model with look bits; if it has none, they are learned from a sample of the images."""
    from ddsh.backbones import Backbone
    from ddsh.cli.progress import Progress
    from ddsh.errors import InvalidInput
    from ddsh.look import LOOK_BITS
    from ddsh.model import LOOK_IMAGE_SIZE, Model
    from ddsh.search.indexer import list_images, read_sample

    if model is not None and model.look_bits and look_bits not in (None, model.look_bits):
        raise InvalidInput(f"The model has {model.look_bits} look bits; leave out --look-bits {look_bits}.")
    look_bits = LOOK_BITS if look_bits is None else look_bits
    if model is None:
        size = LOOK_IMAGE_SIZE if backbone is None and image_size is None else image_size
        network = Backbone("efficientnet-lite0" if backbone is None else backbone, image_size=size, device=device)
        model = Model(None, network, look_bits)
    elif model.look_bits or not look_bits or model.backbone is None:
        return model
    with Progress("Learning looks", "images") as progress:
        sample = read_sample(list_images(source.images)[0], model.prepare, on_progress=progress.on_count)
    if not sample:
        raise InvalidInput(
            "None of the images can be read here, so there is nothing to index; give local images, or a model that"
            " has look bits."
        )
    return model.fit_look(sample, look_bits)


@app.command(cls=StoreCommand)
def add(
    index: IndexAddress,
    images: Annotated[
        list[str], typer.Argument(help="Folders of images, images, tables with labels, or names of datasets.")
    ],
    root: Root = None,
    device: Device = "auto",
) -> None:
    """Add images; those that are indexed already are skipped."""
    from ddsh.search import ImageSearch

    with ImageSearch.open(index, device=device) as opened:
        _add(opened, [ImageSource.find(source, root) for source in images])


@app.command(cls=StoreCommand)
def remove(
    index: IndexAddress, images: Annotated[list[str], typer.Argument(help="Ids or paths of indexed images.")]
) -> None:
    """Remove images from the index; their files stay."""
    from ddsh.errors import InvalidInput
    from ddsh.search import ImageSearch

    with ImageSearch.open(index) as opened:
        ids = []
        for image in images:
            number = opened.id_of(image)
            if number is None and not image.isdecimal():
                raise InvalidInput(f"{image} is not in the index; give the id or the path of an indexed image.")
            ids.append(int(image) if number is None else number)
        count = opened.remove(ids)
        typer.echo(f"{count:,} images removed, {len(opened):,} left: {index}")


@app.command(cls=StoreCommand)
def refresh(
    index: IndexAddress,
    checksum: Annotated[
        bool, typer.Option("--checksum", help="Read every file, even if its size and time are unchanged.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Update the index for files that were changed, moved or deleted."""
    from ddsh.cli.display import show_refreshed
    from ddsh.cli.progress import Progress
    from ddsh.search import ImageSearch

    with ImageSearch.open(index, device=device) as opened:
        with Progress("Checking files", "files") as progress:
            report = opened.refresh(checksum=checksum, on_progress=progress.on_count)
        show_refreshed(report, len(opened))


@app.command(cls=StoreCommand)
def upgrade(
    index: IndexAddress,
    model: Annotated[
        Path | None,
        typer.Argument(help="Folder of the new model; without one, the present model gets what it lacks."),
    ] = None,
    look_bits: MissingLookBits = None,
    remove_missing: Annotated[
        bool, typer.Option("--remove-missing", help="Remove images whose file is missing or changed.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Encode all images with another model, then switch to it at once.

    Ids, labels and metadata stay. The index can be searched and changed in the meantime, and a running ddsh serve goes
    on with the new model. After an interruption, run the same command to continue. Without a model, an index of an
    earlier version gets look bits, or learns similarities in per cent.
    """
    from ddsh.cli.progress import Progress
    from ddsh.search import ImageSearch

    with ImageSearch.open(index, device=device) as opened:
        with Progress("Encoding", "images") as progress:
            report = opened.upgrade(
                model, look_bits=look_bits, remove_missing=remove_missing, on_progress=progress.on_count
            )
        if report.removed:
            typer.echo(f"{len(report.removed):,} images removed, because their files are missing or changed")
        typer.echo(_summary(opened))


@app.command(cls=StoreCommand)
def verify(index: IndexAddress) -> None:
    """Read everything that an index stores, and compare checksums."""
    from ddsh.cli.display import show_problems
    from ddsh.errors import ArtefactError
    from ddsh.search import ImageSearch

    with ImageSearch.open(index) as opened:
        problems = opened.verify()
        if not problems:
            typer.echo(f"{len(opened):,} images, all intact: {index}")
            return
    show_problems(problems)
    raise ArtefactError(f"{index} fails in {len(problems):,} places; restore a backup, or mend what is listed.")


@app.command(cls=StoreCommand)
def info(index: IndexAddress, json: Json = False) -> None:
    """Show facts about an index."""
    from dataclasses import asdict

    from ddsh.cli.display import print_json, show_index
    from ddsh.search import ImageSearch

    with ImageSearch.open(index) as opened:
        facts = opened.info()
    if json:
        print_json(asdict(facts))
    else:
        show_index(facts)


def search(
    index: IndexAddress,
    queries: Annotated[list[str], typer.Argument(help="Images, or ids of indexed images.")],
    k: Annotated[int, typer.Option("-k", help="Largest number of images to show.")] = 20,
    by: Annotated[
        Order, typer.Option(help="Order by what images show (label), what they look like (look), or both.")
    ] = Order.BOTH,
    radius: Annotated[int | None, typer.Option(help="Largest distance to show, in the order of --by.")] = None,
    min_similarity: Annotated[
        float | None, typer.Option(min=0, max=100, help="Smallest similarity to show, in per cent.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="Show only images with this label; may be repeated.")] = None,
    all_labels: Annotated[
        bool, typer.Option("--all-labels", help="Show only images with all of these labels, not with any.")
    ] = False,
    text: Annotated[
        str | None, typer.Option(help="Show only images with these words in a label, the file name or the metadata.")
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Number of images to leave out at the start.")] = 0,
    json: Json = False,
    html: Annotated[
        Path | None, typer.Option(callback=writable_file, help="Write a page with thumbnails to this file.")
    ] = None,
) -> None:
    """Find the images most similar to each query."""
    from ddsh.cli.display import print_json, show_hits
    from ddsh.search import ImageSearch

    with ImageSearch.open(index) as opened:
        found = {}
        for query in queries:
            image = int(query) if query.isdecimal() and not Path(query).exists() else query
            found[query] = opened.query(
                image,
                k,
                offset=offset,
                by=Order(by).value,
                radius=radius,
                min_similarity=min_similarity,
                label=label,
                all_labels=all_labels,
                text=text,
            )
    if html:
        from ddsh.search.page import make_page
        from ddsh.storage import atomic_write

        with atomic_write(html) as file:
            file.write(make_page(found).encode())
        typer.echo(html, err=True)
    if json:
        print_json(
            [
                {
                    "query": query,
                    "nothing_similar": hits.nothing_similar,
                    "hits": [hit.entry._asdict() | {name: getattr(hit, name) for name in _HIT_FACTS} for hit in hits],
                }
                for query, hits in found.items()
            ]
        )
    elif not html:
        show_hits(found)


def duplicates(
    index: IndexAddress,
    radius: Annotated[
        int | None, typer.Option(help="Largest Hamming distance between the codes of a pair; 2 label bits by default.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest difference between tiny copies of a pair, in grey levels.")
    ] = 4.0,
    json: Json = False,
) -> None:
    """List near-duplicates in an index.

    These are copies of an image, including resized and recompressed ones.
    """
    from ddsh.cli.display import print_json, show_duplicates
    from ddsh.cli.progress import Progress
    from ddsh.search import ImageSearch

    with ImageSearch.open(index) as opened, Progress("Comparing images"):
        groups = opened.duplicates(radius, tolerance=tolerance)
    if json:
        print_json([[entry._asdict() for entry in group] for group in groups])
    else:
        show_duplicates(groups)
