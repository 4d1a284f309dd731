"""DSRH: deep semantic ranking hashing."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DSRH"]


class DSRH(DeepHasher):
    """Deep semantic ranking hashing: rank by the number of shared labels.

    Each image of a mini-batch is a query to which the others are ranked. r_i is the number of labels that image i
    shares with it, and d_i = (c - h_q.h_i) / 2 the Hamming distance, with h = tanh of the outputs. The loss of a query
    is the sum over pairs with r_i > r_j of

    w_ij max(0, d_i - d_j + margin c),    w_ij = (2^r_i - 2^r_j) / Z,

    a bound of NDCG, where Z makes the weights of a query add up to 1; `balance` / 2 times the squared mean of each bit
    over the mini-batch is added. With one label per image it is a triplet loss.

    Parameters
    ----------
    n_bits : int
        Code length c.
    margin : float
        Margin in shares of the code length; half of the bits makes bits equal (``choose-margin-cifar10``).
    balance : float
        Weight of the balance of bits, the paper's alpha.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    seed : int
        Random seed.

    References
    ----------
    Zhao, F., Huang, Y., Wang, L. and Tan, T. "Deep Semantic Ranking Based Hashing for Multi-Label Image Retrieval."
    CVPR, 2015. Differs from the paper in the network, in ranking whole mini-batches instead of sampled lists, and in a
    Z that is the sum of the weights instead of the ideal DCG, which differs by a factor per query.
    """

    card = MethodCard(
        name="dsrh",
        title="Deep semantic ranking hashing",
        authors="Zhao, Huang, Wang, Tan",
        venue="CVPR",
        year=2015,
        supervision="supervised",
        inputs="images",
        deviations=("another network", "whole mini-batches are ranked", "a rate that falls geometrically"),
    )
    # Chosen with the whole network (family-held-out-cifar10, choose-margin-cifar10).
    default_training = Training(epochs=12, learning_rate=0.03, final_lr=3e-4, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    loss_weights = ("balance",)
    above_zero = ("margin",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        margin: float = 0.1,
        balance: float = 1.0,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.margin = margin
        self.balance = balance

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        h = torch.tanh(outputs)
        distances = (1 - h @ h.T / self.n_bits) / 2
        labels = self._labels.take(rows)
        gains = torch.exp2(torch.from_numpy(labels.n_shared(labels)).to(outputs))
        others = 1 - torch.eye(len(rows), dtype=outputs.dtype, device=outputs.device)
        # The weights of pairs (i, j) of each query q, shape (q, i, j); a query is not ranked to itself.
        weights = functional.relu(gains[:, :, None] - gains[:, None, :]) * others[:, :, None] * others[:, None, :]
        weights = weights / weights.sum((1, 2), keepdim=True).clamp_min(1)
        errors = functional.relu(distances[:, :, None] - distances[:, None, :] + self.margin)
        ranking = (weights * errors).sum((1, 2)).mean()
        return ranking + self.balance / 2 * h.mean(0).square().mean()
