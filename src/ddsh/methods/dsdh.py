"""DSDH: deep supervised discrete hashing."""

import numpy as np
import torch
from torch import Tensor

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._classes import class_matrix
from ddsh.methods._deep import Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.dpsh import DPSH
from ddsh.methods.sdh import fit_classifier, solve_codes
from ddsh.methods.training import Training

__all__ = ["DSDH"]


class DSDH(DPSH):
    """Deep supervised discrete hashing: DPSH whose codes also classify.

    Minimises over outputs U of the network, codes B and a linear classifier W

    L(U) + mu |Y - BW|^2 + nu |W|^2 + eta |B - U|^2,

    where L is DPSH's negative log-likelihood of pairs and Y are the labels as 0 and 1. For every mini-batch W is
    computed in closed form from the signs of its outputs, and B by discrete cyclic coordinate descent, as in SDH; then
    the network takes a step with B fixed, which takes the place of sign(U) in DPSH.

    Parameters
    ----------
    n_bits : int
        Code length.
    mu : float
        Weight of the classification of the codes.
    nu : float
        Weight of the squared norm of the classifier.
    eta : float
        Weight of the distance between codes and outputs.
    n_sweeps : int
        Maximum number of sweeps over the bits of a mini-batch; the authors' release has 10.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed.

    References
    ----------
    Li, Q., Sun, Z., He, R. and Tan, T. "Deep Supervised Discrete Hashing." NIPS, 2017. Differs from the paper in the
    network and its schedule. As in the authors' release, W and B are those of the mini-batch.
    """

    card = MethodCard(
        name="dsdh",
        title="Deep supervised discrete hashing",
        authors="Li, Sun, He, Tan",
        venue="NIPS",
        year=2017,
        supervision="supervised",
        inputs="images",
        deviations=("mini-batches of 32", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.05, final_lr=5e-4, batch_size=32, flip=True)
    loss_weights = ("eta",)
    above_zero = ("mu", "nu")

    def __init__(
        self,
        n_bits: int = 32,
        *,
        mu: float = 1.0,
        nu: float = 0.1,
        eta: float = 55.0,
        n_sweeps: int = 10,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, eta=eta, backbone=backbone, training=training, seed=seed)
        self.mu = mu
        self.nu = nu
        self.n_sweeps = n_sweeps

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_sweeps")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._classes = class_matrix(labels, "dsdh").tocsr()

    def _codes(self, outputs: Tensor, rows: Rows) -> Tensor:
        U, Y = outputs.detach().cpu().numpy().astype(np.float64), self._classes[rows].tocsc()
        B = np.where(U > 0, 1.0, -1.0)
        W = fit_classifier(B, Y, self.nu / self.mu)
        # As in SDH, with the outputs in the place of its kernel machine.
        B = solve_codes(B, Y @ W.T + self.eta / self.mu * U, W @ W.T, self.n_sweeps)
        return torch.from_numpy(B).to(outputs)
