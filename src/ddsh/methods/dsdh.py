"""DSDH: deep supervised discrete hashing."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
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

    where L is DPSH's negative log-likelihood of pairs and Y are the labels as 0 and 1. Before every epoch W is computed
    in closed form and B by discrete cyclic coordinate descent, as in SDH; then the network is trained with B fixed,
    which takes the place of sign(U) in DPSH.

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
        Maximum number of sweeps over the bits before every epoch.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed.

    Attributes
    ----------
    history_ : list of dict
        `objective` is mu |Y - BW|^2 + nu |W|^2 + eta |B - U|^2 after the discrete step.

    References
    ----------
    Li, Q., Sun, Z., He, R. and Tan, T. "Deep Supervised Discrete Hashing." NIPS, 2017. Differs from the paper in the
    network and its schedule, and in updating W and B once per epoch.
    """

    card = MethodCard(
        name="dsdh",
        title="Deep supervised discrete hashing",
        authors="Li, Sun, He, Tan",
        venue="NIPS",
        year=2017,
        supervision="supervised",
        inputs="images",
        deviations=("codes and classifier are updated once per epoch", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rate for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.01, final_lr=1e-4, batch_size=32, flip=True)
    loss_weights = ("eta",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        mu: float = 1.0,
        nu: float = 0.1,
        eta: float = 55.0,
        n_sweeps: int = 5,
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
        for name in ("mu", "nu"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be above 0; got {getattr(self, name)}.")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._classes = class_matrix(labels, "dsdh")
        self._B = self._rng(3).choice([-1.0, 1.0], self._U.shape)

    def _begin_epoch(self, number: int) -> tuple[Rows, float | None]:
        Y, U = self._classes, self._U.astype(np.float64)
        W = fit_classifier(self._B, Y, self.nu / self.mu)
        # As in SDH, with the outputs in the place of its kernel machine.
        self._B = solve_codes(self._B, Y @ W.T + self.eta / self.mu * U, W @ W.T, self.n_sweeps)
        error = np.square(Y.toarray() - self._B @ W).sum()
        objective = self.mu * error + self.nu * np.square(W).sum() + self.eta * np.square(self._B - U).sum()
        return np.arange(len(U)), float(objective)

    def _codes(self, outputs: Tensor, rows: Rows) -> Tensor:
        return torch.from_numpy(self._B[rows]).to(outputs)

    def _state(self) -> dict[str, NDArray[Any]]:
        return super()._state() | {"B": self._B}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._B = state["B"].copy()
