"""Choice of a learning rate on a validation part of the training set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddsh.datasets import Dataset, Split
from ddsh.errors import Diverged, InvalidInput
from ddsh.evaluation import evaluate_fitted
from ddsh.images import SomeImages
from ddsh.methods import DeepHasher, get_method
from ddsh.model import Model

__all__ = ["PAPER_RATES", "Trial", "rate_grid", "tune"]

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
    rates: Sequence[float] = PAPER_RATES,
    on_trial: Callable[[Trial], None] | None = None,
    on_step: Callable[[Any], None] | None = None,
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
    rates : sequence of float
        Learning rates to try.
    on_trial, on_step : callable, optional
        Called after each trial, and after each mini-batch.

    Returns
    -------
    list of Trial
        Trials, the best first.
    """
    if not rates or min(rates) <= 0:
        raise InvalidInput(f"Learning rates must be above 0; got {tuple(rates)}.")
    validation = split.validation(dataset)
    images, labels = SomeImages(dataset.images, validation.train), dataset.labels.take(validation.train)
    trials = []
    for rate in rates:
        hasher = get_method(method).from_description(params)
        if not isinstance(hasher, DeepHasher):
            raise InvalidInput(f"{method} does not train with a learning rate, so there is nothing to tune.")
        model = Model(hasher.set_params(training=hasher._schedule().scaled(float(rate))))
        try:
            model.fit(images, labels, on_step=on_step)
            trial = Trial(float(rate), evaluate_fitted(model, dataset, validation).map)
        except Diverged:
            trial = Trial(float(rate), 0.0)
        trials.append(trial)
        if on_trial:
            on_trial(trial)
    return sorted(trials, key=lambda trial: -trial.map)


def rate_grid(low: float, high: float, n_rates: int) -> list[float]:
    """Return learning rates between two bounds, evenly spaced on a log scale."""
    if not 0 < low <= high or n_rates < 1:
        raise InvalidInput(f"A range of learning rates is 0 < low <= high; got {low} to {high}, {n_rates} values.")
    return [float(rate) for rate in np.geomspace(low, high, n_rates)]
