"""The order of images by the real outputs behind their codes, which tell images at equal distance apart."""

from collections.abc import Mapping
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


def real_order(
    query: Outputs, ids: NDArray[np.int64], codes: BinaryCodes, kept: Mapping[int, bytes]
) -> NDArray[np.intp]:
    """Return the order of images by the angle between their outputs and the query's, then by id.

    Parameters
    ----------
    query : ndarray, shape (n_bits,)
        Outputs of the query.
    ids : ndarray of int64
        The images.
    codes : BinaryCodes
        Their codes.
    kept : mapping of int to bytes
        Their outputs as float16, where they are kept; the others are compared by their codes (asymmetric distance).
    """
    asked = query.astype(np.float64)
    scale = max(_TINY, float(np.abs(asked).mean()))
    theirs = scale * codes.signs().astype(np.float64)
    for row, number in enumerate(ids.tolist()):
        if number in kept:
            theirs[row] = np.frombuffer(kept[number], "<f2")
    similarity = _directions(theirs, scale) @ _directions(asked[None], scale)[0]
    return np.lexsort((ids, -similarity))


def _directions(outputs: Outputs, scale: float) -> Outputs:
    """Return unit vectors; a large output says little more than its sign, so it is bounded first."""
    bounded = np.tanh(2 * outputs / scale)
    directions: Outputs = bounded / np.maximum(np.linalg.norm(bounded, axis=1, keepdims=True), _TINY)
    return directions
