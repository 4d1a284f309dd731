"""Training schedules and progress of deep methods."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ddsh.errors import InvalidInput

__all__ = ["FEWEST_BATCHES", "SEARCHED", "Training", "TrainingStep"]

_SMALLEST_BATCH = 16
_FEWEST_STEPS = 30

FEWEST_BATCHES = 4
"""Mini-batches in an epoch that are enough for most methods; see :meth:`Training.for_few`."""

SEARCHED: Mapping[str, float] = {"learning_rate": 3.0, "batch_size": 0.5, "head_factor": 2.0}
"""Fields of :class:`Training` that ``ddsh tune`` varies, and the factors of its steps."""


@dataclass(frozen=True)
class Training:
    """Training schedule of a network.

    Parameters
    ----------
    epochs : int
        Number of epochs.
    learning_rate : float
        Initial learning rate.
    final_lr : float, optional
        Learning rate at the end; it decays geometrically. Constant by default.
    batch_size : int
        Images in a mini-batch.
    head_factor : float
        Factor on the learning rate of the hash layer.
    momentum, weight_decay : float
        Of stochastic gradient descent; the decay applies to weights and biases.
    flip : bool
        Mirror half of the images at random.
    crop : int
        Shift images at random by up to this many pixels.
    checkpoint_seconds : float
        Maximum time between checkpoints.
    standardise : bool
        Centre the features that the hash layer sees and scale them to unit variance, by the statistics of the training
        images before training. At the end the weights of the layer absorb both.
    """

    epochs: int
    learning_rate: float
    final_lr: float | None = None
    batch_size: int = 128
    head_factor: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 5e-4
    flip: bool = False
    crop: int = 0
    checkpoint_seconds: float = 180.0
    standardise: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "head_factor"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be above 0; got {getattr(self, name)}.")
        if self.final_lr is not None and not self.final_lr > 0:
            raise InvalidInput(
                f"final_lr must be above 0, because the rate decays geometrically; got {self.final_lr}."
                " Leave it out for a constant rate."
            )
        for name in ("momentum", "weight_decay", "crop"):
            if not getattr(self, name) >= 0:
                raise InvalidInput(f"{name} must be 0 or more; got {getattr(self, name)}.")

    def scaled(self, learning_rate: float) -> "Training":
        """Return a copy with another learning rate; the final rate is scaled with it."""
        final = self.final_lr and self.final_lr * learning_rate / self.learning_rate
        return replace(self, learning_rate=learning_rate, final_lr=final)

    def for_few(self, n_items: int, given: Collection[str] = (), fewest_batches: int = FEWEST_BATCHES) -> "Training":
        """Return a schedule for few images; the same one if they make enough mini-batches.

        Mini-batches are halved, down to 16 images, the learning rate falls in proportion, and there are as many epochs
        as make 30 steps.

        Parameters
        ----------
        n_items : int
            Number of training images.
        given : collection of str
            Fields that stay as they are.
        fewest_batches : int
            Number of mini-batches that is enough.
        """
        size, epochs = self.batch_size, self.epochs
        if n_items >= fewest_batches * size:
            return self
        while "batch_size" not in given and n_items < fewest_batches * size and size >= 2 * _SMALLEST_BATCH:
            size //= 2
        if "epochs" not in given:
            epochs = max(epochs, math.ceil(_FEWEST_STEPS / math.ceil(n_items / size)))
        suited = replace(self, batch_size=size, epochs=epochs)
        if "learning_rate" in given:
            return suited
        return suited.scaled(self.learning_rate * size / self.batch_size)

    def rate(self, progress: float) -> float:
        """Return the learning rate after this fraction of the training."""
        if self.final_lr is None:
            return self.learning_rate
        return float(self.learning_rate * (self.final_lr / self.learning_rate) ** progress)


@dataclass(frozen=True)
class TrainingStep:
    """Progress of a training run after a mini-batch.

    Parameters
    ----------
    done, total : int
        Mini-batches done, and in total.
    epoch, epochs : int
        Current epoch, from 1, and number of epochs.
    loss : float
        Mean loss of this epoch so far.
    objective : float or None
        The method's objective, if it has one.
    bits_per_second : float
        Bits of code computed per second.
    seconds_left : float
        Estimated remaining time.
    """

    done: int
    total: int
    epoch: int
    epochs: int
    loss: float
    objective: float | None
    bits_per_second: float
    seconds_left: float
