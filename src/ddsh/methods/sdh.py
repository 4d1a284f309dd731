"""SDH: supervised discrete hashing."""

# ruff: noqa: N803 -- arguments carry the paper's letters

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._classes import ClassMatrix, class_matrix
from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["SDH"]

_Floats: TypeAlias = NDArray[np.float64]


class SDH(Hasher):
    """Supervised discrete hashing.

    Minimises |Y - BW|^2 + lambda |W|^2 + nu |B - F|^2 over codes B, a linear classifier W and the outputs F of a kernel
    machine, where Y are the labels as 0 and 1. New items are encoded by F.

    Parameters
    ----------
    n_bits : int
        Code length.
    n_anchors : int
        Number of training items drawn as anchors of the kernel; all, if there are fewer.
    n_rounds : int
        Rounds of classifier, kernel machine and codes.
    n_sweeps : int
        Maximum number of sweeps over the bits per round; it stops early when no code changes.
    label_ridge : float
        The paper's lambda.
    nu : float
        Weight of the kernel machine.
    kernel_ridge : float
        Ridge of the kernel machine.
    seed : int
        Random seed of the anchors and of the initial codes.

    Attributes
    ----------
    anchors_ : ndarray, shape (m, d)
        The anchors.
    width_ : float
        Width of the kernel exp(-r^2 / (2 width^2)): width^2 is half the mean squared distance of training items to
        anchors.
    projection_ : ndarray, shape (m, n_bits)
        Weights of the kernel machine.
    offset_ : ndarray, shape (n_bits,)
        Constant term of the kernel machine.

    References
    ----------
    Shen, F., Shen, C., Liu, W. and Shen, H. T. "Supervised Discrete Hashing." CVPR 2015.
    Differs from the paper in a kernel width computed from the data, and in a kernel machine with a small ridge (1,000
    anchors are often nearly dependent) and a constant term.
    """

    card = MethodCard(
        name="sdh",
        title="Supervised discrete hashing",
        authors="Shen, Shen, Liu, Shen",
        venue="CVPR",
        year=2015,
        supervision="supervised",
        inputs="features",
        deviations=(
            "kernel width from the data",
            "kernel machine with a small ridge and a constant term",
        ),
    )
    above_zero = ("label_ridge", "kernel_ridge")

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int = 1000,
        n_rounds: int = 5,
        n_sweeps: int = 10,
        label_ridge: float = 1.0,
        nu: float = 1e-5,
        kernel_ridge: float = 1e-2,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_rounds = n_rounds
        self.n_sweeps = n_sweeps
        self.label_ridge = label_ridge
        self.nu = nu
        self.kernel_ridge = kernel_ridge
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_anchors", "n_rounds", "n_sweeps")
        if not self.nu >= 0:
            raise InvalidInput(f"nu must be 0 or more; got {self.nu}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        assert labels is not None, "SDH is supervised"
        targets = class_matrix(labels, "sdh")
        rng = np.random.Generator(np.random.PCG64(self.seed))
        self.anchors_ = choose_anchors(features, self.n_anchors, rng)
        self.width_ = rbf_width(features, self.anchors_)
        machine = KernelMachine(kernel_map(features, self.anchors_, self.width_), self.kernel_ridge)
        B = rng.choice([-1.0, 1.0], (len(features), self.n_bits))
        for _ in range(self.n_rounds):
            W = fit_classifier(B, targets, self.label_ridge)
            B = solve_codes(B, targets @ W.T + self.nu * machine.outputs(B), W @ W.T, self.n_sweeps)
        self.projection_, self.offset_ = machine.fit(B)

    def _project(self, features: _Floats) -> Outputs:
        return kernel_product(features, self.anchors_, self.width_, self.projection_) + self.offset_


class KernelMachine:
    """Ridge regression of codes on the kernel, factored once for all rounds.

    Parameters
    ----------
    kernel : ndarray, shape (n, m)
        Kernel between training items and anchors; not centred.
    ridge : float
        Weight of the squared norm of P; the offset is not penalised.
    """

    def __init__(self, kernel: _Floats, ridge: float) -> None:
        self._mean = kernel.mean(axis=0)
        self._centred = kernel - self._mean
        gram = self._centred.T @ self._centred
        gram[np.diag_indices_from(gram)] += ridge
        self._factor = linalg.cho_factor(gram)

    def fit(self, B: _Floats) -> tuple[_Floats, _Floats]:
        """Return weights P and offset of the regression of B on the kernel."""
        P: _Floats = linalg.cho_solve(self._factor, self._centred.T @ B)
        return P, B.mean(axis=0) - self._mean @ P

    def outputs(self, B: _Floats) -> _Floats:
        """Return F, the predictions for the training items after a fit to B."""
        P, _ = self.fit(B)
        fitted: _Floats = self._centred @ P + B.mean(axis=0)
        return fitted


def fit_classifier(B: _Floats, targets: ClassMatrix, ridge: float) -> _Floats:
    """Return W, shape (n_bits, n_classes), that minimises |Y - BW|^2 + ridge |W|^2."""
    W: _Floats = linalg.solve(B.T @ B + ridge * np.eye(B.shape[1]), (targets.T @ B).T, assume_a="pos")
    return W


def solve_codes(B: _Floats, pull: _Floats, coupling: _Floats, n_sweeps: int) -> _Floats:
    """Decrease |BW|^2 - 2 tr(B'Q) by discrete cyclic coordinate descent.

    Parameters
    ----------
    B : ndarray of -1 and +1, shape (n, n_bits)
        Initial codes.
    pull : ndarray, shape (n, n_bits)
        Q = YW' + nu F.
    coupling : ndarray, shape (n_bits, n_bits)
        WW'.
    n_sweeps : int
        Maximum number of sweeps over the bits.

    Returns
    -------
    ndarray of -1 and +1, shape (n, n_bits)
        Final codes.
    """
    codes = np.array(B, order="F")
    for _ in range(n_sweeps):
        before = codes.copy()
        for bit in range(codes.shape[1]):
            codes[:, bit] = best_bit(codes, pull, coupling, bit)
        if np.array_equal(codes, before):
            break
    return codes


def best_bit(B: _Floats, pull: _Floats, coupling: _Floats, bit: int) -> _Floats:
    """Return the best values of one bit with the others fixed; ties keep the bit."""
    # The paper's closed form z = sign(q - B'W'v), where B', W' are without the bit and v is the bit's row of W.
    rest = coupling[:, bit].copy()
    rest[bit] = 0
    linear = pull[:, bit] - B @ rest
    return np.where(linear == 0, B[:, bit], np.sign(linear))
