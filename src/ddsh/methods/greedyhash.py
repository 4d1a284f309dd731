"""GreedyHash: the sign in the network, and its gradient passed through."""

import numpy as np
import torch
from torch import Tensor

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._batch_terms import class_loss, seeded_linear, straight_through
from ddsh.methods._classes import class_matrix
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["GreedyHash"]


class GreedyHash(DeepHasher):
    """GreedyHash: a classifier on the codes themselves.

    The discrete problem, min L(B) over codes B, is solved greedily: B = sign(u - eta dL/dB). In a network this is a
    layer that puts out b = sign(u) and passes the gradient of b on to u unchanged. L is the loss of a linear classifier
    on b, which has no offsets, and a penalty keeps u close to its sign:

    L(b) + quantisation * mean(abs(abs(u) - 1)^3).

    Parameters
    ----------
    n_bits : int
        Code length.
    quantisation : float
        Weight of the penalty, the paper's alpha; the authors' release has 0.1 for CIFAR-10.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    seed : int
        Random seed.

    References
    ----------
    Su, S., Zhang, C., Han, K. and Tian, Y. "Greedy Hash: Towards Fast Optimization for Accurate Hash Coding in CNN."
    NeurIPS, 2018. Differs from the paper in the network and its schedule; the loss of images with several labels is the
    binary cross-entropy of each class.
    """

    card = MethodCard(
        name="greedyhash",
        title="Greedy hash",
        authors="Su, Zhang, Han, Tian",
        venue="NeurIPS",
        year=2018,
        supervision="supervised",
        inputs="images",
        deviations=("a rate that falls geometrically", "binary cross-entropy for several labels"),
    )
    # Chosen with the whole network (family-held-out-cifar10). At 0.02, a third of the best rates for the hash layer
    # alone, all images got one code.
    default_training = Training(epochs=12, learning_rate=0.005, final_lr=5e-5, batch_size=64, momentum=0.9, flip=True)
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

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._classes = class_matrix(labels, "greedyhash").tocsr()
        self._one_each = bool((np.diff(self._classes.indptr) == 1).all())
        self._helper = self._classifier = seeded_linear(self.n_bits, self._classes.shape[1], self.seed)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        targets = torch.from_numpy(self._classes[rows].toarray()).to(outputs)
        logits = self._classifier(straight_through(outputs))
        penalty = (outputs.abs() - 1).abs().pow(3).mean()
        return class_loss(logits, targets, one_each=self._one_each) + self.quantisation * penalty
