"""Gaussian kernels between n items and m anchors, in blocks of rows."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

__all__ = ["Floats", "choose_anchors", "kernel_map", "kernel_product", "rbf_width"]

Floats: TypeAlias = NDArray[np.float64]
_Features: TypeAlias = NDArray[np.floating[Any]]

_BLOCK_ROWS = 1024


def choose_anchors(features: _Features, n_anchors: int, rng: np.random.Generator) -> Floats:
    """Draw distinct rows of `features` at random as anchors.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        The training features.
    n_anchors : int
        Number of anchors; all n rows if there are fewer.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of float64, shape (min(n_anchors, n), d)
        The anchors, in the order of their rows.
    """
    rows = rng.choice(len(features), min(n_anchors, len(features)), replace=False)
    return features[np.sort(rows)].astype(np.float64)


def rbf_width(features: _Features, anchors: Floats) -> float:
    """Return the kernel width: the root of half the mean squared distance.

    A row and an anchor at root mean square distance then have similarity 1/e. The width is 1 if all rows and anchors
    are equal.
    """
    # The mean squared distance follows from means and variances; no distances are computed.
    apart = features.mean(axis=0) - anchors.mean(axis=0)
    mean_square = features.var(axis=0).sum() + anchors.var(axis=0).sum() + apart @ apart
    return float(np.sqrt(mean_square / 2)) or 1.0


def kernel_map(features: _Features, anchors: Floats, width: float) -> Floats:
    """Return exp(-|x - a|^2 / (2 width^2)) for all rows x and anchors a, shape (n, m)."""
    kernel = np.empty((len(features), len(anchors)))
    for rows, block in _blocks(features, anchors, width):
        kernel[rows] = block
    return kernel


def kernel_product(features: _Features, anchors: Floats, width: float, weights: Floats) -> Floats:
    """Return ``kernel_map(features, anchors, width) @ weights`` block by block."""
    product = np.empty((len(features), weights.shape[1]))
    for rows, block in _blocks(features, anchors, width):
        product[rows] = block @ weights
    return product


def _blocks(features: _Features, anchors: Floats, width: float) -> Iterator[tuple[slice, Floats]]:
    """Yield the kernel of a few rows at a time."""
    # Distances by |x|^2 - 2x.a + |a|^2 lose digits far from the origin, so the anchors are centred.
    centre = anchors.mean(axis=0)
    for start in range(0, len(features), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        yield rows, rbf_kernel(features[rows] - centre, anchors - centre, gamma=0.5 / width**2)
