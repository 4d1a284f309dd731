"""Anchor graphs: items joined through their nearest cluster centres."""

import warnings
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from ddsh.errors import InvalidInput

__all__ = [
    "AnchorWeights",
    "anchor_weights",
    "cluster_anchors",
    "graph_directions",
    "inverse_degrees",
    "nearest_width",
]

_Floats: TypeAlias = NDArray[np.float64]

AnchorWeights: TypeAlias = "sparse.csr_array[Any]"
"""Z: weights of items (rows) on anchors (columns); few are not zero, and every row sums to one."""


def cluster_anchors(features: _Floats, n_anchors: int, n_iterations: int, seed: int) -> _Floats:
    """Return the distinct cluster centres of `features`, found by k-means.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        The training features.
    n_anchors : int
        Number of clusters; all distinct rows are anchors if there are not more.
    n_iterations : int
        Maximum number of iterations of k-means.
    seed : int
        Random seed of the first centres.

    Returns
    -------
    ndarray, shape (at most n_anchors, d)
        The anchors.
    """
    if len(features) <= n_anchors:
        return np.unique(features, axis=0)
    kmeans = KMeans(n_anchors, n_init=1, max_iter=n_iterations, random_state=seed)
    # One thread: several add up the parts of a centre in any order, and no two runs would be equal.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        kmeans.fit(features)
    return np.unique(kmeans.cluster_centers_, axis=0)


def nearest_width(features: _Floats, anchors: _Floats, n_nearest: int) -> float:
    """Return the mean distance of a row to its n-th nearest anchor; 1 if that is zero."""
    distances, _ = _nearest(features, anchors, n_nearest)
    return float(distances[:, -1].mean()) or 1.0


def anchor_weights(features: _Floats, anchors: _Floats, n_nearest: int, width: float) -> AnchorWeights:
    """Return Z, the weights exp(-|x - a|^2 / width^2) of the nearest anchors, in rows that sum to one.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        The items.
    anchors : ndarray, shape (m, d)
        The anchors.
    n_nearest : int
        Number of anchors that have a weight; all, if there are fewer.
    width : float
        Width of the kernel.
    """
    distances, nearest = _nearest(features, anchors, n_nearest)
    squares = np.square(distances / width)
    # A factor that cancels out: far from all anchors every weight would round to zero.
    weights = np.exp(squares[:, :1] - squares)
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, weights.size + 1, weights.shape[1])
    return sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=(len(features), len(anchors)))


def _nearest(features: _Floats, anchors: _Floats, n_nearest: int) -> tuple[_Floats, NDArray[np.intp]]:
    """Return distances and positions of the nearest anchors, the nearest first."""
    # Distances by |x|^2 - 2x.a + |a|^2 lose digits far from the origin, so the anchors are centred.
    centre = anchors.mean(axis=0)
    index = NearestNeighbors(n_neighbors=min(n_nearest, len(anchors)), algorithm="brute").fit(anchors - centre)
    distances, positions = index.kneighbors(features - centre)
    return distances, positions


def inverse_degrees(Z: AnchorWeights) -> _Floats:  # noqa: N803
    """Return the diagonal of Lambda^-1, Lambda = diag(Z'1); 0 for an anchor without items."""
    degrees: _Floats = np.asarray(Z.sum(axis=0), np.float64).ravel()
    return np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)


def graph_directions(method: str, Z: AnchorWeights, n_directions: int) -> _Floats:  # noqa: N803
    """Return W such that the columns of ZW are the smoothest functions on the graph.

    They are the eigenvectors of A = Z Lambda^-1 Z' with the largest eigenvalues except the constant one, scaled so that
    (ZW)'ZW = n I.

    Parameters
    ----------
    method : str
        Name of the method, for the message if there are too few.
    Z : sparse array, shape (n, m)
        Weights of the training items on the anchors.
    n_directions : int
        Number of functions; fewer than there are anchors.

    Returns
    -------
    ndarray, shape (m, n_directions)
        The weights W.
    """
    scale = np.sqrt(inverse_degrees(Z))
    n_items, n_anchors = Z.shape
    # M = Lambda^-1/2 Z'Z Lambda^-1/2 has the eigenvalues of A; the constant function belongs to Lambda^1/2 1.
    M = scale[:, None] * (Z.T @ Z).toarray() * scale
    constant = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0) / np.sqrt(n_items)
    M -= np.outer(constant, constant)
    n_found = min(n_directions, n_anchors)
    values, vectors = linalg.eigh(M, subset_by_index=(n_anchors - n_found, n_anchors - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    n_found = int((values > n_anchors * np.finfo(np.float64).eps).sum())
    if n_found < n_directions:
        raise InvalidInput(
            f"{method} finds only {n_found} independent functions on a graph of {n_anchors} anchors"
            f" (n_samples={n_items}), and needs {n_directions}. Ask for fewer bits, or give more items or anchors."
        )
    W: _Floats = np.sqrt(n_items) * scale[:, None] * vectors / np.sqrt(values)
    return W
