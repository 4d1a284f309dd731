"""Mini-batches of images, or of the outputs of frozen stages."""

import hashlib
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.backbones.cache import Activations
from ddsh.backbones.frozen import CHUNK, FrozenLayers
from ddsh.backbones.network import Network
from ddsh.images import Images, as_images

__all__ = ["Batches", "FrozenBatches", "ImageBatches", "PreparedImages", "augment"]

Pixels: TypeAlias = NDArray[np.uint8]
_CACHE_BYTES = 4 << 30


class PreparedImages:
    """Preprocessed images, kept in memory if they fit.

    Parameters
    ----------
    images : Images
        The images.
    network : Network
        The network they are preprocessed for.
    keep : bool
        Keep the preprocessed images in memory, if they are used more than once.
    """

    def __init__(self, images: Images, network: Network, *, keep: bool = True) -> None:
        self._images = images
        self._network = network
        n_bytes = len(images) * network.image_size**2 * network.n_channels
        self._ready: Pixels | None = None
        if keep and n_bytes <= _CACHE_BYTES:
            self._ready = np.concatenate(list(self.chunks()))

    def take(self, rows: NDArray[np.integer[Any]]) -> Pixels:
        """Return the preprocessed images of the given rows."""
        if self._ready is not None:
            taken: Pixels = self._ready[rows]
            return taken
        return self._network.prepare([np.asarray(self._images[int(row)]) for row in rows])

    def chunks(self) -> Iterator[Pixels]:
        """Yield all preprocessed images, a few hundred at a time."""
        for start in range(0, len(self._images), CHUNK):
            yield self.take(np.arange(start, min(start + CHUNK, len(self._images))))


class Batches(Protocol):
    """Input of a network in training, a mini-batch at a time."""

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> Pixels | Activations:
        """Return the given rows, augmented."""
        ...

    def digest(self) -> str:
        """Return a checksum of all rows."""
        ...


class ImageBatches:
    """Images for a network that is trained as a whole.

    Parameters
    ----------
    images : PreparedImages
        The images.
    flip : bool
        Mirror half of the images at random.
    crop : int
        Shift images at random by up to this many pixels.
    """

    def __init__(self, images: PreparedImages, *, flip: bool, crop: int) -> None:
        self._images, self._flip, self._crop = images, flip, crop

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> Pixels:
        """Return the images of the given rows, augmented."""
        return augment(self._images.take(rows), flip=self._flip, crop=self._crop, rng=rng)

    def digest(self) -> str:
        """Return a checksum of all images."""
        digest = hashlib.sha256()
        for chunk in self._images.chunks():
            digest.update(chunk.data)
        return digest.hexdigest()


class FrozenBatches:
    """Outputs of frozen stages for images and, with `flip`, for their mirror images.

    Parameters
    ----------
    images : Images
        The images.
    layers : FrozenLayers
        The frozen stages.
    flip : bool
        Mirror half of the images at random.
    """

    def __init__(self, images: Images, layers: FrozenLayers, *, flip: bool) -> None:
        views = [images, as_images(_Mirrored(images))] if flip else [images]
        self._outputs = [layers.outputs(view) for view in views]

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> Activations:
        """Return the outputs of the given rows, half of them mirrored if `flip`."""
        outputs: Activations = self._outputs[0][rows]
        if len(self._outputs) > 1:
            mirrored = rng.random(len(rows)) < 0.5
            outputs[mirrored] = self._outputs[1][rows[mirrored]]
        return outputs

    def digest(self) -> str:
        """Return a checksum of all outputs."""
        digest = hashlib.sha256()
        for outputs in self._outputs:
            digest.update(outputs.data)
        return digest.hexdigest()


class _Mirrored:
    """A sequence of images, mirrored."""

    def __init__(self, images: Images) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: int, /) -> Pixels:
        return np.ascontiguousarray(np.asarray(self._images[row])[:, ::-1])


def augment(pixels: Pixels, *, flip: bool, crop: int, rng: np.random.Generator) -> Pixels:
    """Mirror half of the images, and shift each by up to `crop` pixels.

    Pixels at the border are repeated; `pixels` may be modified.
    """
    if crop:
        side = pixels.shape[1]
        padded = np.pad(pixels, ((0, 0), (crop, crop), (crop, crop), (0, 0)), mode="edge")
        corners = rng.integers(0, 2 * crop + 1, (len(pixels), 2))
        pixels = np.stack([image[y : y + side, x : x + side] for image, (y, x) in zip(padded, corners, strict=True)])
    if flip:
        mirrored = rng.random(len(pixels)) < 0.5
        pixels[mirrored] = pixels[mirrored, :, ::-1]
    return pixels
