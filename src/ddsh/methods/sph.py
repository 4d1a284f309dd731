"""SPH: spherical hashing."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["SPH"]

_Floats: TypeAlias = NDArray[np.float64]

_N_AVERAGED = 5


class SPH(Hasher):
    """Spherical hashing: a bit tells whether an item is inside a sphere.

    Every sphere holds half of the training items. The centres move until any two spheres share a quarter of them, so
    that the bits are pairwise independent: spheres that share more push each other away, and those that share less
    attract each other.

    Parameters
    ----------
    n_bits : int
        Code length; any.
    n_iterations : int
        Maximum number of moves.
    mean_tolerance : float
        The centres stay when the number of shared items deviates from a quarter of all by at most this fraction of a
        quarter, on average over the pairs of spheres, ...
    std_tolerance : float
        ... and when its standard deviation is at most this fraction of a quarter.
    seed : int
        Random seed of the initial centres.

    Attributes
    ----------
    centre_ : ndarray, shape (d,)
        Mean of the training features, subtracted from all for the sake of rounding.
    pivots_ : ndarray, shape (n_bits, d)
        Centres of the spheres, relative to `centre_`.
    squared_radii_ : ndarray, shape (n_bits,)
        Squared radii of the spheres.

    References
    ----------
    Heo, J.-P., Lee, Y., He, J., Chang, S.-F. and Yoon, S.-E. "Spherical Hashing." CVPR 2012.
    Differs from the paper in ranking by the Hamming distance, as all methods here. The paper divides it by the number
    of spheres that hold both items.
    """

    card = MethodCard(
        name="sph",
        title="Spherical hashing",
        authors="Heo, Lee, He, Chang, Yoon",
        venue="CVPR",
        year=2012,
        supervision="unsupervised",
        inputs="features",
        deviations=("Hamming distance instead of the spherical one",),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_iterations: int = 100,
        mean_tolerance: float = 0.1,
        std_tolerance: float = 0.15,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_iterations = n_iterations
        self.mean_tolerance = mean_tolerance
        self.std_tolerance = std_tolerance
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_iterations", "mean_tolerance", "std_tolerance"):
            if not getattr(self, name) >= 0:
                raise InvalidInput(f"{name} must be 0 or more; got {getattr(self, name)}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        centre = features.mean(axis=0)
        centred = features - centre
        pivots = np.array([centred[rng.integers(len(centred), size=_N_AVERAGED)].mean(0) for _ in range(self.n_bits)])
        squares = euclidean_distances(centred, pivots, squared=True)
        radii = np.median(squares, axis=0)
        for _ in range(self.n_iterations):
            shared = shared_fractions(squares <= radii)
            if is_independent(shared, self.mean_tolerance, self.std_tolerance):
                break
            pivots = pivots + forces(pivots, shared)
            squares = euclidean_distances(centred, pivots, squared=True)
            radii = np.median(squares, axis=0)
        self.centre_, self.pivots_, self.squared_radii_ = centre, pivots, radii

    def _project(self, features: _Floats) -> Outputs:
        outputs: Outputs = self.squared_radii_ - euclidean_distances(
            features - self.centre_, self.pivots_, squared=True
        )
        return outputs


def shared_fractions(inside: NDArray[np.bool_]) -> _Floats:
    """Return o_ij / n, the fraction of items inside spheres i and j, shape (c, c)."""
    member = inside.astype(np.float64)
    shared: _Floats = member.T @ member / len(member)
    return shared


def is_independent(shared: _Floats, mean_tolerance: float, std_tolerance: float) -> bool:
    """Return whether the spheres share about a quarter of the items, pair by pair."""
    pairs = shared[np.triu_indices(len(shared), 1)]
    if not len(pairs):
        return True
    return bool(np.abs(pairs - 0.25).mean() <= mean_tolerance / 4 and pairs.std() <= std_tolerance / 4)


def forces(pivots: _Floats, shared: _Floats) -> _Floats:
    """Return the move of each centre, the mean of its forces from all others."""
    # The paper's f_ij = 1/2 (o_ij - n/4) / (n/4) (p_i - p_j).
    strength = (shared - 0.25) / 0.25 / 2
    moves: _Floats = (strength.sum(axis=1, keepdims=True) * pivots - strength @ pivots) / len(pivots)
    return moves
