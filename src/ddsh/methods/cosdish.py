"""COSDISH: column sampling based discrete supervised hashing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._bqp import Context, Signs, Solver, code_omega
from ddsh.methods._extensions import Extension
from ddsh.methods._similarity import Dissimilar, check_choices, dissimilar_weight
from ddsh.methods._two_step import TwoStepHasher
from ddsh.methods.base import MethodCard

__all__ = ["COSDISH"]


class COSDISH(TwoStepHasher):
    """Column sampling based discrete supervised hashing.

    A few columns Omega of the similarity matrix S are sampled at a time. Their codes are learned bit by bit, as binary
    quadratic programmes; the codes of all other items Gamma are the signs of S^Gamma B^Omega. Both steps alternate,
    then other columns are sampled. Only the sampled columns of S are computed.

    Parameters
    ----------
    n_bits : int
        Code length.
    n_omega : int, optional
        Number of sampled columns (all, if there are fewer items); `n_bits` by default, plus one if that is odd.
    n_samplings : int
        Number of samples of columns.
    n_alternations : int
        Alternations per sample.
    solver : {"clustering", "local", "exact"}
        Solver of one bit of Omega's codes.
    context : {"before", "others"}
        The bits that are fixed while one is solved: those before it, or all others.
    dissimilar : {"balanced", "minus-one"}
        S of dissimilar pairs: -r with r = similar / dissimilar pairs, so that both have equal total weight, or -1.
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
    Kang, W.-C., Li, W.-J. and Zhou, Z.-H. "Column Sampling Based Discrete Supervised Hashing." AAAI 2016. Differs from
    the paper in S = -r for dissimilar pairs, as in the authors' release of DDSH, instead of -1 (``"minus-one"``), and
    in LightGBM's boosted trees. The solver ``clustering`` suits few columns: it balances every bit on Omega, so
    that items similar to no sampled one keep their codes; with ``local``, set `n_omega` to 100 or more.
    The DDSH paper's variants COSDISH-Linear and COSDISH-CNN are the extensions ``linear`` and ``cnn``.
    """

    card = MethodCard(
        name="cosdish",
        title="Column sampling based discrete supervised hashing",
        authors="Kang, Li, Zhou",
        venue="AAAI",
        year=2016,
        supervision="supervised",
        inputs="features",
        deviations=("S = -r for dissimilar pairs, so that they weigh as much as similar ones", "LightGBM's trees"),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_omega: int | None = None,
        n_samplings: int = 10,
        n_alternations: int = 3,
        solver: Solver = "clustering",
        context: Context = "before",
        dissimilar: Dissimilar = "balanced",
        extension: str | Extension = "trees",
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_omega = n_omega
        self.n_samplings = n_samplings
        self.n_alternations = n_alternations
        self.solver = solver
        self.context = context
        self.dissimilar = dissimilar
        self.extension = extension
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_omega", "n_samplings", "n_alternations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name} must be at least 1; got {value}.")
        check_choices(solver=self.solver, context=self.context, dissimilar=self.dissimilar)

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter as plain JSON, with the number of columns resolved."""
        return super().describe_params() | {"n_omega": self._n_omega()}

    def _n_omega(self) -> int:
        # An odd Omega cannot be balanced: all items that are similar to none of it would get the same code.
        return self.n_omega or self.n_bits + self.n_bits % 2

    def learn_codes(self, labels: Labels) -> Signs:
        """Return codes of -1 and +1 for the labelled items, shape (n, n_bits)."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        n_omega = self._n_omega()
        B = rng.choice(np.array([-1, 1], np.int8), (len(labels), self.n_bits))
        for _ in range(self.n_samplings):
            omega = np.sort(rng.permutation(len(B))[:n_omega])
            gamma = np.setdiff1d(np.arange(len(B)), omega)
            similar = labels.similar(labels.take(omega))
            weight = dissimilar_weight(similar, self.dissimilar)
            S = np.where(similar, 1.0, -weight)
            for _ in range(self.n_alternations):
                B[omega] = code_omega(
                    B[omega], B[gamma], S[omega], S[gamma], solver=self.solver, context=self.context, rng=rng
                )
                B[gamma] = code_gamma(B[gamma], B[omega], similar[gamma], weight)
        return B


def code_gamma(B_gamma: Signs, B_omega: Signs, similar: NDArray[np.bool_], weight: float) -> Signs:  # noqa: N803
    """Return the codes of the items that were not sampled: the signs of S B_omega.

    A zero keeps the current bit.

    Parameters
    ----------
    B_gamma : ndarray of -1 and +1, shape (n, c)
        Current codes of the items that were not sampled.
    B_omega : ndarray of -1 and +1, shape (m, c)
        Codes of the sampled items.
    similar : ndarray of bool, shape (n, m)
        Whether each pair is similar.
    weight : float
        S is 1 for similar pairs and -`weight` for others.
    """
    # Sums of integers are exact in any order, so that a zero is a zero on every machine.
    alike = similar.astype(np.float64) @ B_omega
    pull = alike - weight * (B_omega.sum(axis=0, dtype=np.int64) - alike)
    return np.where(pull == 0, B_gamma, np.where(pull > 0, 1, -1)).astype(np.int8)
