"""AFFHash: affinity-based hashing by auxiliary coordinates."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width
from ddsh.methods.base import Hasher, MethodCard, Outputs
from ddsh.methods.fasth import Relation, sample_relation
from ddsh.methods.sdh import KernelMachine

__all__ = ["AFFHash"]

_Floats: TypeAlias = NDArray[np.float64]


class AFFHash(Hasher):
    """Affinity-based hashing by the method of auxiliary coordinates.

    A loss of pairs of codes, E(h(X)), is hard to minimise over hash functions h. With the codes Z as auxiliary
    coordinates it becomes

    sum over pairs (z_i.z_j - c y_ij)^2 + mu |Z - h(X)|^2,    y_ij = 1 or -1,

    which is minimised over Z, bit by bit and item by item, and over h, a classifier of each bit, in turn, while mu
    grows. Codes learned without h, as by two-step methods, are the first step; then codes and functions approach each
    other until they agree.

    Parameters
    ----------
    n_bits : int
        Code length c.
    n_similar : int
        Similar items sampled per item.
    n_dissimilar : int
        Dissimilar items sampled per item.
    mu : float
        First mu, in units of the code length times the mean number of pairs of an item.
    growth : float
        Factor on mu between rounds, above 1.
    n_rounds : int
        Maximum number of rounds; it stops when codes and functions agree.
    n_sweeps : int
        Sweeps over all bits in a round.
    n_anchors : int
        Anchors of the Gaussian kernel.
    kernel_ridge : float
        Weight of the squared norm of the classifiers.
    seed : int
        Random seed.

    Attributes
    ----------
    anchors_ : ndarray, shape (m, d)
        Anchors.
    width_ : float
        Width of the kernel.
    projection_, offset_ : ndarray
        Weights (m, n_bits) and offsets (n_bits,) of the classifiers.
    agreements_ : ndarray
        Share of the bits in which Z and h(X) agree after each round.

    References
    ----------
    Raziperchikolaei, R. and Carreira-Perpinan, M. A. "Optimizing Affinity-Based Binary Hashing Using Auxiliary
    Coordinates." NIPS, 2016, with the loss of KSH. Differs from the paper in flipping single bits instead of graph
    cuts, in ridge regression on Gaussian kernels instead of support vector machines, and in the values of mu.
    """

    card = MethodCard(
        name="affhash",
        title="Affinity-based hashing by auxiliary coordinates",
        authors="Raziperchikolaei, Carreira-Perpinan",
        venue="NIPS",
        year=2016,
        supervision="supervised",
        inputs="features",
        deviations=("single flips instead of graph cuts", "ridge regression on kernels instead of SVMs"),
    )
    above_zero = ("mu", "kernel_ridge")

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_similar: int = 100,
        n_dissimilar: int = 100,
        mu: float = 0.02,
        growth: float = 2.0,
        n_rounds: int = 10,
        n_sweeps: int = 1,
        n_anchors: int = 1000,
        kernel_ridge: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_similar = n_similar
        self.n_dissimilar = n_dissimilar
        self.mu = mu
        self.growth = growth
        self.n_rounds = n_rounds
        self.n_sweeps = n_sweeps
        self.n_anchors = n_anchors
        self.kernel_ridge = kernel_ridge
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_similar", "n_dissimilar", "n_rounds", "n_sweeps", "n_anchors")
        if not self.growth > 1:
            raise InvalidInput(f"growth must be above 1; got {self.growth}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        assert labels is not None, "AFFHash is supervised"
        rng = np.random.Generator(np.random.PCG64(self.seed))
        pairs = sample_relation(labels, self.n_similar, self.n_dissimilar, rng)
        self.anchors_ = choose_anchors(features, self.n_anchors, rng)
        self.width_ = rbf_width(features, self.anchors_)
        machine = KernelMachine(kernel_map(features, self.anchors_, self.width_), self.kernel_ridge)
        Z = rng.choice([-1.0, 1.0], (len(features), self.n_bits))
        Z = solve_coordinates(Z, pairs, np.zeros_like(Z), self.n_sweeps)
        unit, agreements = self.n_bits * pairs.nnz / len(features), []
        for number in range(self.n_rounds):
            predicted = np.where(machine.outputs(Z) > 0, 1.0, -1.0)
            agreements.append(float((predicted == Z).mean()))
            if agreements[-1] == 1:
                break
            Z = solve_coordinates(Z, pairs, self.mu * self.growth**number * unit * predicted, self.n_sweeps)
        self.projection_, self.offset_ = machine.fit(Z)
        self.agreements_ = np.array(agreements)

    def _project(self, features: _Floats) -> Outputs:
        return kernel_product(features, self.anchors_, self.width_, self.projection_) + self.offset_


def solve_coordinates(Z: _Floats, pairs: Relation, pull: _Floats, n_sweeps: int) -> _Floats:  # noqa: N803
    """Lower sum over pairs (z_i.z_j - c y_ij)^2 - 2 tr(Z' pull) by setting one bit of one item after another.

    Parameters
    ----------
    Z : ndarray of -1 and +1, shape (n, c)
        Initial codes.
    pairs : sparse array, shape (n, n)
        y: 1 for similar, -1 for dissimilar pairs, symmetric; the sum has each pair once.
    pull : ndarray, shape (n, c)
        mu h(X).
    n_sweeps : int
        Sweeps over all bits.

    Returns
    -------
    ndarray of -1 and +1, shape (n, c)
        Codes whose objective is no higher.
    """
    Z = Z.copy()
    n_items, n_bits = Z.shape
    first, second = np.repeat(np.arange(n_items), np.diff(pairs.indptr)), pairs.indices
    starts = pairs.indptr.tolist()
    products = np.zeros(pairs.nnz)
    for bit in range(n_bits):
        products += Z[first, bit] * Z[second, bit]
    for _ in range(n_sweeps):
        for bit in range(n_bits):
            z = Z[:, bit].copy()
            products -= z[first] * z[second]
            # (p_ij + z_i z_j - c y_ij)^2 depends on z_i z_j by 2 (p_ij - c y_ij).
            weights = products - n_bits * pairs.data
            for item in range(n_items):
                start, stop = starts[item], starts[item + 1]
                slope = weights[start:stop] @ z[second[start:stop]] - pull[item, bit]
                if slope:
                    z[item] = -1.0 if slope > 0 else 1.0
            products += z[first] * z[second]
            Z[:, bit] = z
    return Z
