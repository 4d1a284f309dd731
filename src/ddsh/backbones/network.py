"""What a network is here: a module that maps images to features and knows how it wants its images."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow
from torch import Tensor, nn

from ddsh.errors import InvalidInput

MAX_SIDE = 4096
# The mean and the deviation of ImageNet's colours, as torchvision has them.
IMAGENET_MEAN = 255 * np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)
IMAGENET_STD = 255 * np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)


class ImageSource(Protocol):
    """Anything that hands out uint8 images, shape (height, width, channels), by row."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> NDArray[np.uint8]: ...


class Network(nn.Module):
    """Maps uint8 images, shape (n, size, size, channels), to features, shape (n, n_features).

    Subclasses write :meth:`stages`. Pixels are normalised inside, so that a saved network needs nothing else.

    Parameters
    ----------
    image_size : int
        Side of the square that images are resized to.
    n_features : int
        Width of the features.
    mean, std : array, broadcastable to (channels, size, size)
        Pixels, 0 to 255, become (pixel - mean) / std.
    frozen_batch_norm : bool
        Keep the statistics of batch normalisation as they are, also while training (for pretrained networks).
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        image_size: int,
        n_features: int,
        *,
        mean: NDArray[Any],
        std: NDArray[Any],
        frozen_batch_norm: bool = True,
    ) -> None:
        super().__init__()
        if not 8 <= image_size <= MAX_SIDE:
            raise InvalidInput(f"image_size must be 8 to {MAX_SIDE}; got {image_size}.")
        self.image_size = image_size
        self.n_features = n_features
        self.frozen_batch_norm = frozen_batch_norm
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32))

    @property
    def n_channels(self) -> int:
        """Channels that images must have: 1 (grey) or 3 (RGB)."""
        return int(self.mean.shape[0])

    def stages(self) -> Sequence[nn.Module]:
        """Return the parts that normalised images pass one after the other; the last puts out the features."""
        raise NotImplementedError

    def begin(self, pixels: Tensor, n_stages: int) -> Tensor:
        """Return what the first stages make of uint8 images, shape (n, size, size, channels)."""
        out: Tensor = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std
        for stage in self.stages()[:n_stages]:
            out = stage(out)
        return out

    def finish(self, maps: Tensor, n_stages: int) -> Tensor:
        """Return the features of what the first stages put out."""
        for stage in self.stages()[n_stages:]:
            maps = stage(maps)
        return maps

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the features of uint8 images, shape (n, size, size, channels)."""
        return self.finish(self.begin(pixels, 0), 0)

    def train(self, mode: bool = True) -> "Network":
        """Switch to training; frozen batch normalisation stays as it is."""
        super().train(mode)
        if self.frozen_batch_norm:
            for module in self.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
        return self

    def prepare(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Resize images (bicubic, the whole image, no crop) to what :meth:`forward` takes."""
        return resize_all(images, self.image_size, self.n_channels)


def require_size(name: str, image_size: int, smallest: int) -> None:
    """Raise if images are too small for a network's strides and windows."""
    if image_size < smallest:
        raise InvalidInput(f"{name} takes images of at least {smallest} pixels a side; got image_size={image_size}.")


def resize_all(images: Sequence[NDArray[np.uint8]], side: int, n_channels: int) -> NDArray[np.uint8]:
    """Resize images to squares and bring them to `n_channels` channels, shape (n, side, side, n_channels)."""
    out = np.empty((len(images), side, side, n_channels), np.uint8)
    for row, image in enumerate(images):
        out[row] = _resize(image, side, n_channels)
    return out


def _resize(image: NDArray[np.uint8], side: int, n_channels: int) -> NDArray[np.uint8]:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
        raise InvalidInput(
            f"An image is uint8 of shape (height, width, 1 or 3); got {image.dtype} of shape {image.shape}."
        )
    picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    picture = picture.convert("RGB" if n_channels == 3 else "L")
    if picture.size != (side, side):
        picture = picture.resize((side, side), Pillow.Resampling.BICUBIC)
    return np.asarray(picture).reshape(side, side, n_channels)
