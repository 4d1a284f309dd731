"""How near items are by the real outputs behind their codes, which tell items at equal distance apart."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes

Outputs: TypeAlias = NDArray[np.floating[Any]]
_TINY = float(np.finfo(np.float32).tiny)


def to_half(outputs: Outputs) -> NDArray[np.float16]:
    """Return outputs as float16, the largest ones cut to what it holds."""
    most = float(np.finfo(np.float16).max)
    half: NDArray[np.float16] = np.clip(outputs, -most, most).astype("<f2")
    return half


def typical_output(query: Outputs) -> float:
    """Return the mean absolute output of a query: the unit that outputs are compared in, and what stands for a bit."""
    return max(_TINY, float(np.abs(query).mean()))


def similarity_to(query: Outputs, outputs: Outputs) -> NDArray[np.floating[Any]]:
    """Return the cosine of the angle between the outputs of a query and those of other items.

    A large output says little more than its sign, so all are bounded by tanh first, in units of half the query's
    typical output.

    Parameters
    ----------
    query : ndarray, shape (n_bits,)
        Outputs of the query.
    outputs : ndarray, shape (n, n_bits)
        Outputs of the others.
    """
    unit = typical_output(query)
    similarity: NDArray[np.floating[Any]] = _directions(outputs, unit) @ _directions(query[None], unit)[0]
    return similarity


def similarity_to_codes(query: Outputs, codes: BinaryCodes) -> NDArray[np.floating[Any]]:
    """Return the same where only the codes of the others are known: the asymmetric distance, turned round."""
    return similarity_to(query, np.float32(typical_output(query)) * codes.signs().astype(np.float32))


def _directions(outputs: Outputs, unit: float) -> Outputs:
    bounded = np.tanh(2 * outputs / unit)
    directions: Outputs = bounded / np.maximum(np.linalg.norm(bounded, axis=1, keepdims=True), _TINY)
    return directions
