"""Choice of a learning rate on a validation part of the training set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ddsh.datasets import Dataset, Split
from ddsh.errors import Diverged, InvalidInput
from ddsh.evaluation import evaluate_fitted
from ddsh.images import SomeImages
from ddsh.methods import DeepHasher, get_method
from ddsh.model import Model

__all__ = ["PAPER_RATES", "Trial", "rate_grid", "rates_around", "tune"]

PAPER_RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Learning rates that the paper searches."""


@dataclass(frozen=True)
class Trial:
    """Validation score of one learning rate.

    Parameters
    ----------
    learning_rate : float
        Initial learning rate; the final rate is scaled with it.
    map : float
        Mean average precision on the validation part; 0 if training diverged.
    """

    learning_rate: float
    map: float


def tune(
    method: str,
    params: dict[str, Any],
    dataset: Dataset,
    split: Split,
    rates: Sequence[float] | None = None,
    on_trial: Callable[[Trial], None] | None = None,
    on_step: Callable[[Any], None] | None = None,
    n_folds: int = 1,
) -> list[Trial]:
    """Train with each learning rate, and score it on a validation part.

    Parameters
    ----------
    method : str
        Name of a deep method.
    params : dict
        Its parameters, as plain values; those of the training schedule under ``training``.
    dataset : Dataset
        The images.
    split : Split
        The split; only its training images are used.
    rates : sequence of float, optional
        Learning rates to try; by default :func:`rates_around` the method's own.
    on_trial, on_step : callable, optional
        Called after each trial, and after each mini-batch.
    n_folds : int
        1 holds out one part of the training images; more is cross-validation, as in the paper.

    Returns
    -------
    list of Trial
        Trials, the best first.
    """
    hasher = get_method(method).from_description(params)
    if not isinstance(hasher, DeepHasher):
        raise InvalidInput(f"{method} does not train with a learning rate, so there is nothing to tune.")
    chosen = rates_around(hasher._schedule().learning_rate) if rates is None else rates
    if not chosen or min(chosen) <= 0:
        raise InvalidInput(f"Learning rates must be above 0; got {tuple(chosen)}.")
    parts = [split.validation(dataset)] if n_folds == 1 else split.folds(dataset, n_folds)
    trials = []
    for rate in map(float, chosen):
        scores = []
        for part in parts:
            model = Model(clone(hasher).set_params(training=hasher._schedule().scaled(rate)))
            try:
                model.fit(SomeImages(dataset.images, part.train), dataset.labels.take(part.train), on_step=on_step)
                scores.append(evaluate_fitted(model, dataset, part).map)
            except Diverged:
                scores.append(0.0)
        trials.append(Trial(rate, float(np.mean(scores))))
        if on_trial:
            on_trial(trials[-1])
    return sorted(trials, key=lambda trial: -trial.map)


def rates_around(learning_rate: float, n_rates: int = 5) -> list[float]:
    """Return learning rates from a tenth to ten times a method's own, evenly spaced on a log scale."""
    return rate_grid(learning_rate / 10, learning_rate * 10, n_rates)


def rate_grid(low: float, high: float, n_rates: int) -> list[float]:
    """Return learning rates between two bounds, evenly spaced on a log scale."""
    if not 0 < low <= high or n_rates < 1:
        raise InvalidInput(f"A range of learning rates is 0 < low <= high; got {low} to {high}, {n_rates} values.")
    return [float(rate) for rate in np.geomspace(low, high, n_rates)]
