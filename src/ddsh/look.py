"""Look bits: what an image looks like, without labels.

Label bits put all images of a class on nearly the same code. Look bits tell the images of a class apart: they are
learned without labels, from the forward pass that computes the label bits.

References
----------
Gong, Y. and Lazebnik, S. "Iterative Quantization: A Procrustean Approach to Learning Binary Codes." CVPR 2011.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import MAX_BITS, BinaryCodes
from ddsh.errors import InvalidInput

if TYPE_CHECKING:
    from ddsh.methods.base import Outputs

__all__ = ["LOOK_BITS", "MAX_SAMPLE", "Look"]

LOOK_BITS = 128
"""Default number of look bits."""

MAX_SAMPLE = 5000
"""Number of images that look bits are learned from, at most."""

_IMAGES_PER_BIT = 2
_SEED = 0

_Parts: TypeAlias = Sequence[NDArray[np.floating[Any]]]


class Look:
    """Unsupervised hash function on features of a network.

    The features come in parts, such as means over the positions of two maps and the outputs of the last stage. Each
    part is centred and scaled to unit length, so that none outweighs the others; then all are projected together, by
    PCA and the rotation of ITQ. From fewer than two images per bit that cannot be learned well: then the directions
    are random and orthogonal.

    Parameters
    ----------
    n_bits : int
        Code length.
    stages : sequence of int
        Stages of the network after which the means are taken; kept for the caller.

    Attributes
    ----------
    widths_ : tuple of int
        Width of each part.
    mean_ : ndarray of float32, shape (d,)
        Means of all parts, side by side.
    projection_ : ndarray of float32, shape (d, n_bits)
        Projection of the scaled parts.
    offset_ : ndarray of float32, shape (n_bits,)
        Subtracted from the projections; the signs of the result are the bits.
    """

    def __init__(self, n_bits: int = LOOK_BITS, stages: Sequence[int] = ()) -> None:
        if not 1 <= n_bits <= MAX_BITS:
            raise InvalidInput(f"look_bits must be 1 to {MAX_BITS}, or 0 for none; got {n_bits}.")
        self.n_bits = n_bits
        self.stages = tuple(stages)

    def fit(self, parts: _Parts) -> Self:
        """Learn from the features of some images.

        Parameters
        ----------
        parts : sequence of ndarray, each of shape (n, d)
            Features of the same images.
        """
        from ddsh.methods.itq import ITQ  # not needed to encode, and it imports scikit-learn

        n_images = len(parts[0])
        self.widths_ = tuple(part.shape[1] for part in parts)
        # The features of one image, centred, would be zero.
        means = [part.mean(axis=0, dtype=np.float64) * (n_images > 1) for part in parts]
        self.mean_ = np.concatenate(means).astype(np.float32)
        scaled = self.scaled(parts)
        if n_images >= _IMAGES_PER_BIT * self.n_bits:
            try:
                itq = ITQ(self.n_bits, seed=_SEED).fit(scaled)
            except InvalidInput:  # the features vary in too few directions
                itq = None
            if itq is not None:
                projection = itq.components_ @ itq.rotation_
                self.projection_ = projection.astype(np.float32)
                self.offset_ = (itq.mean_ @ projection).astype(np.float32)
                return self
        self.projection_ = _random_directions(scaled.shape[1], self.n_bits).astype(np.float32)
        self.offset_ = (scaled.mean(axis=0) @ self.projection_ * (n_images > 1)).astype(np.float32)
        return self

    def project(self, parts: _Parts) -> "Outputs":
        """Return real outputs, shape (n, n_bits); their signs are the look bits."""
        outputs: Outputs = self.scaled(parts) @ self.projection_.astype(np.float64) - self.offset_
        return outputs

    def encode(self, parts: _Parts) -> BinaryCodes:
        """Return the look bits of images from their features."""
        return BinaryCodes.from_outputs(self.project(parts))

    def familiarity(self, parts: _Parts) -> NDArray[np.float64]:
        """Return how much of the features the look bits can express: the sum of squares of the real outputs.

        The look bits span the directions in which the images they were learned from vary. Other kinds of images vary
        in other directions, so less of their features is left.
        """
        return _familiarity(self.project(parts))

    def encode_with_familiarity(self, parts: _Parts) -> tuple[BinaryCodes, NDArray[np.float64]]:
        """Return :meth:`encode` and :meth:`familiarity` of one projection."""
        outputs = self.project(parts)
        return BinaryCodes.from_outputs(outputs), _familiarity(outputs)

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Return the learned attributes as named arrays."""
        return {
            "widths": np.array(self.widths_, np.int64),
            "mean": self.mean_,
            "projection": self.projection_,
            "offset": self.offset_,
        }

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> Self:
        """Restore the arrays of :meth:`get_weights`."""
        self.widths_ = tuple(weights["widths"].tolist())
        self.mean_, self.projection_, self.offset_ = (weights[name] for name in ("mean", "projection", "offset"))
        shapes = self.mean_.shape, self.projection_.shape, self.offset_.shape
        n_features = sum(self.widths_)
        if shapes != ((n_features,), (n_features, self.n_bits), (self.n_bits,)):
            raise InvalidInput(f"the look bits have other shapes than {self.n_bits} bits of {self.widths_} features")
        return self

    def scaled(self, parts: _Parts) -> NDArray[np.float64]:
        """Return all parts, each centred and scaled to unit length, side by side."""
        widths = tuple(part.shape[1] for part in parts)
        if widths != self.widths_:
            raise InvalidInput(f"Look bits of features of widths {self.widths_}; got {widths}.")
        means = np.split(self.mean_, np.cumsum(widths)[:-1])
        centred = [part.astype(np.float64) - mean for part, mean in zip(parts, means, strict=True)]
        lengths = (np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in centred)
        return np.hstack([part / length for part, length in zip(centred, lengths, strict=True)])


def _familiarity(outputs: "Outputs") -> NDArray[np.float64]:
    familiarity: NDArray[np.float64] = np.square(outputs).sum(axis=1)
    return familiarity


def _random_directions(n_features: int, n_bits: int) -> NDArray[np.float64]:
    """Return random directions as columns, orthogonal as far as there is room."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    blocks = []
    for start in range(0, n_bits, n_features):
        width = min(n_features, n_bits - start)
        blocks.append(np.linalg.qr(rng.standard_normal((n_features, width)))[0])
    return np.hstack(blocks)
