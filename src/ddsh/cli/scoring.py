"""Commands that score codes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ddsh.cli import show
from ddsh.datasets import get_protocol, load
from ddsh.evaluation import LabelledCodes, evaluate
from ddsh.evaluation import score as score_codes
from ddsh.evaluation.metrics import APConvention
from ddsh.evaluation.scores import PRECISION_AT, RADII, Ties
from ddsh.methods import get_method


def score(
    query: Annotated[Path, typer.Argument(help="Codes and labels of the queries (.npz).")],
    database: Annotated[Path, typer.Argument(help="Codes and labels of the database (.npz).")],
    top_k: Annotated[int | None, typer.Option(help="MAP looks at the first K items only.")] = None,
    ties: Annotated[Ties, typer.Option(help="Mean over all orders of ties, or database order.")] = "expected",
    ap_convention: Annotated[APConvention, typer.Option(help="What AP at K is divided by.")] = "retrieved",
    precision_at: Annotated[list[int] | None, typer.Option(help="Rank for precision and recall; repeatable.")] = None,
    radius: Annotated[list[int] | None, typer.Option(help="Hamming radius for the success rate; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Score codes that came from anywhere: .npz files with labels and signs, bits, outputs or ddsh's packed codes."""
    ours, theirs = LabelledCodes.load(query), LabelledCodes.load(database)
    found = score_codes(
        ours.codes, theirs.codes, ours.labels, theirs.labels,
        top_k=top_k, ties=ties, ap_convention=ap_convention,
        precision_at=precision_at or PRECISION_AT, radii=radius or RADII,
    )  # fmt: skip
    if json:
        show.as_json(found.to_dict())
    else:
        show.scores(found)


def demo(
    bits: Annotated[int, typer.Option(help="Code length.")] = 32,
    passes: Annotated[int, typer.Option(min=1, help="Passes over the 5,000 training images.")] = 40,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Train DDSH on the sample that comes with ddsh, and show its scores beside a random projection's."""
    dataset = load("sample")
    protocol = get_protocol(dataset.protocol)
    results = [evaluate(get_method("lsh")(n_bits=bits), dataset, protocol, seed=0)]
    setting = {"n_bits": bits, "preset": "scratch", "network": "small-grey", "training": {"passes": passes}}
    hasher = get_method("ddsh").from_description(setting)
    with show.training() as on_step:
        fit = partial(cast("Callable[..., Any]", hasher.fit), on_step=on_step)
        results.append(evaluate(hasher, dataset, protocol, seed=0, fit=fit))
    if json:
        show.as_json([result.to_dict() for result in results])
    else:
        show.results(results)
