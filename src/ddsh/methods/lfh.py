"""LFH: latent factor hashing."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import expit

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._extensions import Extension
from ddsh.methods._two_step import TwoStepHasher
from ddsh.methods.base import MethodCard

__all__ = ["LFH"]

_Array = NDArray[np.float64]
_Rows = NDArray[np.intp]
_BLOCK_PAIRS = 1 << 22


class LFH(TwoStepHasher):
    """Latent factor hashing.

    Items are similar with probability sigmoid(u_i.u_j / 2), and u has a normal prior. The posterior is maximised row by
    row with a quadratic lower bound; each iteration uses the similarities to a few sampled items. The codes are the
    signs of the factors u.

    Parameters
    ----------
    n_bits : int
        Code length.
    n_columns : int or "n_bits"
        Number of sampled items (all, if there are fewer); the paper samples as many as there are bits.
    beta : float
        Variance of the prior.
    n_iterations : int
        Number of iterations, each with new columns and an update of all rows.
    extension : {"trees", "linear", "kernel", "cnn"} or Extension
        Model that predicts the codes: boosted trees, ridge regression, ridge regression on Gaussian kernels, or a
        network. The items are images for ``cnn``, features for the others.
    seed : int
        Random seed.

    Attributes
    ----------
    codes_ : BinaryCodes
        Learned codes of the training items; not saved with the model.
    learned_ : Learned
        The fitted extension.
    history_ : list of dict
        Loss of every epoch, if the extension trains a network.

    References
    ----------
    Zhang, P., Zhang, W., Li, W.-J. and Guo, M. "Supervised Hashing with Latent Factor Models." SIGIR 2014. Differs from
    the paper in a random start instead of the principal components of the features, in an extension that learns the
    signs instead of the real factors (boosted trees by default, as in the DDSH paper), in 256 sampled columns, which
    scored best on validation (experiments/choose-lfh.toml), and in leaving out pairs of an item with itself.
    """

    card = MethodCard(
        name="lfh",
        title="Latent factor hashing",
        authors="Zhang, Zhang, Li, Guo",
        venue="SIGIR",
        year=2014,
        supervision="supervised",
        inputs="features",
        deviations=("random start instead of PCA", "boosted trees learn the signs instead of a linear map the factors"),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_columns: int | Literal["n_bits"] = 256,
        beta: float = 30.0,
        n_iterations: int = 50,
        extension: str | Extension = "trees",
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_columns = n_columns
        self.beta = beta
        self.n_iterations = n_iterations
        self.extension = extension
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_columns", "beta", "n_iterations"):
            value = getattr(self, name)
            if value != "n_bits" and not value > 0:
                raise InvalidInput(f"{name} must be above 0; got {value}.")

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter as plain JSON, with the number of columns resolved."""
        return super().describe_params() | {"n_columns": self._n_columns()}

    def _n_columns(self) -> int:
        return self.n_bits if self.n_columns == "n_bits" else self.n_columns

    def learn_codes(self, labels: Labels) -> NDArray[np.int8]:
        """Return codes of -1 and +1 for the labelled items, shape (n, n_bits)."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        U = rng.standard_normal((len(labels), self.n_bits))
        for _ in range(self.n_iterations):
            omega = np.sort(rng.permutation(len(U))[: self._n_columns()])
            update_others(U, labels, omega, self.beta)
            update_sampled(U, labels, omega, self.beta)
        return np.where(U > 0, 1, -1).astype(np.int8)


def update_others(U: _Array, labels: Labels, omega: _Rows, beta: float) -> None:  # noqa: N803
    """Increase the posterior in all rows of U except `omega`, in place.

    Only their similarities to `omega` are used.

    Parameters
    ----------
    U : ndarray, shape (n, c)
        The factors.
    labels : Labels
        Of the n items.
    omega : ndarray of int
        The sampled rows.
    beta : float
        Variance of the prior.
    """
    V, columns = U[omega], labels.take(omega)
    curvature = linalg.cho_factor(_curvature(V.T @ V, beta))
    for rows in _blocks(np.setdiff1d(np.arange(len(U)), omega), len(omega)):
        slope = gradient(U[rows], V, labels.take(rows).similar(columns), beta)
        U[rows] += linalg.cho_solve(curvature, slope.T).T


def update_sampled(U: _Array, labels: Labels, omega: _Rows, beta: float) -> None:  # noqa: N803
    """Increase the posterior in the rows `omega` of U, one by one and in place.

    Their similarities to all items are used.

    Parameters
    ----------
    U : ndarray, shape (n, c)
        The factors.
    labels : Labels
        Of the n items.
    omega : ndarray of int
        The sampled rows.
    beta : float
        Variance of the prior.
    """
    gram = U.T @ U
    for rows in _blocks(omega, len(U)):
        for row, similar in zip(rows, labels.take(rows).similar(labels), strict=True):
            old = U[row].copy()
            U[row] = 0.0  # leaves out the pair of an item with itself: a zero row adds nothing to the sums
            gram -= np.outer(old, old)
            U[row] = old + linalg.solve(_curvature(gram, beta), gradient(old, U, similar, beta), assume_a="pos")
            gram += np.outer(U[row], U[row])


def gradient(u: _Array, V: _Array, similar: NDArray[np.bool_], beta: float) -> _Array:  # noqa: N803
    """Return the gradient of the log posterior in rows u, given the factors V.

    Every pair counts twice, once from each side: sum over j of (s_j - a_j) v_j - u / beta, a = sigmoid(u.v / 2).
    """
    slope: _Array = (similar - expit(u @ V.T / 2)) @ V - u / beta
    return slope


def _curvature(gram: _Array, beta: float) -> _Array:
    """Return -H of the quadratic lower bound: a (1 - a) is at most 1/4."""
    return gram / 8 + np.eye(len(gram)) / beta


def _blocks(rows: _Rows, width: int) -> Iterator[_Rows]:
    """Yield blocks of rows, so that a block of `width` columns fits in memory."""
    step = max(1, _BLOCK_PAIRS // width)
    return (rows[start : start + step] for start in range(0, len(rows), step))
