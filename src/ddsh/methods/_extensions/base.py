"""Base classes of out-of-sample extensions."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods.base import Outputs, check_features
from ddsh.methods.training import TrainingStep

if TYPE_CHECKING:
    from ddsh.backbones import Backbone

__all__ = ["Arrays", "Extension", "Features", "FitOptions", "Learned", "Signs", "check_positive"]

Features: TypeAlias = NDArray[np.float64]
Signs: TypeAlias = NDArray[np.int8]
Arrays: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class FitOptions:
    """Checkpoints and progress of an extension that trains a network.

    Parameters
    ----------
    checkpoints : path, optional
        Folder for checkpoints.
    resume : bool
        Continue from the newest checkpoint, if any.
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
        """Number of features; None for images."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """Loss of every epoch, if a network was trained."""
        return []

    @abstractmethod
    def project(self, items: Any) -> Outputs:  # noqa: ANN401 -- features or images
        """Return real outputs, shape (n, n_bits); their signs are the codes."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return the state as named arrays, for :meth:`Extension.restore`."""


@dataclass(frozen=True)
class Extension(ABC):
    """Base class of models that learn to predict given codes.

    Subclasses are frozen dataclasses of parameters.
    """

    kind: ClassVar[str]
    inputs: ClassVar[Literal["features", "images"]] = "features"

    def check_items(self, items: Any) -> Any:  # noqa: ANN401 -- features or images
        """Return checked items, or raise."""
        return check_features(items)

    @abstractmethod
    def learn(self, items: Any, signs: Signs, *, seed: int, options: FitOptions) -> Learned:  # noqa: ANN401
        """Learn to predict the rows of `signs` (-1 and +1) from the items."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> Learned:
        """Return the fitted extension from the arrays of :meth:`Learned.to_arrays`."""

    def with_backbone(self, backbone: "Backbone") -> "Extension":
        """Return the extension with another backbone, if it takes images."""
        return self

    def adapted(self, labels: Labels) -> "Extension":
        """Return the extension with parameters for few items; itself if there are enough."""
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
