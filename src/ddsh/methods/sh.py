"""SH: spectral hashing."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._pca import principal_directions
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["SH"]

_Floats: TypeAlias = NDArray[np.float64]


class SH(Hasher):
    """Spectral hashing: sines along principal directions, cut at zero.

    The features are taken to be uniform in a box along their principal directions. There the eigenfunctions of the
    graph Laplacian are known: for a side [a, b] they are sin(pi/2 + k pi (x - a) / (b - a)), k = 1, 2, ..., and the
    eigenvalue of each grows with its frequency k / (b - a). The bits are the signs of those with the lowest
    frequencies, so that long sides get several bits.

    Parameters
    ----------
    n_bits : int
        Code length; any, since a direction can have several bits.

    Attributes
    ----------
    mean_ : ndarray, shape (d,)
        Mean of the training features.
    components_ : ndarray, shape (d, n_bits)
        Principal direction of each bit.
    frequencies_ : ndarray, shape (n_bits,)
        Angular frequency k pi / (b - a) of each bit, the lowest first.
    starts_ : ndarray, shape (n_bits,)
        Lower end a of the side of each bit, along the centred direction.

    References
    ----------
    Weiss, Y., Torralba, A. and Fergus, R. "Spectral Hashing." NIPS 2008.
    Only functions of one direction are used, as in the paper: products of several depend on the others.
    """

    card = MethodCard(
        name="sh",
        title="Spectral hashing",
        authors="Weiss, Torralba, Fergus",
        venue="NIPS",
        year=2008,
        supervision="unsupervised",
        inputs="features",
    )

    def __init__(self, n_bits: int = 32) -> None:
        self.n_bits = n_bits

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        mean = features.mean(axis=0)
        centred = features - mean
        components = principal_directions(centred, self.n_bits)
        if not components.shape[1]:
            raise InvalidInput(f"sh needs features that vary, but all items are equal (n_samples={len(features)}).")
        V = centred @ components
        a, b = V.min(axis=0), V.max(axis=0)
        direction, frequency = lowest_frequencies(b - a, self.n_bits)
        self.mean_, self.components_ = mean, components[:, direction]
        self.frequencies_, self.starts_ = frequency, a[direction]

    def _project(self, features: _Floats) -> Outputs:
        along = features @ self.components_ - self.mean_ @ self.components_
        # The paper's sin(pi/2 + k pi (x - a) / (b - a)) is a cosine.
        outputs: Outputs = np.cos(self.frequencies_ * (along - self.starts_))
        return outputs


def lowest_frequencies(sides: _Floats, n_bits: int) -> tuple[NDArray[np.intp], _Floats]:
    """Return side and angular frequency of the smoothest eigenfunctions of a box.

    Parameters
    ----------
    sides : ndarray, shape (m,)
        Lengths of the sides of the box.
    n_bits : int
        Number of eigenfunctions, not counting the constant one.

    Returns
    -------
    tuple
        For each function the number of its side, and its frequency; the lowest first.
    """
    # The eigenvalue 1 - exp(-eps^2 / 2 |k pi / (b - a)|^2) grows with the frequency, whatever eps is.
    frequencies = np.arange(1, n_bits + 1)[:, None] * np.pi / sides
    order = np.argsort(frequencies, axis=None, kind="stable")[:n_bits]
    _, side = np.unravel_index(order, frequencies.shape)
    return side, frequencies.ravel()[order]
