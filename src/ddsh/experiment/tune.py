"""Choose a learning rate on a validation part of the training images; the query set is never touched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddsh.datasets import Dataset, Split
from ddsh.errors import Diverged, InvalidInput
from ddsh.evaluation import score_fitted
from ddsh.evaluation.results import items
from ddsh.methods import get_method

PAPER_RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""The range that the paper searches."""


@dataclass(frozen=True)
class Trial:
    """What one learning rate brought.

    Parameters
    ----------
    learning_rate : float
        At the start; the final rate keeps its ratio to it.
    map : float
        On the validation part; 0 if training diverged.
    """

    learning_rate: float
    map: float


def tune(
    method: str,
    params: dict[str, Any],
    dataset: Dataset,
    split: Split,
    rates: Sequence[float] = PAPER_RATES,
    on_trial: Callable[[Trial], None] | None = None,
    on_step: Callable[[Any], None] | None = None,
) -> list[Trial]:
    """Train with each learning rate on part of the training images and score it on the rest of them.

    Parameters
    ----------
    method : str
        A deep method.
    params : dict
        Its parameters, as plain values; those of the training go under ``training``.
    dataset : Dataset
        The images.
    split : Split
        Only its training images are used.
    rates : sequence of float
        The learning rates.
    on_trial, on_step : callable, optional
        Told of each trial, and of each mini-batch.

    Returns
    -------
    list of Trial
        The best first.
    """
    if not rates or min(rates) <= 0:
        raise InvalidInput(f"Learning rates must be above 0; got {tuple(rates)}.")
    validation = split.validation(dataset)
    trials = []
    for rate in rates:
        trial = Trial(float(rate), _score(method, params, rate, dataset, validation, on_step))
        trials.append(trial)
        if on_trial:
            on_trial(trial)
    return sorted(trials, key=lambda trial: -trial.map)


def rate_grid(low: float, high: float, n_rates: int) -> list[float]:
    """Return rates between two bounds, evenly spaced in their logarithm."""
    if not 0 < low <= high or n_rates < 1:
        raise InvalidInput(f"A range of learning rates is 0 < low <= high; got {low} to {high}, {n_rates} values.")
    return [float(rate) for rate in np.geomspace(low, high, n_rates)]


def _score(
    method: str,
    params: dict[str, Any],
    rate: float,
    dataset: Dataset,
    split: Split,
    on_step: Any,  # noqa: ANN401
) -> float:
    hasher: Any = get_method(method).from_description(params)
    if hasher.inputs != "images":
        raise InvalidInput(f"{method} does not train with a learning rate; there is nothing to tune.")
    schedule = hasher._schedule().scaled(rate)
    hasher.set_params(training=schedule)
    try:
        hasher.fit(items(hasher, dataset, split.train), dataset.labels.take(split.train), on_step=on_step)
    except Diverged:
        return 0.0
    return score_fitted(hasher, dataset, split).scores.map
