"""Commands that train, list and export models, and encode images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddsh.cli.options import (
    BackboneName,
    BatchSize,
    Bits,
    CacheDir,
    Device,
    Epochs,
    ImageSize,
    Json,
    LookBits,
    MethodName,
    ModelFolder,
    NFrozen,
    NQuery,
    NTrain,
    Part,
    Preset,
    ProtocolName,
    QueriesPerClass,
    Ray,
    Root,
    Seed,
    Weights,
    writable_file,
    writable_folder,
)

if TYPE_CHECKING:
    from ddsh.datasets import Dataset, Split
    from ddsh.datasets.protocols import RowNumbers
    from ddsh.images import Images
    from ddsh.methods import Hasher
    from ddsh.model import Model

_N_HELD = 500  # images that calibrate a model, at most
_MIN_IN_CLASS = 10  # images of a class that can do without one
_N_SEARCHED = 2000  # images that they are searched among

__all__ = ["build_model", "encode", "export", "methods", "train"]


def build_model(
    method: str,
    *,
    params: dict[str, Any],
    training: dict[str, Any],
    backbone: dict[str, Any],
    cache_dir: Path | None,
    device: str,
    look_bits: int = 0,
) -> "Model":
    """Return the unfitted model that options describe; options that are None were not given.

    Parameters
    ----------
    method : str
        Name of the method, or ``module:Class``.
    params, training, backbone : dict
        Parameters of the method, of its :class:`ddsh.Training`, and of the :class:`ddsh.Backbone`.
    cache_dir, device
        See :class:`ddsh.Backbone`.
    look_bits : int
        Number of look bits.
    """
    from ddsh.backbones import Backbone
    from ddsh.errors import InvalidInput
    from ddsh.methods import get_method
    from ddsh.model import Model

    def given(options: dict[str, Any]) -> dict[str, Any]:
        """Return the options that were given."""
        return {name: value for name, value in options.items() if value is not None}

    cls = get_method(method)
    known = cls().get_params()
    own = given(params) | ({"training": given(training)} if given(training) else {})
    if "seed" not in known:
        own.pop("seed", None)
    if unknown := sorted(own.keys() - known.keys()):
        options = [f"--{name}" for name in given(training)] if unknown == ["training"] else [f"--{unknown[0]}"]
        leave_out = " and ".join(options).replace("_", "-")
        raise InvalidInput(f"{method} has no parameter {unknown[0]}; leave out {leave_out}.")
    hasher = cls.from_description(own)
    changes, trained = given(backbone), hasher.trained_backbone
    needed = [f"--{name}".replace("_", "-") for name in changes]
    if trained is None and "n_frozen" in changes:
        raise InvalidInput(f"{method} does not train a backbone; leave out --n-frozen.")
    if trained is None and "name" not in changes:
        if changes:
            raise InvalidInput(
                f"{method} has no backbone by default; with {' and '.join(needed)} also give --backbone."
            )
        return Model(hasher, look_bits=look_bits)
    changes |= {"cache_dir": cache_dir, "device": device}
    if trained is None or "name" in changes:
        return Model(hasher, Backbone(**changes), look_bits)
    return Model(hasher, trained.with_options(**changes), look_bits)


def train(
    *,
    data: Annotated[str | None, typer.Argument(help="Name of a dataset, folder of images, table or list.")] = None,
    from_index: Annotated[
        Path | None, typer.Option(help="Learn from the labelled images of this search index instead of DATA.")
    ] = None,
    out: Annotated[Path, typer.Option(callback=writable_folder, help="Folder for the model; must not hold one yet.")],
    method: MethodName = "ddsh",
    bits: Bits = 32,
    look_bits: LookBits = 128,
    backbone: BackboneName = None,
    image_size: ImageSize = None,
    n_frozen: NFrozen = None,
    weights: Weights = None,
    preset: Preset = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate at the start.")] = None,
    protocol: ProtocolName = None,
    queries_per_class: QueriesPerClass = None,
    n_query: NQuery = None,
    n_train: NTrain = None,
    part: Part = None,
    seed: Seed = 0,
    root: Root = None,
    device: Device = "auto",
    cache_dir: CacheDir = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to train with on a CPU; other numbers give slightly other codes.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted training.")] = False,
    no_calibration: Annotated[
        bool,
        typer.Option("--no-calibration", help="Hold no images out to learn what distances mean in per cent."),
    ] = False,
) -> None:
    """Train a model on the training images of a dataset, or on the labels given in a search index.

    Unlabelled images are left out. Number of queries, batch size and epochs adapt to few images, unless they are given.
    """
    import os
    import shutil
    import tempfile
    import time
    from contextlib import nullcontext

    from ddsh.cli.progress import Progress
    from ddsh.datasets import get_protocol, load
    from ddsh.errors import ArtefactError, InvalidInput
    from ddsh.evaluation.evaluator import versions
    from ddsh.images import SomeImages
    from ddsh.model import Model

    if (out / "model.json").exists():
        raise InvalidInput(f"{out} holds a model already; choose another folder or remove it.")
    schedule = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    model = build_model(
        method,
        params={"n_bits": bits, "seed": seed, "preset": preset},
        training=schedule,
        backbone={"name": backbone, "image_size": image_size, "n_frozen": n_frozen, "weights": weights},
        cache_dir=cache_dir,
        device=device,
        look_bits=look_bits,
    )
    own = model.require_method()
    threads = _use_threads(threads, trains_network=own.inputs == "images")
    if own.inputs == "images":
        from ddsh.backbones.network import choose_device

        choose_device(device)
    with Progress("Reading files", "files") as progress:
        if from_index is not None and data is None:
            dataset, everything = _read_index(from_index)
        elif data is not None and from_index is None:
            dataset, everything = load(data, root=root, on_progress=progress.on_count), None
        else:
            raise InvalidInput("Give DATA or --from-index, one of them.")
    source = str(from_index if data is None else data)
    rule = get_protocol(protocol or dataset.protocol)
    options: dict[str, Any] = {"query_per_class": queries_per_class, "n_query": n_query}
    options |= {"n_train": n_train, "part": part}
    _check_trainable(dataset, source, part, needs_classes=own.card.supervision == "supervised")
    split = rule.with_options(**options).split(dataset, seed)
    given = [name for name, value in (schedule | {"preset": preset}).items() if value is not None]
    train_rows, held = (split.train, split.train[:0]) if no_calibration else _hold_out(dataset, split)
    images, labels = SomeImages(dataset.images, train_rows), dataset.labels.take(train_rows)
    adapted = own.adapted(labels, given)
    checkpoints = out / "checkpoints"
    start = time.perf_counter()
    # torchrun sets these variables: every process trains, and the first one reports and saves. After one was killed,
    # torchrun --max-restarts starts all of them again; the count of restarts is that of a host, which may still be 0.
    resume = resume or os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    n_processes, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if rank == 0:
        _explain(
            dataset,
            source,
            split,
            len(train_rows),
            changes=_adaptations(own, adapted),
        )
    if adapted is not own:
        model = Model(adapted, model.backbone, look_bits)
    group: Any = nullcontext()
    if n_processes > 1 and own.inputs == "images":
        from ddsh.methods import joined

        group = joined(n_processes, int(os.environ.get("LOCAL_RANK", "0")))
    with group, Progress("Training", quiet=rank != 0) as progress:
        model.fit(images, labels, checkpoints=checkpoints, resume=resume, on_step=progress.on_step)
    if rank != 0:
        return
    if model.look_bits and everything is not None and len(everything) > len(images):
        with Progress("Learning looks"):
            model.fit_look(everything, model.look_bits)
    _calibrate(model, dataset, held, split.database)
    about = {
        "dataset": dataset.name,
        "protocol": rule.name,
        "protocol_options": {name: value for name, value in options.items() if value is not None},
        "seed": seed,
        "split": split.fingerprint,
        "n_train": len(train_rows),
        "n_calibration": len(held),
        "seconds": time.perf_counter() - start,
        "threads": threads,
        "history": model.history,
        "versions": versions(),
    }
    try:
        model.save(out, about)
    except ArtefactError as error:
        try:
            elsewhere = tempfile.mkdtemp(prefix="ddsh-model-")
            model.save(elsewhere, about)
            saved = f"The trained model is in {elsewhere} instead; move it to another folder."
        except (ArtefactError, OSError):
            saved = f"Its checkpoints, if there are any, stay in {checkpoints}; run the command again with --resume."
        raise ArtefactError(f"{error} {saved}") from error
    shutil.rmtree(checkpoints, ignore_errors=True)
    bits_text = f"{model.n_bits} label bits, {model.look_bits} look bits" if model.look_bits else f"{model.n_bits} bits"
    typer.echo(f"{model.name}, {bits_text}, trained on {len(images):,} images of {dataset.name}: {out}")


def _use_threads(threads: int | None, *, trains_network: bool) -> int:
    """Set the number of threads of NumPy and PyTorch, if one is given, and return the number in use."""
    from threadpoolctl import threadpool_info, threadpool_limits

    if threads is not None:
        threadpool_limits(threads)
    if not trains_network:
        return max((library["num_threads"] for library in threadpool_info()), default=1)
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    return torch.get_num_threads()


def _hold_out(dataset: "Dataset", split: "Split") -> "tuple[RowNumbers, RowNumbers]":
    """Return the images to train on, and images to learn with what distances mean; never queries.

    They come from the part of the database that is not trained on; if that is too small, a tenth of the training images
    is held out, but none of rare classes. From few images nothing is held out.
    """
    import numpy as np

    from ddsh.calibration import MIN_QUERIES
    from ddsh.labels import draw_stratified

    unused = np.setdiff1d(split.database, split.train)
    pool = unused if len(unused) >= 10 * MIN_QUERIES else split.train
    for label, count in dataset.labels.take(pool).counts().items():
        if count < _MIN_IN_CLASS:
            pool = pool[~dataset.labels.take(pool).having(label)]
    n_held = min(_N_HELD, len(pool) // 10)
    if n_held < MIN_QUERIES:
        return split.train, split.train[:0]
    held = pool[draw_stratified(dataset.labels.take(pool), n_held, np.random.default_rng(split.seed))]
    return np.setdiff1d(split.train, held), held


def _calibrate(model: "Model", dataset: "Dataset", held: "RowNumbers", database: "RowNumbers") -> None:
    """Learn what distances mean with images that were held out, if there are any."""
    import numpy as np

    from ddsh.cli.progress import Progress
    from ddsh.images import SomeImages
    from ddsh.labels import draw_stratified

    if not len(held):
        return
    others = np.setdiff1d(database, held)
    n_others = min(_N_SEARCHED, len(others))
    others = others[draw_stratified(dataset.labels.take(others), n_others, np.random.default_rng(0))]
    with Progress("Calibrating"):
        images, labels = SomeImages(dataset.images, held), dataset.labels.take(held)
        model.calibrate(images, labels, SomeImages(dataset.images, others), dataset.labels.take(others))


def _read_index(folder: Path) -> "tuple[Dataset, Images]":
    """Return the labelled images of a search index and all its images; say how many files are missing."""
    from dataclasses import replace

    from ddsh.search import ImageSearch
    from ddsh.search.labelled_entries import labelled_entries

    with ImageSearch.open(folder) as search:
        dataset, images = labelled_entries(search)
        n_all = len(search)
    typer.echo(f"{len(dataset):,} of {n_all:,} images are labelled, with {len(dataset.class_names):,} labels", err=True)
    if dataset.skipped:
        first = dataset.skipped[0]
        typer.echo(
            f"{len(dataset.skipped):,} files cannot be read and are left out, such as {first.path} ({first.reason})",
            err=True,
        )
    return replace(dataset, skipped=()), images


def _check_trainable(dataset: "Dataset", source: str, part: str | None, *, needs_classes: bool) -> None:
    """Raise if there is nothing to learn from: no labels, one class, or no such part."""
    from ddsh.errors import DataError

    look = f"Search by look needs no labels: ddsh index {source} --out my-index"
    if len(dataset.unlabelled) == len(dataset):
        raise DataError(f"{source}: no image has a label, so there is nothing to learn from; label some. {look}")
    if needs_classes and len(dataset.labels.classes()) == 1:
        name = dataset.class_names[int(dataset.labels.classes()[0])]
        raise DataError(f"{source}: {name!r} is its only class, so there is nothing to tell apart; add others. {look}")
    if part is not None and part not in dataset.parts:
        known = ", ".join(sorted(dataset.parts)) or "none"
        raise DataError(f"{source} has no part {part!r} (it has: {known}); leave out --part or give one of these.")


def _explain(dataset: "Dataset", source: str, split: "Split", n_train: int, changes: list[str]) -> None:
    """Print on standard error which images are left out, and what was adapted to few images."""
    if n_unlabelled := len(dataset.unlabelled):
        typer.echo(
            f"{len(dataset) - n_unlabelled:,} images are labelled, {n_unlabelled:,} are not: those are left out here,"
            " but can be indexed.",
            err=True,
        )
    if dataset.skipped:
        first = dataset.skipped[0]
        more = (
            f"{len(dataset.skipped):,} entries cannot be used and are left out, such as {first.path} ({first.reason})"
        )
        typer.echo(f"{more}; see: ddsh data check {source}", err=True)
    per_class = split.protocol.query_per_class
    if per_class is not None and split.protocol.query_share is not None:
        n_classes, counts = len(dataset.labels.classes()), dataset.labels.take(split.query).counts()
        if any(count < per_class for count in counts.values()) or len(counts) < n_classes:
            without = n_classes - len(counts)
            none = f" ({without:,} {'class has' if without == 1 else 'classes have'} none)" if without else ""
            changes = [f"{len(split.query):,} queries instead of {per_class:,} per class{none}", *changes]
    if changes:
        typer.echo(f"Adapted to {n_train:,} training images: {', '.join(changes)}.", err=True)


def _adaptations(own: "Hasher", adapted: "Hasher") -> list[str]:
    """Return what was adapted, such as ``epochs 24``; of another preset, only what differs from it."""
    before, after = own.describe_params(), adapted.describe_params()
    changes = _differences(before, after)
    if before.get("preset") == after.get("preset"):
        return changes
    plain = own.from_description(own.get_params() | {"preset": after["preset"], "training": None})
    others = _differences(plain.describe_params(), after)  # given options are among them
    return [f"preset {after['preset']}", *(change for change in others if change in changes)]


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the parameters that differ, such as ``epochs 24``, at any depth."""
    found = []
    for name, value in after.items():
        if isinstance(value, dict):
            found += _differences(before.get(name) or {}, value)
        elif value != before.get(name):
            found.append(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}")
    return found


