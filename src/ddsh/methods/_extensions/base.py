"""Base classes of out-of-sample extensions."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.methods.base import Outputs, check_features
from ddsh.methods.training import TrainingStep

if TYPE_CHECKING:
    from ddsh.backbones import Backbone

Features: TypeAlias = NDArray[np.float64]
Signs: TypeAlias = NDArray[np.int8]
Arrays: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class FitOptions:
    """Checkpoints and progress of an extension that trains a network; others ignore them.

    Parameters
    ----------
    checkpoints : path, optional
        Folder for checkpoints.
    resume : bool
        Continue from the newest of them.
    on_step : callable, optional
        Called after each mini-batch.
    """

    checkpoints: str | os.PathLike[str] | None = None
    resume: bool = False
    on_step: Callable[[TrainingStep], None] | None = None


class Learned(ABC):
    """A fitted extension."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The width of the features it takes; None where it takes images."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """Loss of every epoch, where a network was trained."""
        return []

    @abstractmethod
    def project(self, items: Any) -> Outputs:  # noqa: ANN401 -- features or images
        """Return real outputs whose signs are the code, shape (n, n_bits)."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return all of it as named arrays, which the extension's ``restore`` takes back."""


@dataclass(frozen=True)
class Extension(ABC):
    """Learns to predict given codes of training items for new ones.

    Subclasses are frozen dataclasses of parameters.
    """

    kind: ClassVar[str]
    inputs: ClassVar[Literal["features", "images"]] = "features"

    def check_items(self, items: Any) -> Any:  # noqa: ANN401 -- whatever the caller calls items
        """Return items as the extension takes them, or raise."""
        return check_features(items)

    @abstractmethod
    def learn(self, items: Any, signs: Signs, *, seed: int, options: FitOptions) -> Learned:  # noqa: ANN401
        """Learn to give each item its row of -1 and +1 in `signs`."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> Learned:
        """Restore the arrays of :meth:`Learned.to_arrays`."""

    def with_backbone(self, backbone: "Backbone") -> "Extension":
        """Return the extension with another backbone, or as it is where it takes features."""
        return self

    @property
    def trained_backbone(self) -> "Backbone | None":
        """The backbone that the extension trains, or None if it takes features."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return kind and parameters as plain JSON, without a backbone."""
        return {"kind": self.kind} | asdict(self)

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Build the extension from plain values."""
        return cls(**params)


def check_positive(parameters: Extension, *names: str) -> None:
    """Raise if one of these parameters is not above 0."""
    for name in names:
        if not getattr(parameters, name) > 0:
            raise InvalidInput(f"{name} must be above 0; got {getattr(parameters, name)}.")
