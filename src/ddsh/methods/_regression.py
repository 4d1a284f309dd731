"""Network that learns given codes, for the extension ``cnn``."""

from collections.abc import Sized

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ddsh.errors import InvalidInput
from ddsh.labels import Labels, LabelsLike
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["CodeRegression"]


class CodeRegression(DeepHasher):
    """Network that learns given codes.

    ``fit(images, bits)`` takes the codes as a 0/1 matrix (n, n_bits). The loss is the mean of (sign - tanh(u))^2 over
    images and bits, where u are the outputs of the network.

    References
    ----------
    Jiang, Q.-Y., Cui, X. and Li, W.-J. "Deep Discrete Supervised Hashing." IEEE Transactions on Image Processing, 2018:
    the second stage of its variant COSDISH-CNN.
    Differs from the paper in the network and in its training, which the paper does not describe.
    """

    card = MethodCard(
        name="cnn",
        title="Network that learns given codes",
        authors="Jiang, Cui, Li",
        venue="IEEE TIP",
        year=2018,
        supervision="supervised",
        inputs="images",
        deviations=("the paper does not say how its network was trained",),
    )
    default_training = Training(epochs=12, learning_rate=0.05, final_lr=5e-4, momentum=0.9, flip=True)

    def _check_labels(self, items: Sized, y: LabelsLike | None) -> Labels | None:
        labels = super()._check_labels(items, y)
        assert labels is not None, "deep methods are supervised"
        _as_bits(labels, self.n_bits)
        return labels

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._signs = np.where(_as_bits(labels, self.n_bits), np.float32(1), np.float32(-1))

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        return functional.mse_loss(torch.tanh(outputs), torch.from_numpy(self._signs[rows]).to(outputs))


def _as_bits(labels: Labels, n_bits: int) -> NDArray[np.bool_]:
    """Return codes that were passed as labels, or raise."""
    # as_labels reads a matrix of one column as one label per image.
    bits = labels.to_array().reshape(len(labels), -1)
    if bits.shape[1] != n_bits:
        raise InvalidInput(f"Codes of {n_bits} bits are a 0/1 matrix with {n_bits} columns; got {bits.shape[1]}.")
    if not np.isin(bits, (0, 1)).all():
        raise InvalidInput(f"Codes must be 0 or 1; got {bits.dtype} with other values. Give bits, not class labels.")
    return np.asarray(bits == 1)
