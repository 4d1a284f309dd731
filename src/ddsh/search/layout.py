"""Layout of codes in two dimensions, for a map of an index."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import CodePair

__all__ = ["MAX_POINTS", "MapLayout", "lay_out"]

MAX_POINTS = 10_000
"""Largest number of images on a map; of more, a sample is shown."""


@dataclass(frozen=True, eq=False)
class MapLayout:
    """Positions of images on a map.

    Parameters
    ----------
    ids : list of int
        Ids of the images.
    positions : ndarray of float64, shape (n, 2)
        Their positions, 0 to 1.
    labels : list of tuple of str
        Their labels.
    n_images : int
        Number of images in the index; a sample is shown if it is larger than that of the positions.
    """

    ids: list[int]
    positions: NDArray[np.float64]
    labels: list[tuple[str, ...]]
    n_images: int


def lay_out(codes: CodePair) -> NDArray[np.float64]:
    """Return a position for each code: its first two principal components, 0 to 1.

    Label bits and look bits have the same total variance, so that neither decides alone. Nothing is drawn at random.

    Parameters
    ----------
    codes : CodePair
        The codes.
    """
    parts = []
    for code in (codes.label, codes.look):
        if code is not None:
            signs = code.signs().astype(np.float64)
            signs -= signs.mean(axis=0)
            parts.append(signs / max(np.sqrt(np.square(signs).sum(axis=1).mean()), 1e-12))
    features = np.hstack(parts)
    _, axes = np.linalg.eigh(features.T @ features)
    axes = axes[:, ::-1][:, :2]
    # The sign of an axis is arbitrary: its largest entry is positive.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    found = np.zeros((len(features), 2))
    found[:, : axes.shape[1]] = features @ axes
    low, high = found.min(axis=0), found.max(axis=0)
    return np.asarray((found - low) / np.maximum(high - low, 1e-12))