def encode(
    model: ModelFolder,
    images: Annotated[str, typer.Argument(help="Name of a dataset, labelled images as for train, or any images.")],
    out: Annotated[str, typer.Option(help="The .npz file to write; with --ray a folder or URL for Parquet files.")],
    root: Root = None,
    device: Device = "auto",
    ray: Ray = None,
) -> None:
    """Encode images with a trained model.

    Writes an .npz file with the codes, the names of the images and, if they are known, their labels. With --ray, IMAGES
    may also be a URL such as s3://bucket/photos, or WebDataset archives; after an interruption, run the same command to
    continue.
    """
    if ray is not None:
        _encode_on_ray(model, images, out, root, device, ray)
    else:
        _encode_here(model, images, Path(out), root, device)


def _encode_on_ray(model: Path, images: str, out: str, root: Path | None, device: str, cluster: str) -> None:
    """Encode images on Ray into a folder of Parquet files."""
    from ddsh.cli.display import show_skipped
    from ddsh.cli.progress import Progress
    from ddsh.cli.search import find_shards_of
    from ddsh.distributed.ray import encode_to_parquet

    if "://" not in out:
        writable_folder(Path(out))
    shards = find_shards_of(images, root)
    with Progress("Encoding", "shards") as progress:
        report = encode_to_parquet(
            model, shards, out, cluster=cluster or None, device=device, on_progress=progress.on_count
        )
    show_skipped(report.broken)
    before = f", {report.n_known:,} of {len(shards):,} shards were there before" if report.n_known else ""
    typer.echo(f"{report.n_images:,} images encoded{before}: {out}")


