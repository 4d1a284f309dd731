"""KLSH: kernelised locality-sensitive hashing."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels
from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["KLSH"]

_Floats: TypeAlias = NDArray[np.float64]


class KLSH(Hasher):
    """Kernelised locality-sensitive hashing.

    Random hyperplanes in the feature space of a Gaussian kernel, which is never computed: by the central limit theorem
    the mean of a few random items, whitened by the covariance of a sample, is nearly a Gaussian direction.

    Parameters
    ----------
    n_bits : int
        Code length; any.
    n_anchors : int
        The paper's p: number of items drawn as the sample; all, if there are fewer.
    n_summed : int
        The paper's t: number of items of the sample that are added up for a bit; at most half of the sample.
    seed : int
        Random seed.

    Attributes
    ----------
    anchors_ : ndarray, shape (p, d)
        The sample.
    width_ : float
        Width of the kernel exp(-r^2 / (2 width^2)): width^2 is half the mean squared distance of training items to
        anchors.
    projection_ : ndarray, shape (p, n_bits)
        Weights w of the kernels with the sample; each column sums to zero.
    offset_ : ndarray, shape (n_bits,)
        Minus the mean output of the sample.

    References
    ----------
    Kulis, B. and Grauman, K. "Kernelized Locality-Sensitive Hashing for Scalable Image Search." ICCV 2009.
    Differs from the paper in the kernel, which depends on the data there: Gaussian, with a width computed from them.
    """

    card = MethodCard(
        name="klsh",
        title="Kernelised locality-sensitive hashing",
        authors="Kulis, Grauman",
        venue="ICCV",
        year=2009,
        supervision="unsupervised",
        inputs="features",
        deviations=("Gaussian kernel of a width computed from the data; the paper takes any kernel",),
    )

    def __init__(self, n_bits: int = 32, *, n_anchors: int = 300, n_summed: int = 30, seed: int = 0) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_summed = n_summed
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_anchors", "n_summed")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        anchors = choose_anchors(features, self.n_anchors, rng)
        width = rbf_width(features, anchors)
        kernel = kernel_map(anchors, anchors, width)
        n_summed = min(self.n_summed, max(1, len(anchors) // 2))
        subsets = np.zeros((len(anchors), self.n_bits))
        for bit in range(self.n_bits):
            subsets[rng.permutation(len(anchors))[:n_summed], bit] = 1
        self.anchors_, self.width_ = anchors, width
        self.projection_ = inverse_root(centre_kernel(kernel)) @ subsets
        # Of the terms that centre the kernel with a new item, only the means of the sample's columns are left: the
        # others are constant, and the weights of a bit sum to zero.
        self.offset_ = -kernel.mean(axis=0) @ self.projection_

    def _project(self, features: _Floats) -> Outputs:
        outputs: Outputs = kernel_product(features, self.anchors_, self.width_, self.projection_) + self.offset_
        return outputs


def centre_kernel(kernel: _Floats) -> _Floats:
    """Return the kernel of a sample whose mean in feature space is zero."""
    rows = kernel.mean(axis=0)
    centred: _Floats = kernel - rows - rows[:, None] + rows.mean()
    return centred


def inverse_root(matrix: _Floats) -> _Floats:
    """Return the pseudo-inverse of the square root of a symmetric matrix."""
    # The weights of a bit are w = K^-1/2 e_S; the paper's constant factor does not change a sign.
    values, vectors = np.linalg.eigh(matrix)
    kept = values > len(matrix) * np.finfo(np.float64).eps * max(values[-1], 1.0)
    root: _Floats = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    return root
