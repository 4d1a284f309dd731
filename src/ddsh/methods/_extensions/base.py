"""What every extension has, and what it has learned."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.methods.base import Outputs, check_features
from ddsh.methods.training import TrainingStep

Features: TypeAlias = NDArray[np.float64]
Signs: TypeAlias = NDArray[np.int8]
Arrays: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Progress:
    """What an extension that trains a network does meanwhile; the others have no use for it.

    Parameters
    ----------
    checkpoints : path, optional
        Folder for checkpoints.
    resume : bool
        Go on from the newest of them.
    on_step : callable, optional
        Told of each mini-batch.
    """

    checkpoints: Path | None = None
    resume: bool = False
    on_step: Callable[[TrainingStep], None] | None = None


class Learned(ABC):
    """What an extension has learned."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The width of the features it takes; None where it takes images."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """What each pass of a training brought."""
        return []

    @abstractmethod
    def project(self, items: Any) -> Outputs:  # noqa: ANN401 -- features or images
        """Return real outputs whose signs are the code, shape (n, n_bits)."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return all of it as named arrays, which the extension's ``restore`` takes back."""


@dataclass(frozen=True)
class Extension(ABC):
    """What learns given codes of training items, so that it can give codes to new ones.

    Subclasses are frozen dataclasses of parameters.
    """

    kind: ClassVar[str]
    inputs: ClassVar[Literal["features", "images"]] = "features"

    def check_items(self, items: Any) -> Any:  # noqa: ANN401 -- whatever the caller calls items
        """Return items as the extension takes them, or raise."""
        return check_features(items)

    @abstractmethod
    def learn(self, items: Any, signs: Signs, *, seed: int, progress: Progress) -> Learned:  # noqa: ANN401
        """Learn to give each item its row of -1 and +1 in `signs`."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> Learned:
        """Take back what :meth:`Learned.to_arrays` returned."""

    def describe(self) -> dict[str, Any]:
        """Return kind and parameters as plain JSON."""
        return {"kind": self.kind} | asdict(self)

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Make the extension from its parameters as plain values."""
        return cls(**params)


def check_positive(parameters: Extension, *names: str) -> None:
    """Raise if one of these parameters is not above 0."""
    for name in names:
        if not getattr(parameters, name) > 0:
            raise InvalidInput(f"{name} must be above 0; got {getattr(parameters, name)}.")
