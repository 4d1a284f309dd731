"""CNNH: codes by factorising similarities, then a network."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels
from ddsh.methods._extensions import Extension
from ddsh.methods._two_step import TwoStepHasher
from ddsh.methods.base import MethodCard

__all__ = ["CNNH"]

_Floats: TypeAlias = NDArray[np.float64]


class CNNH(TwoStepHasher):
    """Convolutional neural network hashing, the first deep two-step method.

    The first step minimises |S - HH' / c|^2 over H in [-1, 1]^(n x c) by coordinate descent, where S is 1 for similar
    pairs of training items and -1 for others, and takes the signs of H. The diagonal, which is 1 for signs, is left
    out: then each step is exact. The second step trains a network to output these codes. Memory is quadratic in the
    number of training items, time per sweep n^2 c.

    Parameters
    ----------
    n_bits : int
        Code length c.
    n_sweeps : int
        Sweeps over all entries of H.
    extension : {"cnn", "linear", "kernel", "trees"} or Extension
        Model that predicts the codes; the paper's is a network.
    seed : int
        Random seed of the initial H, of the order of entries, and of the extension.

    References
    ----------
    Xia, R., Pan, Y., Lai, H., Liu, C. and Yan, S. "Supervised Hashing for Image Retrieval via Image Representation
    Learning." AAAI, 2014. Differs from the paper in the network, which learns the codes by least squares on tanh of its
    outputs; there is no second output for classes (CNNH+).
    """

    card = MethodCard(
        name="cnnh",
        title="Convolutional neural network hashing",
        authors="Xia, Pan, Lai, Liu, Yan",
        venue="AAAI",
        year=2014,
        supervision="supervised",
        inputs="images",
        deviations=("another network, trained by least squares",),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_sweeps: int = 5,
        extension: str | Extension = "cnn",
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_sweeps = n_sweeps
        self.extension = extension
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_sweeps")

    def learn_codes(self, labels: Labels) -> NDArray[np.int8]:
        """Return codes of -1 and +1 for the labelled items, shape (n, n_bits)."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        S = np.where(labels.similar(labels), 1.0, -1.0)
        H = rng.uniform(-1, 1, (len(labels), self.n_bits))
        for _ in range(self.n_sweeps):
            for bit in np.argsort(rng.random(self.n_bits)):
                H[:, bit] = descend_column(H, S, int(bit))
        return np.where(H > 0, 1, -1).astype(np.int8)


def descend_column(H: _Floats, S: _Floats, bit: int) -> _Floats:  # noqa: N803
    """Return a column of H after each of its entries in turn was set to its best value.

    Parameters
    ----------
    H : ndarray, shape (n, c)
        Factors between -1 and 1.
    S : ndarray, shape (n, n)
        Similarities, symmetric.
    bit : int
        The column.
    """
    n_bits = H.shape[1]
    h = H[:, bit].copy()
    others = np.delete(H, bit, axis=1)
    rest = others @ others.T
    rest -= n_bits * S
    np.fill_diagonal(rest, 0.0)
    total = float(h @ h)
    for row in range(len(h)):
        total -= h[row] ** 2
        # In h_i alone the objective is 2 sum_k (rest_ik + h_i h_k)^2 over the other rows k: a parabola.
        if total > 0:
            h[row] = np.clip(-(rest[row] @ h) / total, -1.0, 1.0)
        total += h[row] ** 2
    return h
