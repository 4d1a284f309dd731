"""TSH: two-step hashing."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, minimize
from scipy.sparse.linalg import eigsh

from ddsh.errors import UnknownName
from ddsh.labels import Labels
from ddsh.methods._extensions import Extension
from ddsh.methods._two_step import TwoStepHasher
from ddsh.methods.base import MethodCard
from ddsh.methods.fasth import MARGINS, Loss, Relation, Signs, add_bit, pair_weights, sample_relation

__all__ = ["TSH"]

_Floats: TypeAlias = NDArray[np.float64]

_DENSE_SIDE = 200


class TSH(TwoStepHasher):
    """Two-step hashing: codes by spectral relaxation, then a classifier per bit.

    Any loss of Hamming distances is, in one bit with the others fixed, a binary quadratic programme: minimise b'Wb over
    b in {-1, +1}^n. It is relaxed to real b of length sqrt(n), whose minimum is an eigenvector, then to the cube
    [-1, 1]^n, and rounded to signs. FastH minimises the same objective by graph cuts.

    Parameters
    ----------
    n_bits : int
        Code length; any.
    loss : {"hinge", "ksh"}
        With ``"hinge"`` dissimilar items should differ in half of the bits, with ``"ksh"`` in all of them (the L2 loss
        on inner products).
    n_similar : int
        Similar items sampled per item; memory and time grow with the sampled pairs only.
    n_dissimilar : int
        Dissimilar items sampled per item.
    n_steps : int
        Maximum number of steps of L-BFGS-B in the cube per bit.
    extension : {"trees", "linear", "kernel", "cnn"} or Extension
        Model that predicts the codes. The paper's kernel machine is an SVM; ``"kernel"`` is ridge regression.
    seed : int
        Random seed of the sampled pairs and of the extension.

    References
    ----------
    Lin, G., Shen, C., Suter, D. and van den Hengel, A. "A General Two-Step Approach to Learning-Based Hashing." ICCV
    2013. Differs from the paper in sampling pairs, as the authors' FastH does, and in ridge regression on Gaussian
    kernels instead of support vector machines.
    """

    card = MethodCard(
        name="tsh",
        title="Two-step hashing",
        authors="Lin, Shen, Suter, van den Hengel",
        venue="ICCV",
        year=2013,
        supervision="supervised",
        inputs="features",
        deviations=("sampled pairs", "ridge regression on Gaussian kernels instead of support vector machines"),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        loss: Loss = "hinge",
        n_similar: int = 100,
        n_dissimilar: int = 100,
        n_steps: int = 50,
        extension: str | Extension = "kernel",
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.loss = loss
        self.n_similar = n_similar
        self.n_dissimilar = n_dissimilar
        self.n_steps = n_steps
        self.extension = extension
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss not in MARGINS:
            raise UnknownName("loss", self.loss, MARGINS)
        self._check_at_least_one("n_similar", "n_dissimilar", "n_steps")

    def learn_codes(self, labels: Labels) -> Signs:
        """Return codes of -1 and +1 for the labelled items, shape (n, n_bits)."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        relation = sample_relation(labels, self.n_similar, self.n_dissimilar, rng)
        codes = np.ones((len(labels), self.n_bits), np.int8)
        for bit in range(self.n_bits):
            weights = pair_weights(relation, bit, MARGINS[self.loss])
            W = sparse.csr_array((weights, relation.indices, relation.indptr), shape=relation.shape)
            codes[:, bit] = relaxed_bit(W, self.n_steps, rng)
            relation = add_bit(relation, codes[:, bit])
        return codes


def relaxed_bit(W: Relation, n_steps: int, rng: np.random.Generator) -> Signs:  # noqa: N803
    """Decrease b'Wb over b in {-1, +1}^n by two relaxations.

    Parameters
    ----------
    W : sparse array, shape (n, n)
        Symmetric weights.
    n_steps : int
        Maximum number of steps in the cube.
    rng : Generator
        Source of the first vector of the eigenvalue solver.

    Returns
    -------
    ndarray of int8, shape (n,)
        The better of the rounded eigenvector and the rounded point of the cube.
    """
    spectral = _lowest_eigenvector(W, rng)
    scale = 1 / (np.abs(W.data).sum() or 1.0)

    def value_and_gradient(b: _Floats) -> tuple[float, _Floats]:
        slope = scale * (W @ b)
        return float(b @ slope), 2 * slope

    start = spectral / np.abs(spectral).max()
    bounds = Bounds(-np.ones(len(start)), np.ones(len(start)))
    cube = minimize(value_and_gradient, start, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": n_steps})
    candidates = [np.where(relaxed > 0, 1, -1) for relaxed in (cube.x, spectral)]
    return min(candidates, key=lambda b: b @ (W @ b)).astype(np.int8)


def _lowest_eigenvector(W: Relation, rng: np.random.Generator) -> _Floats:  # noqa: N803
    """Return the eigenvector of the smallest eigenvalue."""
    start = rng.standard_normal(W.shape[0])
    if W.shape[0] <= _DENSE_SIDE:
        vector: _Floats = np.linalg.eigh(W.toarray())[1][:, 0]
    else:
        vector = eigsh(W.astype(np.float64), 1, which="SA", v0=start)[1][:, 0]
    return vector
