"""Losses on codes, by inner products of pairs or of triplets."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "LOSSES",
    "HingeLoss",
    "L2Loss",
    "LogisticLoss",
    "Loss",
    "PairLoss",
    "TripletLoss",
    "as_loss",
    "describe_loss",
]

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
    """Negative log-likelihood with p(similar) = sigmoid(a g), weighted by abs(s).

    Parameters
    ----------
    scale : float, optional
        a times the code length c. By default a = 1/2, as in LFH and DPSH, which saturates as codes grow longer.
    """

    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not self.scale > 0:
            raise InvalidInput(f"scale must be above 0; got {self.scale}.")

    def mean(self, products: "Tensor", similarity: "Tensor", n_bits: int) -> "Tensor":
        """Return the mean negative log-likelihood."""
        from torch.nn.functional import softplus

        if self.scale is None:
            return (similarity.abs() * softplus(-similarity.sign() * products / 2)).mean()
        return (similarity.abs() * softplus(-similarity.sign() * products * (self.scale / n_bits))).mean()

    def values(self, products: _Array, similarity: _Array, n_bits: int) -> _Array:
        """Return the negative log-likelihood of each pair."""
        slope = 0.5 if self.scale is None else self.scale / n_bits
        return np.abs(similarity) * np.logaddexp(0.0, -np.sign(similarity) * products * slope)


@dataclass(frozen=True)
class HingeLoss(PairLoss):
    """Hinge loss max(0, m c - sign(s) g), weighted by abs(s), divided by c in the mean.

    Parameters
    ----------
    margin : float
        m, above 0 and at most 1: similar codes of c bits may differ in (1 - m) c / 2 of them, and dissimilar ones may
        agree in as many.
    """

    margin: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.margin <= 1:
            raise InvalidInput(f"margin must be above 0 and at most 1; got {self.margin}.")

    def mean(self, products: "Tensor", similarity: "Tensor", n_bits: int) -> "Tensor":
        """Return the mean of abs(s) max(0, m - sign(s) g/c)."""
        from torch.nn.functional import relu

        return (similarity.abs() * relu(self.margin - similarity.sign() * products / n_bits)).mean()

    def values(self, products: _Array, similarity: _Array, n_bits: int) -> _Array:
        """Return abs(s) max(0, m c - sign(s) g)."""
        return np.abs(similarity) * np.maximum(0.0, self.margin * n_bits - np.sign(similarity) * products)


@dataclass(frozen=True)
class TripletLoss:
    """Negative log-likelihood that an image is nearer to a similar one than to another, by a margin (as in DTSH).

    With inner products g_ip and g_in of codes of c bits it is log(1 + exp(m c - (g_ip - g_in) / 2)).

    Parameters
    ----------
    margin : float
        m, 0 to 1.
    n_triplets : int
        Triplets that the discrete step draws for each image; the network learns from all of a mini-batch.
    """

    margin: float = 0.5
    n_triplets: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 1:
            raise InvalidInput(f"margin must be 0 to 1; got {self.margin}.")
        if self.n_triplets < 1:
            raise InvalidInput(f"n_triplets must be 1 or more; got {self.n_triplets}.")

    def mean(self, products: "Tensor", similarity: "Tensor", n_bits: int) -> "Tensor":
        """Return the mean over all triplets of rows and two columns each, divided by c."""
        from torch.nn.functional import softplus

        from ddsh.methods._batch_terms import mean_or_zero

        similar = similarity > 0
        gaps = (products[:, :, None] - products[:, None, :])[similar[:, :, None] & ~similar[:, None, :]]
        return mean_or_zero(softplus(self.margin * n_bits - gaps / 2)) / n_bits

    def values(self, gaps: _Array, n_bits: int) -> _Array:
        """Return the loss of each difference g_ip - g_in."""
        return np.logaddexp(0.0, self.margin * n_bits - gaps / 2)


Loss: TypeAlias = PairLoss | TripletLoss

LOSSES: Mapping[str, type[Loss]] = {
    "l2": L2Loss,
    "logistic": LogisticLoss,
    "hinge": HingeLoss,
    "triplet": TripletLoss,
}
"""Losses by name."""


def as_loss(loss: str | Mapping[str, Any] | Loss) -> Loss:
    """Return a loss.

    Parameters
    ----------
    loss : str, mapping, PairLoss or TripletLoss
        A name of :data:`LOSSES`, ``{"kind": name}`` with parameters besides, or the loss itself.
    """
    if isinstance(loss, PairLoss | TripletLoss):
        return loss
    description = {"kind": loss} if isinstance(loss, str) else loss
    if not isinstance(description, Mapping) or "kind" not in description:
        raise InvalidInput(
            f"A loss is a name ({', '.join(LOSSES)}), a table with a kind, a PairLoss or a TripletLoss; got {loss!r}."
        )
    if description["kind"] not in LOSSES:
        raise UnknownName("loss", str(description["kind"]), LOSSES)
    params: dict[str, Any] = {name: value for name, value in description.items() if name != "kind"}
    try:
        return LOSSES[description["kind"]](**params)
    except TypeError as error:
        raise InvalidInput(f"The loss {description['kind']!r} does not take {', '.join(params)} ({error}).") from error


def describe_loss(loss: str | Mapping[str, Any] | Loss) -> Any:  # noqa: ANN401 -- plain JSON
    """Return a loss as plain JSON: its name, a table, or the repr of a loss of your own."""
    found = as_loss(loss)
    name = next((name for name, cls in LOSSES.items() if cls is type(found)), None)
    if name is None:
        return repr(found)
    params = {key: value for key, value in vars(found).items() if value is not None}
    return {"kind": name} | params if params else name
