"""Losses on pairs of items: how far the inner product of two codes is from what their similarity asks for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ddsh.errors import UnknownName


class PairLoss(ABC):
    """A loss l(g, s) of the inner product g of two codes and their similarity s.

    Parameters
    ----------
    n_bits : int
        Code length; g lies between -n_bits and n_bits.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits

    @abstractmethod
    def mean(self, products: Tensor, similarity: Tensor) -> Tensor:
        """Return the mean loss of pairs, scaled so that it does not grow with the code length."""

    @abstractmethod
    def values(self, products: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the loss of each pair."""

    def slope(self, products: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return half the rise of the loss from g - 1 to g + 1, which makes one open bit a quadratic problem."""
        return (self.values(products + 1, similarity) - self.values(products - 1, similarity)) / 2


class L2(PairLoss):
    """The paper's: (c s - g)^2, divided by c^2 in the mean."""

    def mean(self, products: Tensor, similarity: Tensor) -> Tensor:
        """Return the mean of (s - g/c)^2."""
        return functional.mse_loss(products / self.n_bits, similarity)

    def values(self, products: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (c s - g)^2."""
        return np.square(self.n_bits * similarity - products)


class Logistic(PairLoss):
    """The pairwise family's (LFH, DPSH): -log p(s | g) with p(similar) = sigmoid(g / 2); weighted by abs(s)."""

    def mean(self, products: Tensor, similarity: Tensor) -> Tensor:
        """Return the mean negative log-likelihood."""
        return (similarity.abs() * functional.softplus(-similarity.sign() * products / 2)).mean()

    def values(self, products: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the negative log-likelihood of each pair."""
        return np.abs(similarity) * np.logaddexp(0.0, -np.sign(similarity) * products / 2)


PAIR_LOSSES: Mapping[str, type[PairLoss]] = {"l2": L2, "logistic": Logistic}


def pair_loss(name: str, n_bits: int) -> PairLoss:
    """Return a loss by name, or say which one was probably meant."""
    if name not in PAIR_LOSSES:
        raise UnknownName("loss", name, PAIR_LOSSES)
    return PAIR_LOSSES[name](n_bits)
