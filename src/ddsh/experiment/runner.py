"""Run what is missing of an experiment, one result file after the other."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ddsh.base import Hasher
from ddsh.datasets import Dataset, get_protocol
from ddsh.evaluation import evaluate
from ddsh.experiment.spec import Run, Spec
from ddsh.methods import get_method
from ddsh.persistence import atomic_write


def run(
    spec: Spec,
    dataset: Dataset,
    results: Path,
    *,
    force: bool = False,
    on_run: Callable[[Run, Path, bool], None] | None = None,
    on_step: Callable[[Any], None] | None = None,
) -> list[Path]:
    """Make every result that is not there yet; each is written whole, so an interrupted experiment goes on.

    Parameters
    ----------
    spec : Spec
        The experiment.
    dataset : Dataset
        Its dataset.
    results : path
        The results folder; the experiment has a folder of its own in it.
    force : bool
        Make results again that are there.
    on_run : callable, optional
        Told of each run before it starts: the run, its file, and whether it is there already.
    on_step : callable, optional
        Told of each mini-batch of a deep method.

    Returns
    -------
    list of Path
        The files that were written.
    """
    written = []
    for one in spec.runs():
        path = results / spec.name / one.file_name
        is_there = path.exists() and not force
        if on_run:
            on_run(one, path, is_there)
        if not is_there:
            checkpoints = path.with_suffix(".checkpoints")
            _write(path, _evaluate(one, spec, dataset, checkpoints, on_step))
            shutil.rmtree(checkpoints, ignore_errors=True)
            written.append(path)
    return written


def _evaluate(
    one: Run, spec: Spec, dataset: Dataset, checkpoints: Path, on_step: Callable[[Any], None] | None
) -> dict[str, Any]:
    params = {"n_bits": one.n_bits, "seed": one.seed} | one.params
    hasher: Hasher = get_method(one.method).from_description(params)
    fit: Callable[..., Any] = hasher.fit
    if hasher.card.inputs == "images":
        fit = partial(fit, checkpoints=checkpoints, resume=True, on_step=on_step)
    result = evaluate(hasher, dataset, get_protocol(spec.protocol), one.seed, fit=fit).to_dict()
    return {"experiment": spec.name, "label": one.label} | result


def _write(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
