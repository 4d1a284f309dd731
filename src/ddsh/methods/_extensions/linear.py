"""Extension ``linear``: ridge regression to the signs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from ddsh.methods._extensions.base import Arrays, Extension, Features, FitOptions, Learned, Signs, check_positive
from ddsh.methods.base import Outputs

__all__ = ["Linear", "LinearMap"]


@dataclass(frozen=True)
class Linear(Extension):
    """Ridge regression to the signs.

    Parameters
    ----------
    ridge : float
        Weight of the penalty, in units of the features' mean variance times the number of items.
    """

    kind = "linear"
    ridge: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "ridge")

    def learn(self, items: Features, signs: Signs, *, seed: int, options: FitOptions) -> "LinearMap":
        """Solve the regression."""
        return LinearMap.fit(items, signs, self.ridge)

    def restore(self, arrays: Arrays) -> "LinearMap":
        """Return the linear map from its arrays."""
        return LinearMap(**arrays)


@dataclass(frozen=True)
class LinearMap(Learned):
    """An affine function, (x - mean) weights + offset.

    Parameters
    ----------
    mean : ndarray, shape (d,)
        Mean of the training features.
    weights : ndarray, shape (d, n_bits)
        Weights.
    offset : ndarray, shape (n_bits,)
        Mean of the training signs.
    """

    mean: Features
    weights: Features
    offset: Features

    @classmethod
    def fit(cls, features: Features, signs: Signs, ridge: float) -> Self:
        """Return the map whose weights W minimise |Y - XW|^2 + penalty |W|^2, X and Y centred."""
        mean, offset = features.mean(axis=0), signs.mean(axis=0)
        X, Y = features - mean, signs - offset
        n, d = X.shape
        # If all features are constant, any penalty gives W = 0.
        penalty = ridge * (float(np.square(X).sum()) / d or 1.0)
        if n < d:  # the same W, from a smaller matrix
            weights: Features = X.T @ linalg.solve(X @ X.T + penalty * np.eye(n), Y, assume_a="pos")
        else:
            weights = linalg.solve(X.T @ X + penalty * np.eye(d), X.T @ Y, assume_a="pos")
        return cls(mean, weights, offset)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.mean)

    def project(self, items: Features) -> Outputs:
        """Return the values of the function."""
        return items @ self.weights + self.constant

    def to_arrays(self) -> Arrays:
        """Return the three arrays."""
        return {"mean": self.mean, "weights": self.weights, "offset": self.offset}

    @cached_property
    def constant(self) -> Features:
        """Constant term, offset - mean @ weights."""
        constant: Features = self.offset - self.mean @ self.weights
        return constant
