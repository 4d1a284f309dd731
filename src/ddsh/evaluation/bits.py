"""Balance, entropy and correlation of the bits of codes."""

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
    """Statistics of the bits of a set of codes.

    Parameters
    ----------
    share : list of float
        Fraction of ones of each bit; 0.5 is best.
    entropy : list of float
        Entropy of each bit, 0 to 1.
    mean_correlation, max_correlation : float
        Mean and largest absolute correlation of two bits; pairs with a constant bit are left out.
    n_distinct, n_codes : int
        Number of distinct codes, and of codes.
    collapsed : bool
        Whether a bit is constant, or there are fewer distinct codes than classes.
    """

    share: list[float]
    entropy: list[float]
    mean_correlation: float
    max_correlation: float
    n_distinct: int
    n_codes: int
    collapsed: bool


def bit_health(codes: BinaryCodes, n_classes: int) -> BitHealth:
    """Return statistics of the bits of `codes` for `n_classes` classes."""
    both = np.zeros((codes.n_bits, codes.n_bits))
    for start in range(0, len(codes), _BLOCK_ROWS):
        # Sums of up to 8192 ones are exact in single precision, which is faster.
        bits = codes[start : start + _BLOCK_ROWS].bits().astype(np.float32)
        both += bits.T @ bits
    share = both.diagonal() / len(codes)
    varying = np.flatnonzero((share > 0) & (share < 1))
    deviation = np.sqrt(share * (1 - share))[varying]
    covariance = (both / len(codes))[np.ix_(varying, varying)] - np.outer(share[varying], share[varying])
    pairs = np.triu_indices(len(varying), k=1)
    correlations: Floats = np.abs(covariance / np.outer(deviation, deviation))[pairs].clip(max=1.0)
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
