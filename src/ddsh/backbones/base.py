"""Backbones: pretrained networks with their preprocessing and cache."""

import copy
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from ddsh.backbones.registry import BackboneCard, build_network, get_card
from ddsh.errors import InvalidInput
from ddsh.images import Image, Images, as_images

if TYPE_CHECKING:
    from ddsh.backbones.frozen import FrozenLayers
    from ddsh.backbones.network import Network

__all__ = ["PREPROCESSING_VERSION", "Backbone", "preprocess"]

PREPROCESSING_VERSION = 1
"""Version of :func:`preprocess` and of the image decoder, part of cache keys and fingerprints.

Increase it whenever they would return other pixels, so that features and codes of two versions are never mixed."""


class Backbone:
    """A network with its preprocessing, frozen stages and cache.

    The network is built and its weights are read on first use.

    Parameters
    ----------
    name : str or Network
        A name of :data:`~ddsh.backbones.BACKBONES`, ``module:function``, or a network such as a
        :class:`~ddsh.backbones.custom.CustomNetwork`.
    image_size : int, optional
        Side of the square that images are resized to; the network's default if None. Smaller is faster.
    weights : path, optional
        File of pretrained weights, for networks whose weights are not an installable package.
    n_frozen : int
        Number of frozen stages, from the first; their outputs are computed once.
    cache_dir : path, optional
        Folder of the on-disk cache of the outputs of frozen stages; no cache by default.
    device : str
        ``auto``, ``cpu``, ``cuda`` or ``mps``.

    Examples
    --------
    >>> Backbone("efficientnet-lite0", image_size=112, n_frozen=6)
    Backbone('efficientnet-lite0', image_size=112, n_frozen=6)
    """

    def __init__(
        self,
        name: "str | Network" = "efficientnet-lite0",
        image_size: int | None = None,
        weights: str | os.PathLike[str] | None = None,
        n_frozen: int = 0,
        cache_dir: str | os.PathLike[str] | None = None,
        device: str = "auto",
    ) -> None:
        self.network = None if isinstance(name, str) else name
        self.name = name if isinstance(name, str) else f"{type(name).__module__}.{type(name).__qualname__}"
        self.weights = None if weights is None else os.fspath(weights)
        self.n_frozen = n_frozen
        self.cache_dir = None if cache_dir is None else os.fspath(cache_dir)
        self.device = device
        self.image_size: int = self._card.image_size if image_size is None else image_size
        if self.network is not None and self.image_size != self.network.image_size:
            raise InvalidInput(
                f"The network takes images of {self.network.image_size} pixels; got image_size={image_size}."
            )

    @classmethod
    def of(cls, backbone: "str | Backbone | Network | Mapping[str, Any]") -> "Backbone":
        """Return a backbone, given by name, as a mapping of parameters, or as an object."""
        if isinstance(backbone, Backbone):
            return backbone
        return cls(**backbone) if isinstance(backbone, Mapping) else cls(backbone)

    def with_options(self, **changes: Any) -> "Backbone":  # noqa: ANN401 -- any parameter
        """Return a copy with some parameters changed."""
        return Backbone(**self._params() | changes)

    def _params(self) -> dict[str, Any]:
        names = ("image_size", "weights", "n_frozen", "cache_dir", "device")
        return {"name": self.network or self.name} | {name: getattr(self, name) for name in names}

    def describe(self) -> dict[str, Any]:
        """Return the parameters that determine features and codes, as plain JSON."""
        return {
            "name": self.name,
            "image_size": self.image_size,
            "n_frozen": self.n_frozen,
            "weights": self.weights_checksum,
        }

    def __repr__(self) -> str:
        parts = [repr(self.name), f"image_size={self.image_size}"]
        parts += [f"{name}={getattr(self, name)!r}" for name in ("weights", "n_frozen") if getattr(self, name)]
        return f"Backbone({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backbone) and self._params() == other._params()

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Backbone":
        return self.with_options()  # without the built network

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_layers"}

    @property
    def n_channels(self) -> int:
        """Number of input channels: 1 (grey) or 3 (RGB)."""
        return self._card.n_channels if self.network is None else self.network.n_channels

    @property
    def weights_checksum(self) -> str | None:
        """SHA-256 of the file of pretrained weights, or None without one."""
        if self._card.sha256 is not None or self.weights is None:
            return self._card.sha256
        with Path(self.weights).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def prepare(self, image: Image) -> Image:
        """Return one preprocessed image."""
        prepared: Image = preprocess([image], self.image_size, self.n_channels)[0]
        return prepared

    def build(self, *, seed: int = 0, n_features: int | None = None) -> "Network":
        """Build the network, in evaluation mode, on the CPU.

        Parameters
        ----------
        seed : int
            Random seed of new weights.
        n_features : int, optional
            Width of the features of a saved network; no weights are read then.
        """
        if self.network is not None:
            return copy.deepcopy(self.network)
        if n_features is not None:
            return build_network(self.name, image_size=self.image_size, pretrained=False, n_features=n_features)
        return build_network(self.name, image_size=self.image_size, weights=self.weights, seed=seed)

    def features(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        on_progress: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return the outputs of the last stage, shape (n, d).

        Parameters
        ----------
        images : array, path or sequence
            See :func:`ddsh.images.as_images`.
        on_progress : callable, optional
            Called with (done, total).
        """
        return self._layers.outputs(as_images(images), on_progress)

    def look_features(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        look_stages: Sequence[int],
    ) -> tuple[NDArray[np.float32], ...]:
        """Return what look bits are made of, from one forward pass that is not cached.

        Parameters
        ----------
        images : array, path or sequence
            See :func:`ddsh.images.as_images`.
        look_stages : sequence of int
            Stages after which means over the positions of the maps are taken.

        Returns
        -------
        tuple of ndarray
            The means of each stage, shape (n, channels), and the outputs of the last stage, shape (n, d).
        """
        return self._layers.look_features(as_images(images), look_stages)

    @cached_property
    def look_stages(self) -> tuple[int, ...]:
        """Stages whose maps show what an image looks like; see :meth:`Network.look_stages`."""
        return self._layers.network.look_stages()

    @cached_property
    def _card(self) -> BackboneCard:
        if self.network is not None:
            size, width = self.network.image_size, self.network.n_features
            return BackboneCard(self.name, "", "", size, width, "", None, n_channels=self.network.n_channels)
        return get_card(self.name)

    @cached_property
    def _layers(self) -> "FrozenLayers":
        from ddsh.backbones.frozen import FrozenLayers
        from ddsh.backbones.network import choose_device

        network = self.build().to(choose_device(self.device))
        return FrozenLayers(network, len(network.stages()), self.cache_dir)


def preprocess(images: Sequence[Image] | Images, side: int, n_channels: int) -> NDArray[np.uint8]:
    """Resize images (bicubic, no crop) to squares of `n_channels` channels.

    Parameters
    ----------
    images : sequence of uint8 images
        Each of shape (height, width, 1 or 3).
    side : int
        Side of the squares.
    n_channels : int
        1 (grey) or 3 (RGB).

    Returns
    -------
    ndarray of uint8, shape (n, side, side, n_channels)
        Input of a backbone.
    """
    out = np.empty((len(images), side, side, n_channels), np.uint8)
    for row in range(len(images)):
        image = images[row]
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
            raise InvalidInput(
                f"An image is uint8 of shape (height, width, 1 or 3); got {image.dtype} of shape {image.shape}."
            )
        picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        mode = "RGB" if n_channels == 3 else "L"
        picture = picture if picture.mode == mode else picture.convert(mode)  # convert() would copy it
        if picture.size != (side, side):
            picture = picture.resize((side, side), Pillow.Resampling.BICUBIC)
        out[row] = np.asarray(picture).reshape(side, side, n_channels)
    return out
