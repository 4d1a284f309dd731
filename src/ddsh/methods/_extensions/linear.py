"""A linear function for each bit."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from ddsh.methods._extensions.base import Arrays, Extension, Features, FitOptions, Learned, Signs, check_positive
from ddsh.methods.base import Outputs


@dataclass(frozen=True)
class Linear(Extension):
    """A linear function for each bit, by ridge regression to the signs.

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
        """Take back a linear map."""
        return LinearMap(**arrays)


@dataclass(frozen=True)
class LinearMap(Learned):
    """An affine function, (x - mean) weights + offset.

    Parameters
    ----------
    mean : ndarray, shape (d,)
        Of the training features.
    weights : ndarray, shape (d, n_bits)
        The function.
    offset : ndarray, shape (n_bits,)
        Mean of the training signs.
    """

    mean: Features
    weights: Features
    offset: Features

    @classmethod
    def fit(cls, features: Features, signs: Signs, ridge: float) -> Self:
        """Minimise the squared error plus a penalty on the weights."""
        mean, offset = features.mean(axis=0), signs.mean(axis=0)
        return cls(mean, _ridge_weights(features - mean, signs - offset, ridge), offset)

    @property
    def n_features(self) -> int:
        """The width of the features it takes."""
        return len(self.mean)

    def project(self, items: Features) -> Outputs:
        """Return the values of the function."""
        return items @ self.weights + self.constant

    def to_arrays(self) -> Arrays:
        """Return the three arrays."""
        return {"mean": self.mean, "weights": self.weights, "offset": self.offset}

    @cached_property
    def constant(self) -> Features:
        """What is added to the product with the weights."""
        constant: Features = self.offset - self.mean @ self.weights
        return constant


def _ridge_weights(X: Features, Y: Features, ridge: float) -> Features:  # noqa: N803 -- the usual letters
    """Return the W that minimises |Y - XW|^2 + penalty |W|^2; X and Y are centred."""
    n, d = X.shape
    # Where every feature is constant there is nothing to weigh, and any penalty gives W = 0.
    penalty = ridge * (float(np.square(X).sum()) / d or 1.0)
    if n < d:  # the same W, from a smaller matrix
        weights: Features = X.T @ linalg.solve(X @ X.T + penalty * np.eye(n), Y, assume_a="pos")
    else:
        weights = linalg.solve(X.T @ X + penalty * np.eye(d), X.T @ Y, assume_a="pos")
    return weights
