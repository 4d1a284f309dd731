"""Training and query images on their way into a network: checked, resized, augmented."""

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.networks.network import Network

Pixels: TypeAlias = NDArray[np.uint8]
_CACHE_BYTES = 4 << 30
_CHUNK = 256


class ImageSource(Protocol):
    """Anything that hands out uint8 images, shape (height, width, channels), by row."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Pixels: ...


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
        for start in range(0, len(self._images), _CHUNK):
            yield self.take(np.arange(start, min(start + _CHUNK, len(self._images))))

    def _prepare(self, rows: NDArray[np.integer[Any]]) -> Pixels:
        return self._network.prepare([np.asarray(self._images[int(row)]) for row in rows])


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
