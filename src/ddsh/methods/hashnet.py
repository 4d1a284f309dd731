"""HashNet: deep learning to hash by continuation."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._batch_terms import mean_or_zero, off_diagonal, similar_pairs
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["HashNet"]

_N_SAMPLED = 2000


class HashNet(DeepHasher):
    """HashNet: weighted likelihood of pairs, and a tanh that becomes the sign.

    With z = tanh(beta u) of the network's outputs u, p(similar) = sigmoid(alpha z_i.z_j), and the loss of a pair is

    w_ij (log(1 + exp(alpha z_i.z_j)) - s_ij alpha z_i.z_j),

    where w_ij is the number of all pairs divided by that of similar pairs, for a similar pair, times the share of their
    labels that both images have; and divided by that of dissimilar pairs for a dissimilar one, so that both kinds have
    the same weight. During training beta grows from 1 to `final_scale`, so that tanh(beta u) approaches the sign and no
    quantisation loss is needed.

    Parameters
    ----------
    n_bits : int
        Code length c.
    slope : float
        alpha times c; the authors' release has 10.
    final_scale : float
        beta at the end of training; before, beta^2 grows linearly from 1.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed.

    References
    ----------
    Cao, Z., Long, M., Wang, J. and Yu, P. S. "HashNet: Deep Learning to Hash by Continuation." ICCV, 2017.
    Differs from the paper in the network and in beta, which grows with every mini-batch, nearly as in the authors'
    release (sqrt(1 + 0.005 t) after t of 10,000 steps), and not in stages that each converge.
    """

    card = MethodCard(
        name="hashnet",
        title="HashNet: deep learning to hash by continuation",
        authors="Cao, Long, Wang, Yu",
        venue="ICCV",
        year=2017,
        supervision="supervised",
        inputs="images",
        deviations=("tanh sharpens with every mini-batch instead of in stages", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.005, final_lr=5e-5, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    above_zero = ("slope",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        slope: float = 10.0,
        final_scale: float = 7.0,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.slope = slope
        self.final_scale = final_scale

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("final_scale")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        rows = np.argsort(self._rng(3).random(len(labels)), kind="stable")[:_N_SAMPLED]
        some = labels.take(rows)
        apart = ~np.eye(len(some), dtype=np.bool_)
        share = float(some.similar(some)[apart].mean()) if len(some) > 1 else 0.5
        # Without similar, or without dissimilar pairs there is nothing to balance.
        self._balance = (1 / share, 1 / (1 - share)) if 0 < share < 1 else (1.0, 1.0)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        beta = math.sqrt(1 + (self.final_scale**2 - 1) * self._progress)
        z = torch.tanh(beta * outputs)
        labels = self._labels.take(rows)
        similar = similar_pairs(self._labels, rows, outputs)
        shared = torch.from_numpy(labels.overlap(labels, "jaccard")).to(outputs)
        weights = torch.where(similar, self._balance[0] * shared, self._balance[1])
        products = self.slope / self.n_bits * z @ z.T
        # Eq. (4), the weighted likelihood; the mean over pairs.
        losses = functional.binary_cross_entropy_with_logits(products, similar.to(outputs), weights, reduction="none")
        return mean_or_zero(off_diagonal(losses))
