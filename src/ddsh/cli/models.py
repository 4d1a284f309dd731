"""Commands that train, encode and evaluate."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from ddsh.cli import show, tables
from ddsh.cli.data import Json, Root
from ddsh.datasets import DATASETS, Dataset, get_protocol, is_unlabelled, load, load_unlabelled
from ddsh.errors import InvalidInput
from ddsh.evaluation import score_fitted
from ddsh.evaluation.files import label_arrays
from ddsh.evaluation.results import encode_rows, items, versions
from ddsh.labels import Labels, as_labels
from ddsh.methods import METHODS, get_method, load_model, save_model
from ddsh.methods._models import extractor_of
from ddsh.storage import write_npz

Arrays: TypeAlias = dict[str, NDArray[Any]]
Data = Annotated[str, typer.Argument(help="A dataset's name, a folder of images, a table or a list.")]
Model = Annotated[Path, typer.Argument(help="Folder of a trained model.")]
FrozenStages = Annotated[int | None, typer.Option(min=0, help="First stages of the network that keep their weights.")]
Memory = Annotated[Path | None, typer.Option(help="Folder to keep outputs of frozen stages in, for the next run.")]


def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the model; must not hold one.")],
    method: Annotated[str, typer.Option(help="See: ddsh methods.")] = "ddsh",
    bits: Annotated[int, typer.Option(help="Code length.")] = 32,
    network: Annotated[str | None, typer.Option(help="Network; the method's own if not given.")] = None,
    image_size: Annotated[int | None, typer.Option(help="Side of the images that the network sees.")] = None,
    n_frozen: FrozenStages = None,
    preset: Annotated[str | None, typer.Option(help="Setting of the method, such as paper.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At the start.")] = None,
    weights: Annotated[Path | None, typer.Option(help="File with pretrained weights.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    protocol: Annotated[str | None, typer.Option(help="How to split; the dataset's usual way if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the method.")] = 0,
    root: Root = None,
    memory: Memory = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
) -> None:
    """Learn codes from the training images of a dataset, and save the model."""
    seen = _given({"network": network, "image_size": image_size, "weights": weights and str(weights)})
    source = seen if get_method(method).card.inputs == "features" and network else None
    schedule = _given({"epochs": epochs, "learning_rate": learning_rate}) or None
    given = {} if source else seen | {"memory": memory and str(memory)}
    given |= {"n_frozen": n_frozen, "preset": preset, "device": device, "training": schedule}
    hasher = get_method(method).from_description(_checked(method, given | {"n_bits": bits, "seed": seed}))
    _train(hasher, data, protocol, seed, root, out, resume, source, memory)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _checked(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, all of them parameters of the method."""
    params = _given(options)
    unknown = params.keys() - get_method(method)().get_params().keys()
    if unknown:
        raise InvalidInput(f"{method} has no parameter {', '.join(sorted(unknown))}; leave it out.")
    return params


def _train(
    hasher: Any,  # noqa: ANN401 -- deep methods take more than others
    data: str,
    protocol: str | None,
    seed: int,
    root: Path | None,
    out: Path,
    resume: bool,
    source: dict[str, Any] | None,
    memory: Path | None,
) -> None:
    if (out / "model.json").exists():
        raise InvalidInput(f"{out} holds a model already; choose another folder or remove it.")
    dataset = load(data, root=root)
    split = get_protocol(protocol or dataset.protocol).split(dataset, seed)
    start = time.perf_counter()
    images = items(hasher, dataset, split.train, extractor_of(source, memory))
    _fit(hasher, images, dataset.labels.take(split.train), out / "checkpoints", resume)
    if int(os.environ.get("RANK", "0")) != 0:
        return
    about = {
        "dataset": dataset.name,
        "protocol": split.protocol.name,
        "seed": seed,
        "split": split.fingerprint,
        "n_train": len(split.train),
        "seconds": time.perf_counter() - start,
        "history": getattr(hasher, "history_", []),
        "versions": versions(),
        "features": source,
    }
    save_model(hasher, out, about)
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    n_train = len(split.train)
    typer.echo(f"{hasher.card.name}, {hasher.n_bits} bits, trained on {n_train:,} images of {dataset.name}: {out}")


