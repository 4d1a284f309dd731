"""Similarity of items by the real outputs behind their codes."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes

__all__ = ["Outputs", "similarity_to", "similarity_to_codes", "to_half", "typical_output"]

Outputs: TypeAlias = NDArray[np.floating[Any]]
"""Real outputs of a model, whose signs are the bits of the codes."""

_TINY = float(np.finfo(np.float32).tiny)


def to_half(outputs: Outputs) -> NDArray[np.float16]:
    """Return outputs as float16, clipped to its range."""
    most = float(np.finfo(np.float16).max)
    half: NDArray[np.float16] = np.clip(outputs, -most, most).astype("<f2")
    return half


def typical_output(query: Outputs) -> float:
    """Return the mean absolute output of a query, which serves as unit and as the output behind a bare bit."""
    return max(_TINY, float(np.abs(query).mean()))


def similarity_to(query: Outputs, outputs: Outputs) -> NDArray[np.floating[Any]]:
    """Return the cosine similarity between the outputs of a query and those of other items.

    Outputs are bounded by tanh first, in units of half the query's typical output, because a large output says little
    more than its sign.

    Parameters
    ----------
    query : ndarray, shape (n_bits,)
        Outputs of the query.
    outputs : ndarray, shape (n, n_bits)
        Outputs of the other items.
    """
    unit = typical_output(query)
    similarity: NDArray[np.floating[Any]] = _directions(outputs, unit) @ _directions(query[None], unit)[0]
    return similarity


def similarity_to_codes(query: Outputs, codes: BinaryCodes) -> NDArray[np.floating[Any]]:
    """Return the similarity to items of which only the codes are known (asymmetric distance)."""
    return similarity_to(query, np.float32(typical_output(query)) * codes.signs().astype(np.float32))


def _directions(outputs: Outputs, unit: float) -> Outputs:
    bounded = np.tanh(2 * outputs / unit)
    directions: Outputs = bounded / np.maximum(np.linalg.norm(bounded, axis=1, keepdims=True), _TINY)
    return directions
