"""ITQ: iterative quantisation of principal components."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._pca import check_enough_directions, principal_directions, random_rotation
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["ITQ"]

_Floats: TypeAlias = NDArray[np.float64]


class ITQ(Hasher):
    """Iterative quantisation: PCA and a rotation with minimal quantisation error.

    Parameters
    ----------
    n_bits : int
        Code length; at most the rank of the centred training features, which is less than the number of items and at
        most the number of features.
    n_iterations : int
        Alternations between codes and rotation.
    seed : int
        Random seed of the initial rotation.

    Attributes
    ----------
    mean_ : ndarray, shape (d,)
        Mean of the training features.
    components_ : ndarray, shape (d, n_bits)
        Principal directions, the largest first; the largest entry of each is positive.
    rotation_ : ndarray, shape (n_bits, n_bits)
        The learned rotation, orthogonal.
    errors_ : ndarray, shape (n_iterations + 1,)
        Quantisation error, the sum of (sign - output)^2 over items and bits, before the first and after each
        alternation; it never increases.

    References
    ----------
    Gong, Y. and Lazebnik, S. "Iterative Quantization: A Procrustean Approach to Learning Binary Codes." CVPR 2011.
    Gong, Y., Lazebnik, S., Gordo, A. and Perronnin, F. "Iterative Quantization: A Procrustean Approach to Learning
    Binary Codes for Large-Scale Image Retrieval." TPAMI 2013.
    Differs from the paper in the sign of an output of exactly 0, which is -1.
    """

    card = MethodCard(
        name="itq",
        title="Iterative quantisation",
        authors="Gong, Lazebnik",
        venue="CVPR",
        year=2011,
        supervision="unsupervised",
        inputs="features",
        deviations=("the sign of an output of exactly 0 is -1",),
    )

    def __init__(self, n_bits: int = 32, *, n_iterations: int = 50, seed: int = 0) -> None:
        self.n_bits = n_bits
        self.n_iterations = n_iterations
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_iterations < 0:
            raise InvalidInput(f"n_iterations must be 0 or more; got {self.n_iterations}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        mean = features.mean(axis=0)
        centred = features - mean
        components = principal_directions(centred, self.n_bits)
        check_enough_directions("itq", components, self.n_bits, len(features))
        R = random_rotation(self.n_bits, self.seed)
        V = centred @ components
        B, error = _quantise(V @ R)
        errors = [error]
        for _ in range(self.n_iterations):
            # With V'B = U s W', |B - VR|^2 is least at R = U W' (an orthogonal Procrustes problem).
            U, _, W_transposed = np.linalg.svd(V.T @ B)
            R = U @ W_transposed
            B, error = _quantise(V @ R)
            errors.append(error)
        self.mean_, self.components_, self.rotation_, self.errors_ = mean, components, R, np.array(errors)

    def _project(self, features: _Floats) -> Outputs:
        projection = self.components_ @ self.rotation_
        outputs: Outputs = features @ projection - self.mean_ @ projection
        return outputs


def _quantise(outputs: _Floats) -> tuple[_Floats, float]:
    """Return the signs B of the outputs VR, and the error |B - VR|^2 of Eq. (2)."""
    B = np.where(outputs > 0, 1.0, -1.0)
    return B, float(np.square(B - outputs).sum())
