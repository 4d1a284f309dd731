"""Near-duplicate detection: close codes and nearly equal tiny copies.

Codes learned from labels are equal for many images of one class that are not copies of each other. So a tiny copy of
each image is stored, 8 x 8 pixels in colour: resizing and recompression hardly change it, another subject does.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.images import Image
from ddsh.index import BucketsIndex

__all__ = ["SIDE", "TOLERANCE", "group_duplicates", "tiny_copy"]

SIDE = 8
"""Height and width of a tiny copy."""

TOLERANCE = 4.0
"""Default difference between tiny copies of duplicates: root mean square of grey levels."""

_BLOCK = 2048


def tiny_copy(image: Image) -> bytes:
    """Return a copy of an image with 8 x 8 pixels, each the mean of its part of the image."""
    picture = Pillow.fromarray(image) if image.shape[2] == 3 else Pillow.fromarray(image[..., 0]).convert("RGB")
    return picture.resize((SIDE, SIDE), Pillow.Resampling.BOX).tobytes()


def group_duplicates(
    codes: BinaryCodes, copies: Sequence[bytes], radius: int, tolerance: float
) -> list[NDArray[np.intp]]:
    """Return groups of rows that are near-duplicates, directly or through other rows of the group.

    Parameters
    ----------
    codes : BinaryCodes
        The codes.
    copies : sequence of bytes
        Tiny copies, from :func:`tiny_copy`.
    radius : int
        Largest Hamming distance between the codes of a pair.
    tolerance : float
        Largest difference between the tiny copies of a pair: root mean square of grey levels.

    Returns
    -------
    list of ndarray
        Groups of two rows or more, ascending, in the order of their first rows.
    """
    from scipy import sparse  # searching does not need it
    from scipy.sparse.csgraph import connected_components

    if not tolerance >= 0:
        raise InvalidInput(f"tolerance must be 0 or more; got {tolerance}.")
    if not len(codes):
        return []
    pixels = np.frombuffer(b"".join(copies), np.uint8).reshape(len(copies), -1).astype(np.float32)
    distinct, bucket = np.unique(codes.packed, axis=0, return_inverse=True)
    members = _split_by(bucket.reshape(-1))
    index = BucketsIndex(codes.n_bits)
    index.add(BinaryCodes(distinct, codes.n_bits))
    near = index.within(BinaryCodes(distinct, codes.n_bits), radius)
    found = [np.empty((0, 2), np.intp)]
    for number in range(len(distinct)):
        others = np.concatenate([members[other] for other in near.of(number)[0] if other >= number])
        if len(others) > 1:
            found.append(_close_pairs(pixels, members[number], others, tolerance))
    pairs = np.concatenate(found)
    ones = np.ones(len(pairs), np.int8)
    graph = sparse.coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(len(codes), len(codes)))
    groups = _split_by(connected_components(graph, directed=False)[1].astype(np.intp))
    return sorted((rows for rows in groups if len(rows) > 1), key=lambda rows: int(rows[0]))


def _split_by(group: NDArray[np.integer]) -> list[NDArray[np.intp]]:
    """Return the rows of each group, ascending."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _close_pairs(
    pixels: NDArray[np.float32], rows: NDArray[np.intp], others: NDArray[np.intp], tolerance: float
) -> NDArray[np.intp]:
    """Return pairs of different rows whose pixels differ by at most `tolerance`, shape (n, 2)."""
    most = tolerance**2 * pixels.shape[1]
    theirs, found = pixels[others], []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        mine = pixels[block]
        # Sums of products of bytes stay below 2**24, so float32 holds them exactly.
        norms = np.einsum("ij,ij->i", mine, mine)[:, None].astype(np.float64) + np.einsum("ij,ij->i", theirs, theirs)
        close = norms - 2 * (mine @ theirs.T).astype(np.float64) <= most
        close &= block[:, None] != others
        first, second = np.nonzero(close)
        found.append(np.stack([block[first], others[second]], axis=1))
    return np.concatenate(found)
