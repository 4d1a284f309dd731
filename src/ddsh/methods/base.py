"""What every hashing method is: a scikit-learn estimator that turns items into binary codes."""

from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ddsh.codes import MAX_BITS, BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.labels import Labels, LabelsLike, as_labels

Outputs: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class MethodCard:
    """What is known of a method before it is run; the docs and the command line list methods from it.

    Parameters
    ----------
    name : str
        What it is called on the command line.
    title : str
        Its full name.
    authors, venue : str
        Who published it, and where.
    year : int
        When.
    supervision : {"none", "unsupervised", "supervised"}
        Data-independent, learned from items alone, or from their labels.
    inputs : {"features", "images"}
        What it takes.
    deviations : tuple of str
        Where this version differs from the paper.
    """

    name: str
    title: str
    authors: str
    venue: str
    year: int
    supervision: Literal["none", "unsupervised", "supervised"]
    inputs: Literal["features", "images"]
    deviations: tuple[str, ...] = ()


class Hasher(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A method that learns binary codes.

    Subclasses have a `card`, keep their parameters in ``__init__`` without logic, and write `_fit` and `_project`;
    what they learn ends in ``_``.
    """

    card: ClassVar[MethodCard]
    n_bits: int

    @property
    def inputs(self) -> Literal["features", "images"]:
        """What it takes."""
        return self.card.inputs

    def fit(self, X: Any, y: LabelsLike | None = None) -> Self:  # noqa: ANN401, N803 -- scikit-learn's name
        """Learn from items `X` and, where the method is supervised, their labels `y`.

        Parameters
        ----------
        X : matrix of features (n, d)
            The training items.
        y : Labels, vector, or 0/1 matrix, optional
            Their labels.

        Returns
        -------
        Self
            The fitted method; fitting again forgets what was learned before.
        """
        self._check_parameters()
        items = self._check_items(X)
        self._fit(items, self._check_labels(items, y))
        self.n_features_in_ = items.shape[1]
        return self

    def project(self, X: Any) -> Outputs:  # noqa: ANN401, N803
        """Return the real outputs whose signs are the code, shape (n, n_bits)."""
        if not self._is_fitted():
            raise NotFittedError(f"{type(self).__name__} must be fitted before it can encode; call fit first.")
        items = self._check_items(X)
        width = getattr(self, "n_features_in_", None)
        if width is not None and items.shape[1] != width:
            raise InvalidInput(f"Fitted on {width} features, given {items.shape[1]}.")
        return self._project(items)

    def encode(self, X: Any) -> BinaryCodes:  # noqa: ANN401, N803
        """Return the binary codes of items: a bit is 1 where the output is above zero."""
        return BinaryCodes.from_outputs(self.project(X))

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Return all that was learned, as named arrays."""
        if not self._is_fitted():
            raise NotFittedError(f"{type(self).__name__} must be fitted before it can be saved; call fit first.")
        learned = {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}
        return {name: np.asarray(value) for name, value in learned.items()}

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Take back what :meth:`get_weights` returned."""
        for name, value in weights.items():
            setattr(self, name, value if value.ndim else value.item())

    def describe_params(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        params: dict[str, Any] = self.get_params()
        return params

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Make the method again from :meth:`describe_params`."""
        return cls(**params)

    @abstractmethod
    def _fit(self, items: Any, labels: Labels | None) -> None:  # noqa: ANN401
        """Learn; set attributes that end in ``_``."""

    @abstractmethod
    def _project(self, items: Any) -> Outputs:  # noqa: ANN401
        """Return real outputs, shape (n, n_bits)."""

    def _is_fitted(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _check_parameters(self) -> None:
        if not 1 <= self.n_bits <= MAX_BITS:
            raise InvalidInput(f"n_bits must be 1 to {MAX_BITS}; got {self.n_bits}.")

    def _check_items(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return `X` as the method takes it, or raise."""
        return check_features(X)

    def _check_labels(self, items: Sized, y: LabelsLike | None) -> Labels | None:
        if self.card.supervision != "supervised":
            return None
        if y is None:
            raise InvalidInput(f"{self.card.name} learns from labels: give fit(X, y).")
        labels = as_labels(y)
        if len(labels) != len(items):
            raise InvalidInput(f"{len(items)} items but {len(labels)} labels; give one label row per item.")
        return labels


def check_features(X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803
    """Return `X` as a finite matrix of float64, or raise."""
    features = np.asarray(X)
    if features.ndim != 2 or features.dtype.kind not in "biuf" or len(features) == 0:
        raise InvalidInput(
            f"Features must be a numeric matrix (n, d) with n >= 1; got {features.dtype} of shape {features.shape}."
        )
    features = features.astype(np.float64, copy=False)
    if not np.isfinite(features).all():
        raise InvalidInput("Features hold NaN or infinity; remove or replace them first.")
    return features
