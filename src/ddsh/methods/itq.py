"""ITQ: iterative quantisation of principal components."""

from contextlib import suppress
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["ITQ"]

_Floats: TypeAlias = NDArray[np.float64]

_DENSE_SIDE = 1024
_DENSE_SHARE = 32


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
        components = _principal_directions(centred, self.n_bits)
        if components.shape[1] < self.n_bits:
            raise InvalidInput(
                "itq has at most one bit for each direction in which the training features vary:"
                f" {components.shape[1]} for n_samples={len(features)}, n_features={features.shape[1]}, but n_bits is"
                f" {self.n_bits}. Ask for fewer bits, give more items or the features of a wider network, or use lsh,"
                " which takes any number."
            )
        rng = np.random.Generator(np.random.PCG64(self.seed))
        Q, triangle = np.linalg.qr(rng.standard_normal((self.n_bits, self.n_bits)))
        # With these signs all rotations are equally likely, however QR is computed.
        R: _Floats = Q * np.sign(triangle.diagonal())
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


def _principal_directions(centred: _Floats, n_directions: int) -> _Floats:
    """Return the directions of largest variance as columns, at most the rank."""
    n_items, n_features = centred.shape
    is_wide = n_features > n_items
    matrix = centred @ centred.T if is_wide else centred.T @ centred
    values, directions = _eigenvectors(matrix, min(n_directions, len(matrix)))
    # The rounding error of a sum of max(n, d) products, as a fraction of the squared norms, whose sum is the trace.
    rounding = max(centred.shape) * np.finfo(np.float64).eps * matrix.trace()
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > rounding]
    values, directions = values[order], directions[:, order]
    if is_wide:
        directions = (centred.T @ directions) / np.sqrt(values)
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])]
    signed: _Floats = directions * np.sign(largest)
    return signed


def _eigenvectors(matrix: _Floats, n_vectors: int) -> tuple[_Floats, _Floats]:
    """Return the largest eigenvalues and their vectors, in any order."""
    side = len(matrix)
    # For few of many eigenvectors Lanczos is much faster. It fails for a matrix of zeros.
    if side > max(_DENSE_SIDE, _DENSE_SHARE * n_vectors):
        start = np.random.Generator(np.random.PCG64(0)).standard_normal(side)
        # dsymv reads half of a symmetric matrix; BLAS stores it by columns, which are its rows.
        product = LinearOperator(matrix.shape, matvec=partial(linalg.blas.dsymv, 1.0, matrix.T), dtype=matrix.dtype)
        with suppress(ArpackError):
            values, vectors = eigsh(product, n_vectors, which="LA", v0=start)
            return values, vectors
    values, vectors = linalg.eigh(matrix, subset_by_index=(side - n_vectors, side - 1))
    return values, vectors


def _quantise(outputs: _Floats) -> tuple[_Floats, float]:
    """Return the signs B of the outputs VR, and the error |B - VR|^2 of Eq. (2)."""
    B = np.where(outputs > 0, 1.0, -1.0)
    return B, float(np.square(B - outputs).sum())
