"""Commands that score models and codes."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ddsh.cli.options import Data, Device, Json, ModelFolder, NQuery, QueriesPerClass, Root

__all__ = ["evaluate", "score"]


def evaluate(
    model: ModelFolder,
    data: Data,
    protocol: Annotated[str | None, typer.Option(help="Protocol of the split; the model's by default.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the split; the model's by default.")] = None,
    queries_per_class: QueriesPerClass = None,
    n_query: NQuery = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Compute MAP on the first K items only; the protocol's by default.")
    ] = None,
    root: Root = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Score a trained model on the query set of a dataset."""
    from ddsh.cli.display import show_scores
    from ddsh.cli.progress import Progress
    from ddsh.datasets import get_protocol, load
    from ddsh.errors import DataError, InvalidInput
    from ddsh.evaluation import evaluate_fitted
    from ddsh.model import Model

    fitted = Model.load(model, device=device)
    with Progress("Reading files", "files") as progress:
        dataset = load(data, root=root, on_progress=progress.on_count)
    if len(dataset.unlabelled) == len(dataset):
        raise DataError(f"{data}: no image has a label, so nothing can be scored; label some of them.")
    about = fitted.about
    is_same = about.get("dataset") == dataset.name
    options: dict[str, Any] = {"query_per_class": queries_per_class, "n_query": n_query}
    is_changed = any(option is not None for option in (protocol, seed, *options.values()))
    if is_same and protocol is None and not any(options.values()):
        options = about.get("protocol_options", {})
    rule = get_protocol(protocol or (about["protocol"] if is_same else dataset.protocol)).with_options(**options)
    split = rule.split(dataset, about.get("seed", 0) if seed is None else seed)
    if is_same and about["split"] != split.fingerprint:
        advice = "leave out --protocol, --seed, --queries-per-class and --n-query"
        if not is_changed:
            advice = "its images or labels have changed since; train again, or evaluate on other images"
        raise InvalidInput(
            f"The model was trained on another split of this dataset, so its training images may be queries; {advice}."
        )
    with Progress("Evaluating"):
        result = evaluate_fitted(fitted, dataset, split, top_k=top_k)
    if json:
        typer.echo(result.to_json(), nl=False)
    else:
        show_scores(result.scores)


def score(
    query: Annotated[Path, typer.Argument(help="Codes and labels of the queries (.npz).")],
    database: Annotated[Path, typer.Argument(help="Codes and labels of the database (.npz).")],
    top_k: Annotated[int | None, typer.Option(help="Compute MAP on the first K items only.")] = None,
    ties: Annotated[
        Literal["expected", "stable"], typer.Option(help="Mean over all orders of ties, or order of the database.")
    ] = "expected",
    ap_convention: Annotated[
        Literal["retrieved", "min_k"],
        typer.Option(help="Divisor of AP at K: relevant items retrieved, or min(K, all)."),
    ] = "retrieved",
    precision_at: Annotated[list[int] | None, typer.Option(help="Rank for precision and recall; repeatable.")] = None,
    radius: Annotated[list[int] | None, typer.Option(help="Hamming radius for the success rate; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Score codes in .npz files, from any program.

    A file holds labels and an array of signs (-1 and 1), bits (0 and 1), real outputs, or the packed codes that ddsh
    encode writes.
    """
    from pydantic import TypeAdapter

    from ddsh.cli.display import print_json, show_scores
    from ddsh.evaluation import LabelledCodes, Scores
    from ddsh.evaluation import score as score_codes
    from ddsh.evaluation.scores import PRECISION_AT, RADII

    queries, items = LabelledCodes.load(query), LabelledCodes.load(database)
    scores = score_codes(
        queries.codes,
        items.codes,
        queries.labels,
        items.labels,
        top_k=top_k,
        ties=ties,
        ap_convention=ap_convention,
        precision_at=precision_at or PRECISION_AT,
        radii=radius or RADII,
    )
    if json:
        print_json(TypeAdapter(Scores).dump_python(scores.thinned(), mode="json"))
    else:
        show_scores(scores)
