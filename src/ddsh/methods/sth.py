"""STH: self-taught hashing."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import LinearSVC

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["STH"]

_Floats: TypeAlias = NDArray[np.float64]
_Graph: TypeAlias = "sparse.csr_array[Any]"

_DENSE_SIDE = 200


class STH(Hasher):
    """Self-taught hashing: codes from a graph of neighbours, then linear SVMs.

    The training items are embedded by Laplacian eigenmaps of their nearest neighbours, and every dimension is cut at
    its median. A support vector machine per bit learns to predict these codes for new items.

    Parameters
    ----------
    n_bits : int
        Code length; less than the number of training items.
    n_neighbors : int
        Nearest neighbours, by cosine, that an item is joined to; all others, if there are fewer.
    C : float
        Penalty of the errors of the support vector machines.

    Attributes
    ----------
    mean_ : ndarray, shape (d,)
        Mean of the training features.
    scale_ : float
        Root mean square distance of the training features from their mean.
    projection_ : ndarray, shape (d, n_bits)
        Weights of the support vector machines.
    offset_ : ndarray, shape (n_bits,)
        Their constant terms.

    References
    ----------
    Zhang, D., Wang, J., Cai, D. and Lu, J. "Self-Taught Hashing for Fast Similarity Search." SIGIR 2010.
    Differs from the paper in features that are centred and scaled as a whole for the support vector machines, since
    they are not documents, and in the squared hinge loss. The DDSH paper counts it among supervised methods, but it
    uses no labels.
    """

    card = MethodCard(
        name="sth",
        title="Self-taught hashing",
        authors="Zhang, Wang, Cai, Lu",
        venue="SIGIR",
        year=2010,
        supervision="unsupervised",
        inputs="features",
        deviations=("features centred and scaled as a whole", "squared hinge loss"),
    )
    above_zero = ("C",)

    def __init__(self, n_bits: int = 32, *, n_neighbors: int = 25, C: float = 1.0) -> None:  # noqa: N803
        self.n_bits = n_bits
        self.n_neighbors = n_neighbors
        self.C = C

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_neighbors")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        if self.n_bits >= len(features):
            raise InvalidInput(
                f"sth has fewer bits than training items, but n_bits is {self.n_bits} and n_samples={len(features)}."
                " Ask for fewer bits or give more items."
            )
        mean = features.mean(axis=0)
        centred = features - mean
        scale = float(np.sqrt(np.square(centred).sum(axis=1).mean())) or 1.0
        centred /= scale
        places = eigenmaps(join_neighbors(features, self.n_neighbors), self.n_bits)
        bits = places > np.median(places, axis=0)
        projection, offset = np.zeros((features.shape[1], self.n_bits)), np.where(bits[0], 1.0, -1.0)
        for bit in np.flatnonzero(bits.any(axis=0) & ~bits.all(axis=0)):
            machine = LinearSVC(C=self.C, dual=False).fit(centred, bits[:, bit])
            projection[:, bit], offset[bit] = machine.coef_[0], machine.intercept_[0]
        self.mean_, self.scale_, self.projection_, self.offset_ = mean, scale, projection, offset

    def _project(self, features: _Floats) -> Outputs:
        outputs: Outputs = (features - self.mean_) @ (self.projection_ / self.scale_) + self.offset_
        return outputs


def join_neighbors(features: _Floats, n_neighbors: int) -> _Graph:
    """Return W: the cosines of items that are among each other's nearest, one way or both, and 0 for other pairs."""
    n_neighbors = min(n_neighbors, len(features) - 1)
    one_way = kneighbors_graph(features, n_neighbors, mode="distance", metric="cosine")
    # Cosines that are not positive would make degrees zero.
    one_way.data = np.maximum(1 - one_way.data, np.finfo(np.float64).eps)
    return sparse.csr_array(one_way.maximum(one_way.T))


def eigenmaps(W: _Graph, n_dimensions: int) -> _Floats:  # noqa: N803
    """Return Laplacian eigenmaps: solutions of L y = lambda D y with the smallest eigenvalues.

    Parameters
    ----------
    W : sparse array, shape (n, n)
        Symmetric weights, not negative.
    n_dimensions : int
        Number of solutions, less than n; the constant one is left out.

    Returns
    -------
    ndarray, shape (n, n_dimensions)
        The solutions y, the smoothest first.
    """
    degrees = np.asarray(W.sum(axis=0), np.float64).ravel()
    root = np.sqrt(degrees)
    normal = sparse.diags_array(1 / root) @ W @ sparse.diags_array(1 / root)
    # With y = D^-1/2 v, v are the eigenvectors of D^-1/2 W D^-1/2 with the largest eigenvalues, without D^1/2 1.
    constant = root / np.linalg.norm(root)
    if len(root) <= _DENSE_SIDE:
        _, vectors = np.linalg.eigh(normal.toarray() - 2 * np.outer(constant, constant))
        vectors = vectors[:, -n_dimensions:]
    else:
        operator = LinearOperator(W.shape, lambda v: normal @ v - 2 * constant * (constant @ v), dtype=np.float64)
        start = np.random.Generator(np.random.PCG64(0)).standard_normal(len(root))
        _, vectors = eigsh(operator, n_dimensions, which="LA", v0=start)
    places: _Floats = vectors[:, ::-1] / root[:, None]
    return places
