"""The order of images by the real outputs behind their codes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.index.reranking import Outputs, similarity_to, typical_output


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
    theirs = typical_output(asked) * codes.signs().astype(np.float64)
    for row, number in enumerate(ids.tolist()):
        if number in kept:
            theirs[row] = np.frombuffer(kept[number], "<f2")
    return np.lexsort((ids, -similarity_to(asked, theirs)))
