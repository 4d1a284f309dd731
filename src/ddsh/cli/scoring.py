"""Commands that score codes."""

from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli import show
from ddsh.evaluation import LabelledCodes
from ddsh.evaluation import score as score_codes
from ddsh.evaluation.metrics import APConvention
from ddsh.evaluation.scores import PRECISION_AT, RADII, Ties


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
