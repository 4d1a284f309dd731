"""Training and query images on their way into a network: checked, resized, augmented."""

import hashlib
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.backbones.cache import Maps
from ddsh.backbones.frozen import CHUNK, FrozenLayers
from ddsh.backbones.network import ImageSource, Network
from ddsh.errors import InvalidInput

Pixels: TypeAlias = NDArray[np.uint8]
_CACHE_BYTES = 4 << 30


def check_images(images: Any) -> ImageSource:  # noqa: ANN401 -- whatever the caller calls images
    """Return `images` if they are a non-empty sequence of uint8 images, else raise."""
    if isinstance(images, np.ndarray):
        if images.ndim == 3 and images.dtype == np.uint8:
            images = images[..., None]
        if images.ndim != 4 or images.dtype != np.uint8:
            raise InvalidInput(
                f"Images are uint8 of shape (n, height, width, channels); got {images.dtype} of shape {images.shape}."
                " Scale real pixels to 0..255 (NaN has no place) and use astype(uint8)."
            )
    if not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
        raise InvalidInput(f"Images are an array or a sequence of uint8 arrays; got {type(images).__name__}.")
    if len(images) == 0:
        raise InvalidInput("There are no images.")
    source: ImageSource = images
    return source


class PreparedImages:
    """Images as a network takes them; kept in memory if they fit, else made when asked for.

    Parameters
    ----------
    images : ImageSource
        The images.
    network : Network
        What they are prepared for.
    keep : bool
        Keep them, because they are asked for more than once.
    """

    def __init__(self, images: ImageSource, network: Network, *, keep: bool = True) -> None:
        self._images = images
        self._network = network
        n_bytes = len(images) * network.image_size**2 * network.n_channels
        self._ready: Pixels | None = None
        if keep and n_bytes <= _CACHE_BYTES:
            self._ready = np.concatenate(list(self.chunks()))

    def take(self, rows: NDArray[np.integer[Any]]) -> Pixels:
        """Return the prepared images of some rows."""
        return self._prepare(rows) if self._ready is None else self._ready[rows]

    def chunks(self) -> Iterator[Pixels]:
        """Yield all prepared images, a few hundred at a time."""
        for start in range(0, len(self._images), CHUNK):
            yield self.take(np.arange(start, min(start + CHUNK, len(self._images))))

    def _prepare(self, rows: NDArray[np.integer[Any]]) -> Pixels:
        return self._network.prepare([np.asarray(self._images[int(row)]) for row in rows])


class Batches(Protocol):
    """What the network learns from, a mini-batch at a time."""

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> Pixels | Maps:
        """Return some rows, augmented."""
        ...

    def digest(self) -> str:
        """Return a checksum of all rows."""
        ...


class AugmentedPixels:
    """Images for a network that learns as a whole.

    Parameters
    ----------
    images : PreparedImages
        The images.
    flip : bool
        Mirror half of them.
    crop : int
        Shift them by up to this many pixels.
    """

    def __init__(self, images: PreparedImages, *, flip: bool, crop: int) -> None:
        self._images, self._flip, self._crop = images, flip, crop

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> Pixels:
        """Return some images, augmented."""
        return augment(self._images.take(rows), flip=self._flip, crop=self._crop, rng=rng)

    def digest(self) -> str:
        """Return a checksum of all images."""
        digest = hashlib.sha256()
        for chunk in self._images.chunks():
            digest.update(chunk.data)
        return digest.hexdigest()


class FrozenMaps:
    """What the frozen layers of a network make of images and, with `flip`, of their mirror images.

    Parameters
    ----------
    images : ImageSource
        The images.
    layers : FrozenLayers
        The frozen layers.
    flip : bool
        Give half of the images mirrored.
    """

    def __init__(self, images: ImageSource, layers: FrozenLayers, *, flip: bool) -> None:
        views = [images, _Mirrored(images)] if flip else [images]
        self._maps = [layers.outputs(view) for view in views]

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> Maps:
        """Return the maps of some images, half of them mirrored."""
        maps: Maps = self._maps[0][rows]
        if len(self._maps) > 1:
            mirrored = rng.random(len(rows)) < 0.5
            maps[mirrored] = self._maps[1][rows[mirrored]]
        return maps

    def digest(self) -> str:
        """Return a checksum of all maps."""
        digest = hashlib.sha256()
        for maps in self._maps:
            digest.update(maps.data)
        return digest.hexdigest()


class _Mirrored:
    """The mirror images of images."""

    def __init__(self, images: ImageSource) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: int, /) -> Pixels:
        return np.ascontiguousarray(np.asarray(self._images[row])[:, ::-1])


def augment(pixels: Pixels, *, flip: bool, crop: int, rng: np.random.Generator) -> Pixels:
    """Mirror half of the images in place, and shift each by up to `crop` pixels (edges are repeated)."""
    if crop:
        pixels = _shift(pixels, crop, rng)
    if flip:
        mirrored = rng.random(len(pixels)) < 0.5
        pixels[mirrored] = pixels[mirrored, :, ::-1]
    return pixels


def _shift(pixels: Pixels, most: int, rng: np.random.Generator) -> Pixels:
    side = pixels.shape[1]
    padded = np.pad(pixels, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    corners = rng.integers(0, 2 * most + 1, (len(pixels), 2))
    return np.stack([image[y : y + side, x : x + side] for image, (y, x) in zip(padded, corners, strict=True)])
