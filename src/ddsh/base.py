"""What every hashing method is: a scikit-learn estimator that turns items into binary codes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
        if not 1 <= self.n_bits <= MAX_BITS:
            raise InvalidInput(f"n_bits must be 1 to {MAX_BITS}; got {self.n_bits}.")
        items = check_features(X)
        self._fit(items, self._check_labels(items, y))
        self.n_features_in_ = items.shape[1]
        return self

    def project(self, X: Any) -> Outputs:  # noqa: ANN401, N803
        """Return the real outputs whose signs are the code, shape (n, n_bits)."""
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted before it can encode; call fit first.")
        items = check_features(X)
        if items.shape[1] != self.n_features_in_:
            raise InvalidInput(f"Fitted on {self.n_features_in_} features, given {items.shape[1]}.")
        return self._project(items)

    def encode(self, X: Any) -> BinaryCodes:  # noqa: ANN401, N803
        """Return the binary codes of items: a bit is 1 where the output is above zero."""
        return BinaryCodes.from_outputs(self.project(X))

    @abstractmethod
    def _fit(self, features: NDArray[np.float64], labels: Labels | None) -> None:
        """Learn; set attributes that end in ``_``."""

    @abstractmethod
    def _project(self, features: NDArray[np.float64]) -> Outputs:
        """Return real outputs, shape (n, n_bits)."""

    def _check_labels(self, items: Sequence[Any] | NDArray[Any], y: LabelsLike | None) -> Labels | None:
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