def _encode_here(model: Path, images: str, out: Path, root: Path | None, device: str) -> None:
    """Encode images in this process into an .npz file."""
    import numpy as np

    from ddsh.cli.display import show_skipped
    from ddsh.cli.progress import Progress
    from ddsh.datasets import DATASETS, is_unlabelled, load, load_unlabelled
    from ddsh.evaluation.labelled_codes import label_arrays
    from ddsh.images import Images
    from ddsh.model import Model
    from ddsh.storage import write_npz

    writable_file(out)
    loaded = Model.load(model, device=device)
    with Progress("Reading files", "files") as progress:
        if images not in DATASETS and is_unlabelled(images):
            source: Images
            source, skipped = load_unlabelled(images, progress.on_count)
            labels = {}
        else:
            dataset = load(images, root=root, on_progress=progress.on_count)
            source, skipped, labels = dataset.images, dataset.skipped, label_arrays(dataset.labels)
            if len(dataset.unlabelled):
                labels["unlabelled"] = dataset.unlabelled
    with Progress("Encoding", "images") as progress:
        codes = loaded.encode(source, progress.on_count)
    names = np.array([source.name(row) for row in range(len(source))])
    write_npz(out, codes.to_arrays() | {"names": names} | labels)
    show_skipped(skipped)
    typer.echo(f"{len(codes):,} codes of {codes.n_bits} bits: {out}")


def methods(
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """List the methods, those of installed plugins included."""
    from ddsh.cli.display import print_json, print_table
    from ddsh.cli.tables import methods_table
    from ddsh.errors import DdshError
    from ddsh.methods import get_method, method_names

    cards = []
    for name in method_names():
        try:
            cards.append(get_method(name).card)
        except DdshError as error:  # a broken plugin, or PyTorch is not installed
            typer.echo(f"ddsh: {error}", err=True)
    table = methods_table(cards)
    if json:
        print_json([vars(card) for card in cards])
    elif markdown:
        typer.echo(table.to_markdown())
    else:
        print_table(table.select([name for name in table.header if not name.startswith("differs")]))


def export(
    model: ModelFolder,
    onnx: Annotated[Path, typer.Option("--onnx", callback=writable_file, help="The .onnx file to write.")],
) -> None:
    """Write the network of a model as an ONNX file.

    It takes uint8 images and returns real outputs and bits.
    """
    from ddsh.model import Model

    Model.load(model).export_onnx(onnx)
    typer.echo(f"{onnx}: {onnx.stat().st_size:,} bytes")
