"""Whether codes use their bits: how often each bit is one, how alike bits are, how many codes differ."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes

Floats: TypeAlias = NDArray[np.float64]
N_BINS = 50
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


@dataclass(frozen=True)
class Histogram:
    """How many values fall between neighbouring edges.

    Parameters
    ----------
    edges : list of float
        Ascending; one more than `counts`.
    counts : list of int
        Values from one edge to the next.
    """

    edges: list[float]
    counts: list[int]


def bit_health(codes: BinaryCodes, n_classes: int) -> BitHealth:
    """Say how well `codes` use their bits to tell `n_classes` classes apart."""
    together = _ones_together(codes)
    share = together.diagonal() / len(codes)
    correlations = _correlations(together / len(codes), share)
    n_distinct = len(np.unique(codes.packed, axis=0))
    needed = max(2, min(n_classes, 2**codes.n_bits))
    return BitHealth(
        share=share.tolist(),
        entropy=_entropy(share).tolist(),
        mean_correlation=float(correlations.mean()) if correlations.size else 0.0,
        max_correlation=float(correlations.max(initial=0.0)),
        n_distinct=n_distinct,
        n_codes=len(codes),
        collapsed=bool(((share == 0) | (share == 1)).any()) or n_distinct < needed,
    )


def histogram_of_outputs(outputs: NDArray[np.floating[Any]]) -> Histogram:
    """Count what a network puts out, after tanh, from -1 to 1: values near the ends make safe bits."""
    counts, edges = np.histogram(np.tanh(outputs.astype(np.float64)), bins=N_BINS, range=(-1.0, 1.0))
    return Histogram(edges.tolist(), counts.tolist())


def _ones_together(codes: BinaryCodes) -> Floats:
    """Return how many codes have a one in both of two bits, shape (n_bits, n_bits)."""
    together = np.zeros((codes.n_bits, codes.n_bits))
    for start in range(0, len(codes), _BLOCK_ROWS):
        # Sums of up to 8192 ones are exact in single precision, whose products are the fastest.
        bits = codes[start : start + _BLOCK_ROWS].bits().astype(np.float32)
        together += bits.T @ bits
    return together


def _correlations(both: Floats, share: Floats) -> Floats:
    """Return the absolute correlation of each pair of bits that vary, from their shares of ones."""
    varying = np.flatnonzero((share > 0) & (share < 1))
    deviation = np.sqrt(share * (1 - share))[varying]
    covariance = both[np.ix_(varying, varying)] - np.outer(share[varying], share[varying])
    pairs = np.triu_indices(len(varying), k=1)
    correlations: Floats = np.abs(covariance / np.outer(deviation, deviation))[pairs]
    return correlations.clip(max=1.0)


def _entropy(share: Floats) -> Floats:
    """Return the entropy of bits that are one with these chances."""
    chances = np.stack([share, 1 - share])
    logs = np.log2(chances, out=np.zeros_like(chances), where=chances > 0)
    entropy: Floats = np.maximum(-(chances * logs).sum(axis=0), 0.0)
    return entropy
