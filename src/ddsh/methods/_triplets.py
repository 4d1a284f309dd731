"""Triplets in the discrete step: similar images nearer than others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["GapLoss", "Triplets", "draw_triplets", "triplet_terms"]

GapLoss: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Loss of g_ip - g_in, for arrays of the differences of two inner products of codes."""


@dataclass(frozen=True, eq=False)
class Triplets:
    """Triplets of all images against the sampled ones.

    Parameters
    ----------
    image : ndarray of int
        Rows of the images: first the m sampled ones, then all others.
    similar, other : ndarray of int
        Sampled images, 0 to m - 1; the first is similar to the image and not the image itself, the second is not
        similar.
    """

    image: NDArray[np.int64]
    similar: NDArray[np.int64]
    other: NDArray[np.int64]


def draw_triplets(similar: NDArray[np.bool_], n_each: int, rng: np.random.Generator) -> Triplets:
    """Draw `n_each` triplets for every image that has both kinds of partners among the sampled ones.

    Parameters
    ----------
    similar : ndarray of bool, shape (n, m)
        Whether images are similar to the sampled ones, which are the first m rows.
    n_each : int
        How many; the same may be drawn again.
    rng : Generator
        Equal states give equal triplets.
    """
    candidates = similar.copy()
    np.fill_diagonal(candidates, val=False)
    rows = np.flatnonzero(candidates.any(axis=1) & ~similar.all(axis=1))
    partners = []
    for allowed in (candidates[rows], ~similar[rows]):
        ends = np.cumsum(allowed, axis=1)
        wanted = 1 + (rng.random((n_each, len(rows))) * ends[:, -1]).astype(np.int64)
        partners.append(np.array([(ends < each[:, None]).sum(axis=1) for each in wanted], np.int64).ravel())
    return Triplets(np.tile(rows, n_each), *partners)


def triplet_terms(
    others: NDArray[Any], triplets: Triplets, loss: GapLoss, codes: NDArray[Any], known: list[int], bit: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Q and p of one bit of the sampled images: their loss is b'Qb + b'p and a constant.

    With the known bits fixed, a triplet depends on the new one by b_i b_p - b_i b_n, which is 2, 0 or -2. So its loss
    is exactly constant + a (b_i b_p - b_i b_n) + c b_p b_n with a = (l(g + 2) - l(g - 2)) / 4 and
    c = (2 l(g) - l(g + 2) - l(g - 2)) / 4, where g is the difference of the inner products of the known bits.

    Parameters
    ----------
    others : ndarray of -1 and +1, shape (n, n_bits)
        Codes of the other images.
    triplets : Triplets
        The triplets.
    loss : callable
        Loss of g_ip - g_in.
    codes : ndarray of -1 and +1, shape (m, n_bits)
        Codes of the sampled images.
    known : list of int
        The bits that are fixed.
    bit : int
        The bit to solve.
    """
    m = len(codes)
    fixed = codes[:, known].astype(np.float64)
    products = np.vstack([fixed, others[:, known]]) @ fixed.T
    gaps = products[triplets.image, triplets.similar] - products[triplets.image, triplets.other]
    below, middle, above = loss(gaps - 2), loss(gaps), loss(gaps + 2)
    pull, apart = (above - below) / 4, (2 * middle - above - below) / 4
    Q, p = np.zeros((m, m)), np.zeros(m)
    np.add.at(Q, (triplets.similar, triplets.other), apart)
    sampled = triplets.image < m
    image = triplets.image[sampled]
    np.add.at(Q, (image, triplets.similar[sampled]), pull[sampled])
    np.add.at(Q, (image, triplets.other[sampled]), -pull[sampled])
    signed = others[triplets.image[~sampled] - m, bit] * pull[~sampled]
    np.add.at(p, triplets.similar[~sampled], signed)
    np.add.at(p, triplets.other[~sampled], -signed)
    return (Q + Q.T) / 2, p
