"""KSH: supervised hashing with kernels."""

# ruff: noqa: N803 -- arguments carry the paper's letters

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.optimize import minimize

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["KSH"]

_Floats: TypeAlias = NDArray[np.float64]


class KSH(Hasher):
    """Supervised hashing with kernels.

    Minimises |r S - sum of b_k b_k'|^2 over r bits b_k = sgn(K a_k), where S is +1 for similar and -1 for dissimilar
    items and K the centred kernel with a few anchors. The bits are learned one by one from the residue of S. Each
    starts from the spectral relaxation, and gradient descent continues with a sigmoid in place of the sign.

    Parameters
    ----------
    n_bits : int
        Code length; any.
    n_anchors : int
        Number of training items drawn as anchors of the kernel; all, if there are fewer.
    n_labelled : int
        Number of training items whose pairs are learned from; drawn at random if there are more.
    n_steps : int
        Maximum number of gradient steps per bit.
    seed : int
        Random seed.

    Attributes
    ----------
    anchors_ : ndarray, shape (m, d)
        The anchors.
    width_ : float
        Width of the kernel exp(-r^2 / (2 width^2)): width^2 is half the mean squared distance of training items to
        anchors.
    projection_ : ndarray, shape (m, n_bits)
        Weights a_k of the kernels.
    offset_ : ndarray, shape (n_bits,)
        Minus the mean output of the training items.

    References
    ----------
    Liu, W., Wang, J., Ji, R., Jiang, Y.-G. and Chang, S.-F. "Supervised Hashing with Kernels." CVPR 2012.
    Differs from the paper in L-BFGS instead of Nesterov's gradient method, in coordinates in which the kernel is white,
    and in 5,000 instead of 1,000 to 2,000 labelled items: products with S take time linear in the items.
    """

    card = MethodCard(
        name="ksh",
        title="Supervised hashing with kernels",
        authors="Liu, Wang, Ji, Jiang, Chang",
        venue="CVPR",
        year=2012,
        supervision="supervised",
        inputs="features",
        deviations=("L-BFGS instead of Nesterov's gradient method", "more labelled items"),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int = 300,
        n_labelled: int = 5000,
        n_steps: int = 100,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_labelled = n_labelled
        self.n_steps = n_steps
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_anchors", "n_labelled", "n_steps")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        assert labels is not None, "KSH is supervised"
        rng = np.random.Generator(np.random.PCG64(self.seed))
        anchors = choose_anchors(features, self.n_anchors, rng)
        width = rbf_width(features, anchors)
        rows = np.sort(rng.permutation(len(features))[: self.n_labelled])
        kernel = kernel_map(features[rows], anchors, width)
        S = SignedSimilarity(labels.take(rows))
        whitening = whiten(kernel - kernel.mean(axis=0))
        white = (kernel - kernel.mean(axis=0)) @ whitening
        weights, _ = learn_bits(white, S, self.n_bits, self.n_steps)
        self.anchors_, self.width_, self.projection_ = anchors, width, whitening @ weights
        self.offset_ = -kernel.mean(axis=0) @ self.projection_

    def _project(self, features: _Floats) -> Outputs:
        outputs: Outputs = kernel_product(features, self.anchors_, self.width_, self.projection_) + self.offset_
        return outputs


class SignedSimilarity:
    """The matrix S of -1 and +1, as products with it.

    Items with the same labels have the same row, so that only a matrix of the distinct label sets is stored.

    Parameters
    ----------
    labels : Labels
        Of n items; not all similar to each other.
    """

    def __init__(self, labels: Labels) -> None:
        kinds, self._kind_of = labels.distinct()
        similar = kinds.similar(kinds)
        if similar.all():
            raise InvalidInput("All items are similar to each other (one class only?): there is nothing to learn.")
        # A matrix of pairs may have a pair one way only; such a pair counts half.
        self._signs = np.where(similar, 1.0, -1.0) / 2 + np.where(similar.T, 1.0, -1.0) / 2

    def __matmul__(self, columns: _Floats) -> _Floats:
        """Return S times `columns`, shape (n,) or (n, k)."""
        sums = np.zeros((len(self._signs), *columns.shape[1:]))
        np.add.at(sums, self._kind_of, columns)
        product: _Floats = (self._signs @ sums)[self._kind_of]
        return product


def whiten(centred: _Floats) -> _Floats:
    """Return M such that the columns of ``centred @ M`` have unit variance and are uncorrelated."""
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 1.0)
    whitening: _Floats = vectors[:, kept] / np.sqrt(values[kept])
    return whitening


def learn_bits(white: _Floats, S: SignedSimilarity, n_bits: int, n_steps: int) -> tuple[_Floats, _Floats]:
    """Learn the bits one by one from the residue of S.

    Parameters
    ----------
    white : ndarray, shape (n, m)
        Whitened kernel of the labelled items.
    S : SignedSimilarity
        Their similarities.
    n_bits : int
        Number of bits r.
    n_steps : int
        Maximum number of gradient steps per bit.

    Returns
    -------
    tuple
        Weights a_k as columns, shape (m, r), and the codes of the items, shape (n, r).
    """
    n_items, n_anchors = white.shape
    weights, B = np.zeros((n_anchors, n_bits)), np.zeros((n_items, n_bits))
    relation = n_bits * (white.T @ (S @ white))
    for bit in range(n_bits if n_anchors else 0):
        known = B[:, :bit]

        def residue(b: _Floats, known: _Floats = known) -> _Floats:
            """Return R b for the residue R = r S - sum of b_k b_k' over the known bits."""
            return n_bits * (S @ b) - known @ (known.T @ b)

        # The spectral relaxation maximises a'K'RKa subject to a'K'Ka = n.
        _, vectors = linalg.eigh(relation, subset_by_index=(n_anchors - 1, n_anchors - 1))
        spectral = vectors[:, 0]
        smooth = minimize(smooth_loss, spectral, (white, residue), "L-BFGS-B", jac=True, options={"maxiter": n_steps}).x
        candidates = [(a, np.where(white @ a > 0, 1.0, -1.0)) for a in (smooth, spectral)]
        weights[:, bit], B[:, bit] = max(candidates, key=lambda candidate: candidate[1] @ residue(candidate[1]))
        pull = white.T @ B[:, bit]
        relation -= np.outer(pull, pull)
    return weights, B


def smooth_loss(a: _Floats, white: _Floats, residue: Callable[[_Floats], _Floats]) -> tuple[float, _Floats]:
    """Return -b'Rb / n^2 and its gradient in a, where b = tanh(Ka / 2) stands for sgn(Ka).

    Parameters
    ----------
    a : ndarray, shape (m,)
        Weights of the kernels.
    white : ndarray, shape (n, m)
        The kernel K.
    residue : callable
        Returns R b.
    """
    # The paper's sigmoid 2 / (1 + exp(-x)) - 1 is tanh(x / 2), and its derivative (1 - b^2) / 2.
    b = np.tanh(white @ a / 2)
    pull = residue(b)
    scale = 1 / len(b) ** 2
    return float(-scale * (b @ pull)), -scale * (white.T @ (pull * (1 - b * b)))
