"""Use of bits: balance, entropy, correlation, distinct codes."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes

__all__ = ["BitHealth", "bit_health"]

Floats: TypeAlias = NDArray[np.float64]
_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class BitHealth:
    """How well a set of codes uses its bits.

    Parameters
    ----------
    share : list of float
        Share of ones of each bit; a half is best.
    entropy : list of float
        Entropy of each bit, 0 to 1.
    mean_correlation, max_correlation : float
        Mean and largest absolute correlation of two bits; pairs with a constant bit have none and are left out.
    n_distinct, n_codes : int
        How many codes differ, and how many there are.
    collapsed : bool
        Whether a bit is constant, or too few codes differ to tell the classes apart.
    """

    share: list[float]
    entropy: list[float]
    mean_correlation: float
    max_correlation: float
    n_distinct: int
    n_codes: int
    collapsed: bool


def bit_health(codes: BinaryCodes, n_classes: int) -> BitHealth:
    """Measure how well `codes` use their bits to tell `n_classes` classes apart."""
    both = np.zeros((codes.n_bits, codes.n_bits))
    for start in range(0, len(codes), _BLOCK_ROWS):
        # Sums of up to 8192 ones are exact in single precision, whose products are the fastest.
        bits = codes[start : start + _BLOCK_ROWS].bits().astype(np.float32)
        both += bits.T @ bits
    share = both.diagonal() / len(codes)
    correlations = _correlations(both / len(codes), share)
    chances = np.stack([share, 1 - share])
    logs = np.log2(chances, out=np.zeros_like(chances), where=chances > 0)
    n_distinct = len(np.unique(codes.packed, axis=0))
    needed = max(2, min(n_classes, 2**codes.n_bits))
    return BitHealth(
        share=share.tolist(),
        entropy=np.maximum(-(chances * logs).sum(axis=0), 0.0).tolist(),
        mean_correlation=float(correlations.mean()) if correlations.size else 0.0,
        max_correlation=float(correlations.max(initial=0.0)),
        n_distinct=n_distinct,
        n_codes=len(codes),
        collapsed=bool(((share == 0) | (share == 1)).any()) or n_distinct < needed,
    )


def _correlations(both: Floats, share: Floats) -> Floats:
    """Return the absolute correlation of each pair of bits that vary, from their shares of ones."""
    varying = np.flatnonzero((share > 0) & (share < 1))
    deviation = np.sqrt(share * (1 - share))[varying]
    covariance = both[np.ix_(varying, varying)] - np.outer(share[varying], share[varying])
    pairs = np.triu_indices(len(varying), k=1)
    correlations: Floats = np.abs(covariance / np.outer(deviation, deviation))[pairs]
    return correlations.clip(max=1.0)
