"""Principal directions of features, and random rotations of them."""

from contextlib import suppress
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ddsh.errors import InvalidInput

__all__ = ["check_enough_directions", "principal_directions", "random_rotation"]

_Floats: TypeAlias = NDArray[np.float64]

_DENSE_SIDE = 1024
_DENSE_SHARE = 32


def principal_directions(centred: _Floats, n_directions: int) -> _Floats:
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


def check_enough_directions(method: str, components: _Floats, n_bits: int, n_items: int) -> None:
    """Raise if a method with one bit per direction has fewer directions than bits."""
    if components.shape[1] < n_bits:
        raise InvalidInput(
            f"{method} has at most one bit for each direction in which the training features vary:"
            f" {components.shape[1]} for n_samples={n_items}, n_features={components.shape[0]}, but n_bits is"
            f" {n_bits}. Ask for fewer bits, give more items or the features of a wider network, or use lsh,"
            " which takes any number."
        )


def random_rotation(side: int, seed: int) -> _Floats:
    """Return an orthogonal matrix, shape (side, side); all are equally likely."""
    rng = np.random.Generator(np.random.PCG64(seed))
    Q, triangle = np.linalg.qr(rng.standard_normal((side, side)))
    # With these signs all rotations are equally likely, however QR is computed.
    rotation: _Floats = Q * np.sign(triangle.diagonal())
    return rotation
