"""DSH: deep supervised hashing."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.methods._batch_terms import similar_pairs
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DSH"]


class DSH(DeepHasher):
    """Deep supervised hashing.

    Similar pairs of a mini-batch are pulled together and dissimilar ones pushed apart, up to a squared distance of 2c,
    where c is the code length; a regulariser pulls every output towards -1 or 1. The loss is the mean over pairs of
    half of that and `quantisation` times the regulariser of both images.

    Parameters
    ----------
    n_bits : int
        Code length.
    quantisation : float
        Weight of the regulariser, the paper's alpha.
    per_bit : bool
        Divide the loss by c, which the paper does not.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default was chosen on validation.
    seed : int
        Random seed.

    References
    ----------
    Liu, H., Wang, R., Shan, S. and Chen, X. "Deep Supervised Hashing for Fast Image Retrieval." CVPR, 2016.
    Differs from the paper in the network, mini-batches of 64 instead of 200, a rate that falls geometrically, a weight
    decay of 5e-4 instead of 4e-3, and fewer epochs. A loss divided by the code length scored lower on validation
    (``choose-dsh-cifar10``).
    """

    card = MethodCard(
        name="dsh",
        title="Deep supervised hashing",
        authors="Liu, Wang, Shan, Chen",
        venue="CVPR",
        year=2016,
        supervision="supervised",
        inputs="images",
        deviations=("mini-batches of 64, a rate that falls geometrically, less weight decay, fewer epochs",),
    )
    # Chosen on validation (choose-cifar10, choose-dsh-cifar10).
    default_training = Training(
        epochs=12, learning_rate=0.0016, final_lr=1.6e-5, batch_size=64, momentum=0.9, flip=True
    )
    needs_whole_batch = True
    loss_weights = ("quantisation",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        quantisation: float = 0.01,
        per_bit: bool = False,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.quantisation = quantisation
        self.per_bit = per_bit

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        similar = similar_pairs(self._labels, rows, outputs)
        norms = outputs.square().sum(1)
        squared = norms[:, None] + norms - 2 * outputs @ outputs.T
        pairs = torch.where(similar, squared, functional.relu(2 * self.n_bits - squared)) / 2
        n_pairs = max(len(rows) * (len(rows) - 1) // 2, 1)  # the last mini-batch may have one image and no pair
        regulariser = (outputs.abs() - 1).abs().sum(1).mean()
        loss = pairs.triu(1).sum() / n_pairs + 2 * self.quantisation * regulariser
        return loss / self.n_bits if self.per_bit else loss
