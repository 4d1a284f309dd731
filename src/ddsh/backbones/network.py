"""Network modules: stages from images to features, and a hash layer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ddsh.backbones.base import preprocess
from ddsh.errors import InvalidInput

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "HashNetwork", "Network", "choose_device", "require_size"]

MAX_SIDE = 4096
_SMALLEST_LOOK = 18  # a sixteenth, with convolutions that drop the border
# Mean and standard deviation of ImageNet's colours, as in torchvision.
IMAGENET_MEAN = 255 * np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)
IMAGENET_STD = 255 * np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)


class Network(nn.Module):
    """Base class of networks from uint8 images to features.

    Images have shape (n, size, size, channels), features (n, n_features). Subclasses implement :meth:`stages`. Pixels
    are normalised inside the network.

    Parameters
    ----------
    image_size : int
        Side of the square that images are resized to.
    n_features : int
        Width of the features.
    mean, std : array, broadcastable to (channels, size, size)
        Pixels, 0 to 255, become (pixel - mean) / std.
    frozen_batch_norm : bool
        Do not update the statistics of batch normalisation in training (for pretrained networks).
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
        """Number of input channels: 1 (grey) or 3 (RGB)."""
        return int(self.mean.shape[0])

    def stages(self) -> Sequence[nn.Module]:
        """Return the stages in order; the last one returns the features."""
        raise NotImplementedError

    def begin(self, pixels: Tensor, n_stages: int) -> Tensor:
        """Run the first stages on uint8 images, shape (n, size, size, channels)."""
        out: Tensor = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std
        for stage in self.stages()[:n_stages]:
            out = stage(out)
        return out

    def finish(self, maps: Tensor, n_stages: int) -> Tensor:
        """Run the remaining stages on the output of the first ones."""
        for stage in self.stages()[n_stages:]:
            maps = stage(maps)
        return maps

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the features of uint8 images, shape (n, size, size, channels)."""
        return self.finish(self.begin(pixels, 0), 0)

    def look_stages(self) -> tuple[int, ...]:
        """Return the numbers of stages, counted from 1, whose maps show what an image looks like.

        By default they are the first and the last stage of those with the smallest maps that are about a sixteenth of
        the image wide or wider: their channels stand for colours, textures and shapes, and only later ones for objects.
        A network without maps has none.
        """
        widths, was_training = [], self.training
        self.eval()  # no statistics may change
        with torch.inference_mode():
            blank = torch.zeros((1, self.image_size, self.image_size, self.n_channels), dtype=torch.uint8)
            maps = self.begin(blank.to(self.mean.device), 0)
            for stage in self.stages():
                maps = stage(maps)
                if maps.ndim != 4 or _SMALLEST_LOOK * maps.shape[3] < self.image_size:
                    break
                widths.append(maps.shape[3])
        self.train(was_training)
        numbers = [number for number, width in enumerate(widths, 1) if width == widths[-1]]
        return tuple(sorted({numbers[0], numbers[-1]})) if numbers else ()

    def finish_with_look(self, maps: Tensor, n_stages: int, look_stages: Sequence[int]) -> tuple[Tensor, ...]:
        """Run the remaining stages; return means over the positions of some maps, and the features.

        Parameters
        ----------
        maps : Tensor
            Output of the first `n_stages` stages.
        n_stages : int
            Number of stages that ran, at most the first of `look_stages`.
        look_stages : sequence of int
            Stages after which the means are taken.
        """
        means = []
        for number in range(n_stages, len(self.stages()) + 1):
            maps = maps if number == n_stages else self.stages()[number - 1](maps)
            if number in look_stages:
                means.append(maps.mean(dim=(2, 3)))
        return (*means, maps)

    def train(self, mode: bool = True) -> "Network":
        """Set training mode; frozen batch normalisation stays in evaluation mode."""
        super().train(mode)
        if self.frozen_batch_norm:
            for module in self.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
        return self

    def prepare(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Preprocess images; see :func:`ddsh.backbones.base.preprocess`."""
        return preprocess(images, self.image_size, self.n_channels)


def require_size(name: str, image_size: int, smallest: int) -> None:
    """Raise if `image_size` is too small for a network."""
    if image_size < smallest:
        raise InvalidInput(f"{name} takes images of at least {smallest} pixels a side; got image_size={image_size}.")


_SMALLEST_SPREAD = 1e-6

HEAD_STD = 0.01
"""Standard deviation of the initial weights and biases of the hash layer, as in the authors' release."""


class HashNetwork(nn.Module):
    """A network with a hash layer: one fully connected output per bit.

    Parameters
    ----------
    backbone : Network
        Network from images to features.
    n_bits : int
        Code length.
    seed : int
        Random seed of the hash layer.
    """

    def __init__(self, backbone: Network, n_bits: int, seed: int) -> None:
        super().__init__()
        self.backbone = backbone
        with torch.random.fork_rng(devices=[]):
            self.head = nn.Linear(backbone.n_features, n_bits)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.head.weight.normal_(0.0, HEAD_STD, generator=generator)
            self.head.bias.normal_(0.0, HEAD_STD, generator=generator)
        self.feature_mean: Tensor | None
        self.feature_spread: Tensor | None
        self.register_buffer("feature_mean", None)
        self.register_buffer("feature_spread", None)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return real outputs, shape (n, n_bits), of uint8 images, shape (n, size, size, channels)."""
        return self.finish(self.backbone.begin(pixels, 0), 0)

    def finish(self, maps: Tensor, n_stages: int) -> Tensor:
        """Run the remaining stages and the hash layer on the output of the first stages."""
        features = self.backbone.finish(maps, n_stages)
        if self.feature_mean is not None and self.feature_spread is not None:
            features = (features - self.feature_mean) / self.feature_spread
        outputs: Tensor = self.head(features)
        return outputs

    def standardise(self, features: Tensor) -> None:
        """From now on, centre what the hash layer sees and scale it to unit variance, by the statistics of `features`.

        The variance is that of all features together: a feature that hardly varies stays small.
        """
        self.feature_mean = features.mean(0)
        self.feature_spread = (features - self.feature_mean).square().mean().sqrt().clamp_min(_SMALLEST_SPREAD)

    def absorb_standardisation(self) -> None:
        """Put the standardisation into the weights of the hash layer; the outputs stay the same."""
        if self.feature_mean is None or self.feature_spread is None:
            return
        with torch.no_grad():
            self.head.weight.div_(self.feature_spread)
            self.head.bias.sub_(self.head.weight @ self.feature_mean)
        self.feature_mean = self.feature_spread = None


def choose_device(name: str) -> torch.device:
    """Return a device by name; ``auto`` is CUDA, MPS or CPU, whichever is available first."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"Device {name!r} cannot be used here ({reason}); try auto or cpu.") from error
    return device
