"""Near-identical images: equal or close codes, and a look that is the same.

Codes that were learned from labels are equal for many images of one class, which are no copies of each other. So a tiny
copy of each image is kept, 8 x 8 pixels in colour: resizing and saving again hardly changes it, another subject does.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.images import Image
from ddsh.index import get_index

SIDE = 8
TOLERANCE = 4.0
"""Looks that differ by no more than this, root mean square of grey levels, are the same."""

_BLOCK = 2048


def look_of(image: Image) -> bytes:
    """Return the look of an image: every pixel is the mean of its part of the image."""
    picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image).convert("RGB")
    return picture.resize((SIDE, SIDE), Pillow.Resampling.BOX).tobytes()


def group(codes: BinaryCodes, looks: Sequence[bytes], radius: int, tolerance: float) -> list[NDArray[np.intp]]:
    """Return groups of rows that are near-identical, directly or through others of the group.

    Parameters
    ----------
    codes : BinaryCodes
        The codes.
    looks : sequence of bytes
        What :func:`look_of` returned.
    radius : int
        In how many bits the codes of a pair may differ.
    tolerance : float
        By how many grey levels the looks of a pair may differ, root mean square.

    Returns
    -------
    list of ndarray
        Each with two rows or more, ascending; groups in the order of their first rows.
    """
    if not tolerance >= 0:
        raise InvalidInput(f"tolerance must be 0 or more; got {tolerance}.")
    if not len(codes):
        return []
    pixels = np.frombuffer(b"".join(looks), np.uint8).reshape(len(looks), -1).astype(np.float32)
    pairs = _pairs(codes, pixels, radius, tolerance)
    ones = np.ones(len(pairs), np.int8)
    graph = sparse.coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(len(codes), len(codes)))
    return _components(connected_components(graph, directed=False)[1].astype(np.intp))


def _components(component: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the rows of each component that has several, by the first row."""
    order = np.argsort(component, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(component[order])) + 1)
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def _pairs(codes: BinaryCodes, pixels: NDArray[np.float32], radius: int, tolerance: float) -> NDArray[np.intp]:
    """Return pairs of rows with close codes and the same look, shape (n, 2)."""
    distinct, bucket = np.unique(codes.packed, axis=0, return_inverse=True)
    order = np.argsort(bucket.reshape(-1), kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(bucket.reshape(-1)[order])) + 1)
    found = [np.empty((0, 2), np.intp)]
    for number, near in enumerate(_near(BinaryCodes(distinct, codes.n_bits), radius)):
        others = np.concatenate([members[other] for other in near if other >= number])
        if len(others) > 1:
            found.append(_same_look(pixels, members[number], others, tolerance))
    return np.concatenate(found)


def _near(distinct: BinaryCodes, radius: int) -> list[NDArray[np.int64]]:
    """Return for each distinct code which of them are within the radius; itself is."""
    index = get_index("buckets")(distinct.n_bits)
    index.add(distinct)
    hits = index.within(distinct, radius)
    return [hits.of(number)[0] for number in range(len(distinct))]


def _same_look(
    pixels: NDArray[np.float32], rows: NDArray[np.intp], others: NDArray[np.intp], tolerance: float
) -> NDArray[np.intp]:
    most = tolerance**2 * pixels.shape[1]
    theirs, found = pixels[others], []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        mine = pixels[block]
        # Sums of products of bytes stay below 2**24, so that float32 holds them exactly.
        norms = np.einsum("ij,ij->i", mine, mine)[:, None].astype(np.float64) + np.einsum("ij,ij->i", theirs, theirs)
        close = norms - 2 * (mine @ theirs.T).astype(np.float64) <= most
        close &= block[:, None] != others
        first, second = np.nonzero(close)
        found.append(np.stack([block[first], others[second]], axis=1))
    return np.concatenate(found)
