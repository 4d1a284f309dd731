"""A network that learns codes which another method made."""

from collections.abc import Sized

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ddsh.base import MethodCard
from ddsh.errors import InvalidInput
from ddsh.labels import Labels, LabelsLike
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods._training import Training
from ddsh.networks.network import Network

_TRAINING = Training(passes=12, learning_rate=0.05, final_rate=5e-4, momentum=0.9, flip=True)


class CodeRegression(DeepHasher):
    """A network that learns given codes: ``fit(images, bits)``, where `bits` is a 0/1 matrix (n, n_bits).

    The loss is the mean of (sign - tanh(u))^2 over images and bits, u the outputs of the network.

    Parameters
    ----------
    n_bits : int
        Code length.
    network : str or Network
        A name of :data:`ddsh.networks.NETWORKS`, or your own.
    image_size : int, optional
        Side of the images that the network sees; its own if not given.
    n_frozen : int
        First stages of the network that keep their pretrained weights; what they put out is computed once.
    training : Training, optional
        Passes, learning rate and so on; the method's own if not given.
    seed : int
        Of everything random.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``mps``.
    weights : str, optional
        File with the network's pretrained weights, where they are not a package.
    memory : str, optional
        Folder where outputs of frozen stages are kept, for the next run; nothing is kept if not given.

    Attributes
    ----------
    model_ : HashNetwork
        The trained network.
    history_ : list of dict
        Loss of every pass.

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

    def __init__(
        self,
        n_bits: int = 32,
        *,
        network: str | Network = "efficientnet-lite0",
        image_size: int | None = None,
        n_frozen: int = 0,
        training: Training | None = None,
        seed: int = 0,
        device: str = "auto",
        weights: str | None = None,
        memory: str | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.network = network
        self.image_size = image_size
        self.n_frozen = n_frozen
        self.training = training
        self.seed = seed
        self.device = device
        self.weights = weights
        self.memory = memory

    def _schedule(self) -> Training:
        return self.training or _TRAINING

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
    """Return codes that were read as labels, or raise."""
    # A matrix of one column was read as one label per image.
    bits = labels.to_array().reshape(len(labels), -1)
    if bits.shape[1] != n_bits:
        raise InvalidInput(f"Codes of {n_bits} bits are a 0/1 matrix with {n_bits} columns; got {bits.shape[1]}.")
    if not np.isin(bits, (0, 1)).all():
        raise InvalidInput(f"Codes hold only 0 and 1; got {bits.dtype} with other values. Give bits, not class labels.")
    return np.asarray(bits == 1)
