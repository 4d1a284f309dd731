"""Choice of parameters on a held-out part of the training images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ddsh.errors import InvalidInput
from ddsh.evaluation import Result
from ddsh.experiment.runner import build_model
from ddsh.experiment.spec import MethodSpec, Spec
from ddsh.labels import Labels
from ddsh.methods.base import SearchRange
from ddsh.storage import atomic_write

__all__ = ["PAPER_RATES", "Trial", "rate_grid", "search", "try_rates", "write_settings"]

PAPER_RATES = (1e-6, 1e-2)
"""The range of learning rates that the paper searches."""

Changes = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """Validation score of one setting of a method.

    Parameters
    ----------
    row : MethodSpec
        The method with its parameters; a row of the experiment of the trials.
    changes : dict
        The parameters that differ from the first trial, such as ``{"training.learning_rate": 0.1}``.
    map : float
        Mean average precision on the validation parts, averaged over seeds and code lengths; 0 if a run failed, such
        as a training that diverged.
    error : float
        Standard error of `map` that is due to the choice of queries.
    """

    row: MethodSpec
    changes: Changes
    map: float
    error: float


Run = Callable[[MethodSpec], Sequence[Result] | None]
"""Executes all runs of a row; returns their results, or None if one failed."""


def search(first: MethodSpec, spec: Spec, labels: Labels, budget: int, run: Run) -> Iterator[Trial]:
    """Search the parameters of a method, one after the other, from its own setting on.

    A step that improves the score is repeated in the same direction, so that the range grows while the best value lies
    at its end; otherwise the next parameter follows. The search ends after `budget` trials, or when no step helps.

    Parameters
    ----------
    first : MethodSpec
        The setting to start from.
    spec : Spec
        The experiment of the trials.
    labels : Labels
        Labels of the dataset.
    budget : int
        Number of trials.
    run : callable
        Executes the runs of a trial.

    Yields
    ------
    Trial
        Each trial after it ended.
    """
    method = build_model(next(spec.replace(methods=(first,)).runs()), spec).require_method()
    own, space = method.describe_params(), method.search_space(labels)
    if not space:
        raise InvalidInput(f"{first.label} does not train a network, so there is nothing to tune.")
    best = _trial(first, {}, run)
    yield best
    tried = {first.label}
    helped = True
    while helped:
        helped = False
        for name, step in ((name, step) for name, steps in space.items() for step in _steps(steps)):
            while len(tried) < budget:
                value = step(best.changes.get(name, _value(own, name)))
                changes = {key: old for key, old in best.changes.items() if key != name}
                if value != _value(own, name):
                    changes[name] = value
                row = _changed(first, changes)
                if row.label in tried:
                    break
                tried.add(row.label)
                trial = _trial(row, changes, run)
                yield trial
                if trial.map <= best.map:
                    break
                best, helped = trial, True
        helped = helped and len(tried) < budget


def try_rates(first: MethodSpec, rates: Sequence[float], run: Run) -> Iterator[Trial]:
    """Try given learning rates; see :func:`search`."""
    for rate in rates:
        changes = {"training.learning_rate": rate}
        yield _trial(_changed(first, changes), changes, run)


def rate_grid(low: float, high: float, n_rates: int) -> list[float]:
    """Return learning rates between two bounds, evenly spaced on a log scale."""
    if not 0 < low <= high or n_rates < 1:
        raise InvalidInput(f"A range of learning rates is 0 < low <= high; got {low} to {high}, {n_rates} values.")
    return [float(f"{rate:.3g}") for rate in np.geomspace(low, high, n_rates)]


def write_settings(path: Path, spec: Spec, trials: Mapping[str, Sequence[Trial]]) -> None:
    """Write the best setting of each method as rows of an experiment, with the budget in a comment.

    Parameters
    ----------
    path : Path
        The TOML file to write.
    spec : Spec
        The experiment of the trials.
    trials : mapping of str to sequence of Trial
        The trials of each method.
    """
    lines = [f"# Chosen on {spec.protocol}, {len(spec.seeds)} seeds, {' and '.join(map(str, spec.bits))} bits."]
    for label, tried in trials.items():
        best = max(tried, key=lambda trial: trial.map)
        row = best.row.params | ({"method": best.row.method} if best.row.method != label else {})
        lines.append(
            f"\n# Best of {len(tried)} trials: validation MAP {best.map:.4f}; its own setting {tried[0].map:.4f}."
        )
        lines.append(tomli_w.dumps({"methods": {label: row}}).strip() or f"[methods.{label}]")
    with atomic_write(path) as file:
        file.write("\n".join([*lines, ""]).encode())


def _steps(steps: SearchRange) -> list[Callable[[Any], Any]]:
    """Return the steps of a parameter: up and down by a factor, or to each choice."""

    def chosen(choice: Any) -> Callable[[Any], Any]:  # noqa: ANN401 -- any parameter
        """Return a step to one value."""
        return lambda _: choice

    def scaled(factor: float) -> Callable[[Any], Any]:
        """Return a step by a factor; whole numbers stay whole, others keep two digits."""
        return lambda value: max(1, round(value * factor)) if isinstance(value, int) else float(f"{value * factor:.2g}")

    return [chosen(choice) for choice in steps] if isinstance(steps, tuple) else [scaled(steps), scaled(1 / steps)]


def _value(params: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 -- any parameter
    for part in name.split("."):
        params = params[part]
    return params


def _changed(first: MethodSpec, changes: Changes) -> MethodSpec:
    """Return a row with other parameters, and a label that names them."""
    params = dict(first.params)
    for name, value in changes.items():
        *path, last = name.split(".")
        table = params
        for part in path:
            inner = table.get(part) or {}
            table[part] = dict(inner) if isinstance(inner, Mapping) else {"kind": inner}
            table = table[part]
        table[last] = value
    words = [f"{name.rpartition('.')[2]}-{_short(value)}" for name, value in sorted(changes.items())]
    return first.model_copy(update={"label": "-".join([first.label, *words]), "params": params})


def _short(value: Any) -> str:  # noqa: ANN401 -- any parameter
    return f"{value:g}" if isinstance(value, float) else str(value)


def _trial(row: MethodSpec, changes: Changes, run: Run) -> Trial:
    results = run(row)
    if not results:
        return Trial(row, changes, 0.0, 0.0)
    scores = [one.scores.average_precision for one in results if one.scores.average_precision is not None]
    error = np.sqrt(sum(one.var() / len(one) for one in scores)) / len(results)
    return Trial(row, changes, float(np.mean([one.map for one in results])), float(error))
