"""ADSH: asymmetric deep supervised hashing."""

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ddsh.backbones import Backbone
from ddsh.codes import BinaryCodes
from ddsh.labels import Labels
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods._similarity import similarity
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["ADSH"]

_Floats: TypeAlias = NDArray[np.float64]


class ADSH(DeepHasher):
    """Asymmetric deep supervised hashing: the database's codes are learned.

    The codes V of the training images, which are the whole database in the paper, are variables of their own, and only
    queries are encoded by the network. With u = tanh of its outputs, ADSH minimises

    sum over i in Omega, j of (u_i.v_j - c S_ij)^2 + gamma * sum over i in Omega of ||v_i - u_i||^2,

    where Omega is a sample of the training images. The network is trained with V fixed, then V is updated bit by bit;
    each bit of all images has a closed form.

    :meth:`encode` returns the network's codes. The paper's protocol takes `codes_` for the database, as protocols with
    the suffix ``-learned-database`` do. Its database has labels, therefore its scores belong in no table with those of
    methods that learn from a part of the database.

    Parameters
    ----------
    n_bits : int
        Code length c.
    gamma : float
        Weight of the distance between the codes of Omega and the network's outputs, relative to the number of images,
        which the first sum grows with; the authors have 200 for a database of 59,000 images.
    n_omega : int
        Images in Omega, at most all.
    n_inner : int
        Epochs with the same Omega, after which V is updated.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; its epochs are over Omega.
    seed : int
        Random seed.

    Attributes
    ----------
    codes_ : BinaryCodes
        Learned codes of the training images; not saved with the model.
    history_ : list of dict
        `objective` is the mean loss on Omega after an update of V.

    References
    ----------
    Jiang, Q.-Y. and Li, W.-J. "Asymmetric Deep Supervised Hashing." AAAI, 2018. Differs from the paper in the network
    and its schedule. As in the authors' release, S = -r for dissimilar pairs, so that they weigh as much as similar
    ones.
    """

    card = MethodCard(
        name="adsh",
        title="Asymmetric deep supervised hashing",
        authors="Jiang, Li",
        venue="AAAI",
        year=2018,
        supervision="supervised",
        inputs="images",
        deviations=("encoding is by the network alone; the learned codes of the database are an attribute",),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=36, learning_rate=0.1, final_lr=1e-3, batch_size=64, momentum=0.9, flip=True)
    loss_weights = ("gamma",)
    learns_database = True

    def __init__(
        self,
        n_bits: int = 32,
        *,
        gamma: float = 0.004,
        n_omega: int = 2000,
        n_inner: int = 3,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.gamma = gamma
        self.n_omega = n_omega
        self.n_inner = n_inner

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_omega", "n_inner")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._V = self._rng(3).choice([-1.0, 1.0], (len(labels), self.n_bits))
        self._U = np.zeros((len(labels), self.n_bits), np.float32)
        self._omega = np.empty(0, np.int64)

    def _begin_epoch(self, number: int) -> tuple[Rows, float | None]:
        objective = None
        if number % self.n_inner == 0:
            objective = self._update_codes()
            order = np.argsort(self._rng(4, number).random(len(self._V)), kind="stable")
            self._omega = np.sort(order[: self.n_omega])
        return self._omega, objective

    def _update_codes(self) -> float | None:
        """Update V for the outputs of Omega, if there are any; return the mean loss."""
        if not len(self._omega):
            return None
        S, U = self._similarity(self._omega), np.tanh(self._U[self._omega].astype(np.float64))
        gamma = self.gamma * len(self._V)
        self._V = update_codes(self._V, U, S, self._omega, gamma)
        return asymmetric_objective(self._V, U, S, self._omega, gamma) / (S.size * self.n_bits**2)

    def _similarity(self, rows: Rows) -> _Floats:
        return similarity(self._labels.take(rows), self._labels, dissimilar="balanced", multilabel="none")

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        u = torch.tanh(outputs)
        V = torch.from_numpy(self._V).to(outputs)
        S = torch.from_numpy(self._similarity(rows)).to(outputs)
        # The asymmetric loss, divided by n |Omega| c^2.
        pairs = (u @ V.T / self.n_bits - S).square().mean()
        return pairs + self.gamma / self.n_bits**2 * (V[torch.from_numpy(rows)] - u).square().sum(1).mean()

    def _after_batch(self, rows: Rows, outputs: NDArray[np.float32]) -> None:
        self._U[rows] = outputs

    def _end_fit(self) -> None:
        self._update_codes()
        self.codes_ = BinaryCodes.from_signs(self._V.astype(np.int8))

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"V": self._V, "U": self._U, "omega": self._omega}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._V, self._U, self._omega = (state[name].copy() for name in ("V", "U", "omega"))


def update_codes(V: _Floats, U: _Floats, S: _Floats, omega: Rows, gamma: float) -> _Floats:  # noqa: N803
    """Return V with every bit set to its best value in turn; no step raises the objective.

    Parameters
    ----------
    V : ndarray of -1 and +1, shape (n, c)
        Codes of all images.
    U : ndarray, shape (m, c)
        Outputs of Omega, between -1 and 1.
    S : ndarray, shape (m, n)
        Similarities of Omega to all images.
    omega : ndarray of int, shape (m,)
        Rows of Omega.
    gamma : float
        Weight of the distance between codes and outputs of Omega.
    """
    n_bits = V.shape[1]
    V = V.copy()
    # The objective is |V U'|^2 + tr(V Q') + constant.
    Q = -2 * n_bits * S.T @ U
    Q[omega] -= 2 * gamma * U
    for bit in range(n_bits):
        others = np.arange(n_bits) != bit
        # Eq. (10), the optimal column; where the bit has no effect it stays.
        slope = 2 * V[:, others] @ (U[:, others].T @ U[:, bit]) + Q[:, bit]
        V[:, bit] = np.where(slope == 0, V[:, bit], -np.sign(slope))
    return V


def asymmetric_objective(V: _Floats, U: _Floats, S: _Floats, omega: Rows, gamma: float) -> float:  # noqa: N803
    """Return |U V' - c S|^2 + gamma |V_omega - U|^2."""
    pairs = np.square(U @ V.T - V.shape[1] * S).sum()
    return float(pairs + gamma * np.square(V[omega] - U).sum())
