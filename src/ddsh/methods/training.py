"""Training schedules and progress of deep methods."""

from dataclasses import dataclass, replace

from ddsh.errors import InvalidInput

__all__ = ["Training", "TrainingStep"]


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Parameters
    ----------
    epochs : int
        Number of epochs.
    learning_rate : float
        At the start.
    final_lr : float, optional
        At the end; in between the rate falls geometrically. Constant if not given.
    batch_size : int
        Images in a mini-batch.
    head_factor : float
        The hash layer learns this much faster than the rest.
    momentum, weight_decay : float
        Of stochastic gradient descent; weights and biases decay.
    flip : bool
        Mirror half of the images.
    crop : int
        Shift images by up to this many pixels.
    checkpoint_seconds : float
        Write a checkpoint at least this often (where there is a folder for them).
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

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "head_factor"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be above 0; got {getattr(self, name)}.")
        for name in ("momentum", "weight_decay", "crop", "final_lr"):
            if getattr(self, name) is not None and not getattr(self, name) >= 0:
                raise InvalidInput(f"{name} must be 0 or more; got {getattr(self, name)}.")

    def scaled(self, learning_rate: float) -> "Training":
        """Return the same training with another learning rate; the final rate keeps its ratio to it."""
        final = self.final_lr and self.final_lr * learning_rate / self.learning_rate
        return replace(self, learning_rate=learning_rate, final_lr=final)

    def rate(self, progress: float) -> float:
        """Return the learning rate when this share of the training is done."""
        if self.final_lr is None:
            return self.learning_rate
        return float(self.learning_rate * (self.final_lr / self.learning_rate) ** progress)


@dataclass(frozen=True)
class TrainingStep:
    """Progress of a training run after a mini-batch.

    Parameters
    ----------
    done, total : int
        Mini-batches.
    epoch, epochs : int
        Epochs; the first is 1.
    loss : float
        Mean of this epoch so far.
    objective : float or None
        The method's own objective, where it has one.
    bits_per_second : float
        Bits of code computed per second.
    seconds_left : float
        Estimate.
    """

    done: int
    total: int
    epoch: int
    epochs: int
    loss: float
    objective: float | None
    bits_per_second: float
    seconds_left: float
