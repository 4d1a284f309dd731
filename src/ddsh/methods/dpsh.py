"""DPSH: deep pairwise-supervised hashing."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._batch_terms import signs
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DPSH"]


class DPSH(DeepHasher):
    """Deep pairwise-supervised hashing.

    The network's outputs u are pulled towards codes b = sign(u) while their inner products model the similarity of
    pairs: p(similar) = sigmoid(u_i.u_j / 2). Every mini-batch is compared with all n training images; images outside
    the mini-batch keep the outputs of the last time they were seen.

    The loss is the mean negative log-likelihood of the pairs of a mini-batch with all images, plus eta / 2n times the
    mean of ||b - u||^2: the paper's objective divided by 2n^2, so that the learning rate does not depend on n. The
    factor 2 is due to the objective, which has every pair twice, while a mini-batch has it once.

    Parameters
    ----------
    n_bits : int
        Code length.
    eta : float
        Weight of the quantisation term, as in the paper's objective, which sums over n^2 pairs; the authors use 10 on
        CIFAR-10.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default was chosen on validation.
    seed : int
        Random seed.

    References
    ----------
    Li, W.-J., Wang, S. and Kang, W.-C. "Feature Learning Based Deep Supervised Hashing with Pairwise Labels." IJCAI,
    2016.
    Differs from the paper in the network, the learning rate, which falls geometrically, mini-batches of 32 instead of
    128, mirrored images, and fewer epochs.
    Similar pairs are not up-weighted: with ten balanced classes they are a tenth of all pairs, as published.
    """

    card = MethodCard(
        name="dpsh",
        title="Deep pairwise-supervised hashing",
        authors="Li, Wang, Kang",
        venue="IJCAI",
        year=2016,
        supervision="supervised",
        inputs="images",
        deviations=("mini-batches of 32, a rate that falls geometrically, mirrored images, fewer epochs",),
    )
    # Chosen on validation (experiments/choose-cifar10.toml): many small steps; momentum lets the outputs collapse.
    default_training = Training(epochs=12, learning_rate=0.3, final_lr=3e-3, batch_size=32, flip=True)
    needs_whole_batch = True
    loss_weights = ("eta",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        eta: float = 10.0,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.eta = eta

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        # Zeros have no effect on the loss: an image counts once it has been seen.
        self._U = np.zeros((len(labels), self.n_bits), np.float32)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        similar = torch.from_numpy(self._labels.take(rows).similar(self._labels)).to(outputs)
        U = torch.from_numpy(self._U).to(outputs, copy=True)
        U[rows] = outputs.detach()
        theta = outputs @ U.T / 2
        codes = self._codes(outputs, rows)
        # Eq. (4), divided by 2 n^2; its gradient is Eq. (7).
        pairs = functional.binary_cross_entropy_with_logits(theta, similar)
        return pairs + self.eta / (2 * len(U)) * (codes - outputs).square().sum(1).mean()

    def _codes(self, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the codes that the outputs are pulled towards."""
        return signs(outputs)

    def _after_batch(self, rows: Rows, outputs: NDArray[np.float32]) -> None:
        self._U[rows] = outputs

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"U": self._U}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._U = state["U"].copy()