def _fit(hasher: Any, images: Any, labels: Labels, checkpoints: Path, resume: bool) -> None:  # noqa: ANN401
    """Fit, with a progress bar and checkpoints where the method trains a network; together with torchrun's others."""
    if hasher.inputs != "images":
        hasher.fit(images, labels)
        return
    from ddsh.methods._distributed import joined

    processes, rank = (int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
    with joined(processes, rank), show.training() as on_step:
        hasher.fit(images, labels, checkpoints=checkpoints, resume=resume, on_step=on_step)


def tune(
    data: Data,
    method: Annotated[str, typer.Option(help="A deep method; see: ddsh methods.")] = "ddsh",
    bits: Annotated[int, typer.Option(help="Code length.")] = 32,
    network: Annotated[str | None, typer.Option(help="Network; the method's own if not given.")] = None,
    image_size: Annotated[int | None, typer.Option(help="Side of the images that the network sees.")] = None,
    n_frozen: FrozenStages = None,
    preset: Annotated[str | None, typer.Option(help="Setting of the method, such as paper.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images.")] = None,
    low: Annotated[float, typer.Option(help="Lowest learning rate.")] = 1e-6,
    high: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-2,
    steps: Annotated[int, typer.Option(help="How many rates between them.")] = 5,
    protocol: Annotated[str | None, typer.Option(help="How to split; the dataset's usual way if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the method.")] = 0,
    root: Root = None,
    memory: Memory = None,
) -> None:
    """Choose the learning rate on a validation part of the training images; the query set stays unseen."""
    from ddsh.experiment import rate_grid
    from ddsh.experiment import tune as tune_rate

    schedule = {"epochs": epochs} if epochs else None
    given = {"network": network, "image_size": image_size, "n_frozen": n_frozen, "memory": memory and str(memory)}
    params = _checked(method, given | {"preset": preset, "training": schedule, "n_bits": bits, "seed": seed})
    dataset = load(data, root=root)
    split = get_protocol(protocol or dataset.protocol).split(dataset, seed)
    with show.training() as on_step:
        rates = rate_grid(low, high, steps)
        best = tune_rate(method, params, dataset, split, rates, on_trial=show.trial, on_step=on_step)[0]
    typer.echo(f"Best on validation: --learning-rate {best.learning_rate:g}")


def encode(
    model: Model,
    images: Annotated[str, typer.Argument(help="A dataset's name, labelled images as for train, or any images.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    root: Root = None,
) -> None:
    """Turn images into codes: an .npz file with the codes, names and, where they are known, labels."""
    saved = load_model(model)
    with show.counting("Reading files") as on_progress:
        source, labels = _images_of(images, root, on_progress)
    rows = np.arange(len(source))
    with show.counting("Encoding") as on_progress:
        codes = encode_rows(saved.hasher, source, rows, on_progress, saved.extractor())
    names = np.array([source.images.name(row) for row in rows.tolist()])
    write_npz(out, codes.to_arrays() | {"names": names} | labels)
    if source.skipped:
        show.skipped(source.skipped)
    typer.echo(f"{len(codes):,} codes of {codes.n_bits} bits: {out}")


def _images_of(source: str, root: Path | None, on_progress: Callable[[int, int], None]) -> tuple[Dataset, Arrays]:
    """Return labelled images with their labels as arrays, or images of which nothing else is known."""
    if source in DATASETS or not is_unlabelled(Path(source)):
        dataset = load(source, root=root, on_progress=on_progress)
        return dataset, label_arrays(dataset.labels)
    images, skipped = load_unlabelled(Path(source), on_progress)
    nothing = as_labels(np.zeros((len(images), 2), np.uint8))
    return Dataset(Path(source).name, images, nothing, (), skipped=skipped), {}


def evaluate(
    model: Model,
    data: Data,
    protocol: Annotated[str | None, typer.Option(help="How to split; the model's if not given.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the split; the model's if not given.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Score a model on the query set of a dataset."""
    saved = load_model(model)
    dataset = load(data, root=root)
    is_same = saved.about.get("dataset") == dataset.name
    rule = get_protocol(protocol or (saved.about["protocol"] if is_same else dataset.protocol))
    split = rule.split(dataset, saved.about.get("seed", 0) if seed is None else seed)
    if is_same and saved.about["split"] != split.fingerprint:
        raise InvalidInput(
            "The model was trained on another split of this dataset, so its training images may be queries;"
            " leave out --protocol and --seed."
        )
    result = score_fitted(saved.hasher, dataset, split, extractor=saved.extractor())
    if json:
        show.as_json(result.to_dict())
    else:
        show.scores(result.scores)


def methods(
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/methods.md.")] = False,
) -> None:
    """List the methods."""
    cards = [get_method(name).card for name in METHODS]
    if json:
        show.as_json([vars(card) for card in cards])
    elif markdown:
        typer.echo(tables.methods_markdown(cards))
    else:
        show.methods(cards)
