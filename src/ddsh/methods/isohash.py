"""IsoHash: principal components rotated to equal variances."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels
from ddsh.methods._pca import check_enough_directions, principal_directions, random_rotation
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["IsoHash"]

_Floats: TypeAlias = NDArray[np.float64]


class IsoHash(Hasher):
    """Isotropic hashing: PCA and a rotation that makes all variances equal.

    Bits of principal components carry unequal information, since their variances differ. The covariance of the rotated
    components lies in two sets: matrices with the eigenvalues of the principal components, and matrices whose diagonal
    is constant. Lift and projection finds a common point by projecting onto one set and the other in turn.

    Parameters
    ----------
    n_bits : int
        Code length; at most the rank of the centred training features.
    n_iterations : int
        Maximum number of projections onto each set; it stops when the variances are equal.
    seed : int
        Random seed of the initial rotation.

    Attributes
    ----------
    mean_ : ndarray, shape (d,)
        Mean of the training features.
    projection_ : ndarray, shape (d, n_bits)
        Orthonormal directions of equal variance.
    gaps_ : ndarray
        Distance between the two sets after each iteration, relative to the common variance; it never increases.

    References
    ----------
    Kong, W. and Li, W.-J. "Isotropic Hashing." NIPS 2012: the algorithm lift and projection.
    """

    card = MethodCard(
        name="isohash",
        title="Isotropic hashing",
        authors="Kong, Li",
        venue="NIPS",
        year=2012,
        supervision="unsupervised",
        inputs="features",
        deviations=("lift and projection only; the paper's gradient flow has the same solutions",),
    )

    def __init__(self, n_bits: int = 32, *, n_iterations: int = 500, seed: int = 0) -> None:
        self.n_bits = n_bits
        self.n_iterations = n_iterations
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_iterations")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        mean = features.mean(axis=0)
        centred = features - mean
        components = principal_directions(centred, self.n_bits)
        check_enough_directions("isohash", components, self.n_bits, len(features))
        variances = np.square(centred @ components).mean(axis=0)
        start = random_rotation(self.n_bits, self.seed)
        rotation, gaps = lift_and_project(variances, start, self.n_iterations)
        self.mean_, self.projection_, self.gaps_ = mean, components @ rotation, gaps

    def _project(self, features: _Floats) -> Outputs:
        outputs: Outputs = features @ self.projection_ - self.mean_ @ self.projection_
        return outputs


_ENOUGH = 1e-9


def lift_and_project(variances: _Floats, start: _Floats, n_iterations: int) -> tuple[_Floats, _Floats]:
    """Return a rotation Q for which Q' diag(variances) Q has a constant diagonal.

    Parameters
    ----------
    variances : ndarray, shape (c,)
        Variances of the components, the largest first.
    start : ndarray, shape (c, c)
        Initial rotation.
    n_iterations : int
        Maximum number of iterations.

    Returns
    -------
    tuple
        The rotation, and the distance |diag(Z) - a| / a after each iteration.
    """
    a = variances.mean()
    Q = start
    Z = (Q.T * variances) @ Q
    gaps = []
    for _ in range(n_iterations):
        # The nearest matrix with the diagonal a.
        np.fill_diagonal(Z, a)
        # The nearest matrix with the given eigenvalues has the same eigenvectors, in the same order.
        _, vectors = np.linalg.eigh(Z)
        Q = vectors[:, ::-1].T
        Z = (Q.T * variances) @ Q
        gaps.append(float(np.linalg.norm(Z.diagonal() - a)) / a)
        if gaps[-1] < _ENOUGH:
            break
    return Q, np.array(gaps)
