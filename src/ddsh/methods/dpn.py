"""DPN: deep polarised network."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._classes import class_matrix, hash_centres
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DPN"]


class DPN(DeepHasher):
    """Deep polarised network: every output is pushed beyond a margin.

    Each class has a code t of -1 and +1 beforehand. The polarisation loss is the mean over bits of max(m - t u, 0): an
    output u is pushed to the side of t, at least m away from zero, and left alone there. It bounds the distances of
    images of the same class from above and those of others from below. An image of several labels has the sum of the
    losses of its classes.

    Parameters
    ----------
    n_bits : int
        Code length.
    margin : float
        m, above 0; the authors' release has 1.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed, also of the codes of the classes.

    References
    ----------
    Fan, L., Ng, K. W., Ju, C., Zhang, T. and Chan, C. S. "Deep Polarized Network for Supervised Learning of Accurate
    Binary Hashing Codes." IJCAI, 2020. Differs from the paper in the network and its schedule, and in codes of classes
    that are as far from each other as possible; the paper draws them at random. They are not updated (DPN-A).
    """

    card = MethodCard(
        name="dpn",
        title="Deep polarised network",
        authors="Fan, Ng, Ju, Zhang, Chan",
        venue="IJCAI",
        year=2020,
        supervision="supervised",
        inputs="images",
        deviations=("codes of classes from a Hadamard matrix; not updated", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.05, final_lr=5e-4, batch_size=64, momentum=0.9, flip=True)
    above_zero = ("margin",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        margin: float = 1.0,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.margin = margin

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        classes, rng = class_matrix(labels, "dpn"), self._rng(3)
        self._centres = hash_centres(classes.shape[1], self.n_bits, rng)
        # How many classes of each image have +1, and -1, at each bit.
        self._above, self._below = (classes @ (self._centres == sign).astype(np.float32) for sign in (1, -1))

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        above, below = (torch.from_numpy(counts[rows]).to(outputs) for counts in (self._above, self._below))
        # The polarisation loss: max(m - t u, 0).
        losses = above * functional.relu(self.margin - outputs) + below * functional.relu(self.margin + outputs)
        return losses.mean()
