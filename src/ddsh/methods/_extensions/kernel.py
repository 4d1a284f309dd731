"""Extension ``kernel``: ridge regression on Gaussian kernels."""

from dataclasses import dataclass

import numpy as np

from ddsh.methods._extensions.base import Arrays, Extension, Features, FitOptions, Learned, Signs, check_positive
from ddsh.methods._extensions.linear import LinearMap
from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width
from ddsh.methods.base import Outputs

__all__ = ["Kernel", "KernelMap"]


@dataclass(frozen=True)
class Kernel(Extension):
    """Ridge regression on Gaussian kernels between items and anchors.

    Parameters
    ----------
    n_anchors : int
        Number of training items drawn as anchors; all, if there are fewer.
    ridge : float
        Weight of the penalty, in units of the kernels' mean variance times the number of items.
    """

    kind = "kernel"
    n_anchors: int = 1000
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        check_positive(self, "n_anchors", "ridge")

    def learn(self, items: Features, signs: Signs, *, seed: int, options: FitOptions) -> "KernelMap":
        """Draw anchors and solve the regression."""
        anchors = choose_anchors(items, self.n_anchors, np.random.Generator(np.random.PCG64(seed)))
        width = rbf_width(items, anchors)
        return KernelMap(anchors, width, LinearMap.fit(kernel_map(items, anchors, width), signs, self.ridge))

    def restore(self, arrays: Arrays) -> "KernelMap":
        """Return the kernel map from its arrays."""
        linear = {name: array for name, array in arrays.items() if name not in ("anchors", "width")}
        return KernelMap(arrays["anchors"], arrays["width"].item(), LinearMap(**linear))


@dataclass(frozen=True)
class KernelMap(Learned):
    """An affine function of Gaussian kernels.

    Parameters
    ----------
    anchors : ndarray, shape (m, d)
        Centres of the kernels.
    width : float
        Standard deviation of the kernels.
    linear : LinearMap
        Affine function of the m kernels.
    """

    anchors: Features
    width: float
    linear: LinearMap

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.anchors.shape[1])

    def project(self, items: Features) -> Outputs:
        """Return the values of the function."""
        return kernel_product(items, self.anchors, self.width, self.linear.weights) + self.linear.constant

    def to_arrays(self) -> Arrays:
        """Return anchors, width and the linear map."""
        return {"anchors": self.anchors, "width": np.array([self.width])} | self.linear.to_arrays()
