"""DHN: deep hashing network."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.methods._batch_terms import log_cosh, similar_pairs
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DHN"]


class DHN(DeepHasher):
    """Deep hashing network.

    With z = tanh(u) of the network's outputs u, the inner products of the pairs of a mini-batch model their similarity,
    p(similar) = sigmoid(z_i.z_j), and a quantisation loss log cosh(abs(z) - 1) pulls every z towards -1 or 1. The inner
    product is not scaled, neither in the paper nor in the authors' release.

    The loss is the mean cross-entropy of all pairs, including an image with itself, plus `quantisation` times the mean
    over images of the quantisation loss, summed over bits: the authors' scale.

    Parameters
    ----------
    n_bits : int
        Code length.
    quantisation : float
        Weight of the quantisation loss, the paper's lambda, which it chooses between 1e-5 and 100 by validation; the
        authors' release has 0.1.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default was chosen on validation.
    seed : int
        Random seed.

    References
    ----------
    Zhu, H., Long, M., Wang, J. and Cao, Y. "Deep Hashing Network for Efficient Similarity Retrieval." AAAI, 2016.
    Differs from the paper in the network, mini-batches of 32 instead of 64, a hash layer that learns as fast as the
    rest instead of ten times faster, a rate that falls geometrically, and no dropout.
    """

    card = MethodCard(
        name="dhn",
        title="Deep hashing network",
        authors="Zhu, Long, Wang, Cao",
        venue="AAAI",
        year=2016,
        supervision="supervised",
        inputs="images",
        deviations=("mini-batches of 32, a rate that falls geometrically, no dropout",),
    )
    # Chosen on validation (experiments/choose-cifar10.toml): many small steps.
    default_training = Training(epochs=12, learning_rate=2e-3, final_lr=2e-5, batch_size=32, momentum=0.9, flip=True)
    needs_whole_batch = True
    loss_weights = ("quantisation",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        quantisation: float = 0.1,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.quantisation = quantisation

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        similar = similar_pairs(self._labels, rows, outputs).to(outputs)
        z = torch.tanh(outputs)
        pairs = functional.binary_cross_entropy_with_logits(z @ z.T, similar)
        return pairs + self.quantisation * log_cosh(z.abs() - 1).sum(1).mean()
