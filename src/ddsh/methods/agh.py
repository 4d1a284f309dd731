"""AGH: anchor graph hashing."""

# ruff: noqa: N803 -- arguments carry the paper's letters

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._anchor_graph import (
    AnchorWeights,
    anchor_weights,
    cluster_anchors,
    graph_directions,
    inverse_degrees,
    nearest_width,
)
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["AGH"]

_Floats: TypeAlias = NDArray[np.float64]


class AGH(Hasher):
    """Anchor graph hashing, with one or two layers.

    Items are joined through the anchors they are near to. The bits of the first layer are the signs of the smoothest
    functions on this graph, which a new item gets from its anchors. Functions that are less smooth tell less about
    neighbours, so the second layer splits both sides of the smoothest ones once more instead of adding others.

    Parameters
    ----------
    n_bits : int
        Code length; less than the number of anchors, or than twice that with two layers.
    n_layers : {1, 2}
        With 2, half of the bits are those of the second layer.
    n_anchors : int
        Number of clusters; all distinct items are anchors if there are not more.
    n_nearest : int
        The paper's s: number of nearest anchors that an item is joined to.
    n_iterations : int
        Maximum number of iterations of k-means.
    seed : int
        Random seed of k-means.

    Attributes
    ----------
    anchors_ : ndarray, shape (m, d)
        The anchors.
    width_ : float
        Width of the kernel exp(-r^2 / width^2): the mean distance of a training item to its farthest anchor.
    projection_ : ndarray, shape (m, k)
        Values of the k functions of the first layer at the anchors.
    thresholds_ : ndarray, shape (2, n_bits - k)
        Thresholds of the second layer for items with a positive and with a negative value.

    References
    ----------
    Liu, W., Wang, J., Kumar, S. and Chang, S.-F. "Hashing with Graphs." ICML 2011. The kernel width is that of the
    authors' program. With an odd number of bits the last function has one bit.
    """

    card = MethodCard(
        name="agh",
        title="Anchor graph hashing",
        authors="Liu, Wang, Kumar, Chang",
        venue="ICML",
        year=2011,
        supervision="unsupervised",
        inputs="features",
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_layers: Literal[1, 2] = 2,
        n_anchors: int = 300,
        n_nearest: int = 5,
        n_iterations: int = 20,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_layers = n_layers
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.n_iterations = n_iterations
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_anchors", "n_nearest", "n_iterations")
        if self.n_layers not in (1, 2):
            raise InvalidInput(f"n_layers must be 1 or 2; got {self.n_layers}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        anchors = cluster_anchors(features, self.n_anchors, self.n_iterations, self.seed)
        width = nearest_width(features, anchors, self.n_nearest)
        Z = anchor_weights(features, anchors, self.n_nearest, width)
        n_functions = -(-self.n_bits // self.n_layers)
        W = graph_directions("agh", Z, n_functions)
        values = Z @ W
        second = [split_thresholds(values[:, k], Z) for k in range(self.n_bits - n_functions)]
        self.anchors_, self.width_, self.projection_ = anchors, width, W
        self.thresholds_ = np.array(second).reshape(-1, 2).T

    def _project(self, features: _Floats) -> Outputs:
        values = anchor_weights(features, self.anchors_, self.n_nearest, self.width_) @ self.projection_
        above, below = self.thresholds_
        first = values[:, : len(above)]
        # The second bit of a function.
        second = np.where(first > 0, first - above, below - first)
        return np.hstack([values, second])


def split_thresholds(y: _Floats, Z: AnchorWeights) -> tuple[float, float]:
    """Return the thresholds b+ and b- that split the two sides of a function.

    They minimise f'Lf for f = y - b+ where y is positive and b- - y elsewhere, subject to 1'f = 0, where L = I - A is
    the Laplacian of the anchor graph.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Values of the function.
    Z : sparse array, shape (n, m)
        Weights of the items on the anchors.
    """
    # With t = b+ + b- and the indicator p of positive values, f = |y| - t p + b-, and L1 = 0, so that f'Lf
    # depends on t alone; then b- follows from 1'f = 0.
    positive = (y > 0).astype(np.float64)
    size = np.abs(y)
    smoothed = positive - Z @ (inverse_degrees(Z) * (Z.T @ positive))
    curvature = positive @ smoothed
    t = float(smoothed @ size / curvature) if curvature > 0 else 0.0
    below = t * positive.mean() - size.mean()
    return t - below, below
