"""Losses on pairs of codes: inner products against similarities."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LOSSES", "L2Loss", "LogisticLoss", "PairLoss", "as_loss"]

_Array: TypeAlias = NDArray[np.float64]


class PairLoss(ABC):
    """A loss l(g, s) of the inner product g of two codes and their similarity s.

    The inner product of codes of c bits lies between -c and c. Implement :meth:`mean` and :meth:`values` to use a
    custom loss: ``DDSH(32, loss=MyLoss())``.
    """

    @abstractmethod
    def mean(self, products: "Tensor", similarity: "Tensor", n_bits: int) -> "Tensor":
        """Return the mean loss of pairs, on a scale independent of the code length."""

    @abstractmethod
    def values(self, products: _Array, similarity: _Array, n_bits: int) -> _Array:
        """Return the loss of each pair."""

    def slope(self, products: _Array, similarity: _Array, n_bits: int) -> _Array:
        """Return (l(g + 1, s) - l(g - 1, s)) / 2, the coefficient of one unknown bit."""
        return (self.values(products + 1, similarity, n_bits) - self.values(products - 1, similarity, n_bits)) / 2


@dataclass(frozen=True)
class L2Loss(PairLoss):
    """The paper's loss: (c s - g)^2, divided by c^2 in the mean."""

    def mean(self, products: "Tensor", similarity: "Tensor", n_bits: int) -> "Tensor":
        """Return the mean of (s - g/c)^2."""
        from torch.nn.functional import mse_loss

        return mse_loss(products / n_bits, similarity)

    def values(self, products: _Array, similarity: _Array, n_bits: int) -> _Array:
        """Return (c s - g)^2."""
        return np.square(n_bits * similarity - products)


@dataclass(frozen=True)
class LogisticLoss(PairLoss):
    """Negative log-likelihood with p(similar) = sigmoid(g / 2), weighted by abs(s).

    As in LFH and DPSH.
    """

    def mean(self, products: "Tensor", similarity: "Tensor", n_bits: int) -> "Tensor":
        """Return the mean negative log-likelihood."""
        from torch.nn.functional import softplus

        return (similarity.abs() * softplus(-similarity.sign() * products / 2)).mean()

    def values(self, products: _Array, similarity: _Array, n_bits: int) -> _Array:
        """Return the negative log-likelihood of each pair."""
        return np.abs(similarity) * np.logaddexp(0.0, -np.sign(similarity) * products / 2)


LOSSES: Mapping[str, PairLoss] = {"l2": L2Loss(), "logistic": LogisticLoss()}
"""Losses by name."""


def as_loss(loss: str | PairLoss) -> PairLoss:
    """Return a loss, given by name or as an object."""
    if isinstance(loss, PairLoss):
        return loss
    if not isinstance(loss, str):
        raise InvalidInput(f"A loss is a name ({', '.join(LOSSES)}) or a PairLoss; got {loss!r}.")
    if loss not in LOSSES:
        raise UnknownName("loss", loss, LOSSES)
    return LOSSES[loss]
