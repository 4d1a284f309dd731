"""MedianHash: balanced random projections."""

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels
from ddsh.methods import Hasher, MethodCard


class MedianHash(Hasher):
    """Random projections, thresholded at their medians, so that every bit is balanced.

    Parameters
    ----------
    n_bits : int
        Code length.
    seed : int
        Seed of the projections.

    Attributes
    ----------
    directions_ : ndarray, shape (d, n_bits)
        Standard normal directions.
    thresholds_ : ndarray, shape (n_bits,)
        Medians of the projected training items.
    """

    card = MethodCard(
        name="median",
        title="Random projections, thresholded at the median",
        authors="-",
        venue="-",
        year=2026,
        supervision="unsupervised",
        inputs="features",
    )

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        self.n_bits = n_bits
        self.seed = seed

    def _fit(self, items: NDArray[np.float64], labels: Labels | None) -> None:
        rng = np.random.default_rng(self.seed)
        self.directions_ = rng.standard_normal((items.shape[1], self.n_bits))
        self.thresholds_ = np.median(items @ self.directions_, axis=0)

    def _project(self, items: NDArray[np.float64]) -> NDArray[np.float64]:
        projected: NDArray[np.float64] = items @ self.directions_ - self.thresholds_
        return projected
