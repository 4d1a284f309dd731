"""LSH: signs of random projections."""

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["LSH"]


class LSH(Hasher):
    """Locality-sensitive hashing: signs of random projections.

    The features are centred first.

    Parameters
    ----------
    n_bits : int
        Code length.
    seed : int
        Random seed of the projection.

    Attributes
    ----------
    mean_ : ndarray, shape (d,)
        Mean of the training features.
    projection_ : ndarray, shape (d, n_bits)
        Standard normal directions.

    References
    ----------
    Datar, M., Immorlica, N., Indyk, P. and Mirrokni, V. S. "Locality-Sensitive Hashing Scheme Based on p-Stable
    Distributions." SCG 2004. Differs from the paper in taking the sign of the projection instead of a quantised
    offset, as the DDSH paper and its field do.
    """

    card = MethodCard(
        name="lsh",
        title="Locality-sensitive hashing",
        authors="Datar, Immorlica, Indyk, Mirrokni",
        venue="SCG",
        year=2004,
        supervision="none",
        inputs="features",
        deviations=("sign of a Gaussian projection of centred features instead of a quantised offset",),
    )

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        self.n_bits = n_bits
        self.seed = seed

    def _fit(self, features: NDArray[np.float64], labels: Labels | None) -> None:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        self.mean_ = features.mean(axis=0)
        self.projection_ = rng.standard_normal((features.shape[1], self.n_bits))

    def _project(self, features: NDArray[np.float64]) -> Outputs:
        outputs: Outputs = (features - self.mean_) @ self.projection_
        return outputs
