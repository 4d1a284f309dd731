"""CNN-F, the network of the DDSH paper, pretrained on ImageNet by VGG.

References
----------
Chatfield, K., Simonyan, K., Vedaldi, A. and Zisserman, A. "Return of the Devil in the Details: Delving Deep into
Convolutional Nets." BMVC 2014.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ddsh.backbones.layers import LocalResponseNorm, initialise
from ddsh.backbones.matconvnet import read_matconvnet
from ddsh.backbones.network import IMAGENET_MEAN, Network, require_size
from ddsh.backbones.weights import required_file
from ddsh.errors import DataError

__all__ = ["CNNF", "build", "load_matconvnet"]

ADDRESS = "https://www.vlfeat.org/matconvnet/models/imagenet-vgg-f.mat"
WIDTHS = (64, 256, 256, 256, 256, 4096, 4096)
_MIN_SIZE = 39
_POOLED_SIDE = 6
_FIRST_OF_LAYER = ("conv1", "conv2", "conv3", "conv4", "conv5", "fit", "full7")


class CNNF(Network):
    """CNN-F without its classifier; the features are full7 after ReLU, 4,096 wide.

    Five convolutional and two fully connected layers. The mean image is subtracted from pixels, 0 to 255, without
    scaling. Differs from the published network only if the image size is not 199 to 230 (224 is the published one): the
    map before full6 is then averaged to 6 x 6.

    Parameters
    ----------
    image_size : int
        Side of the input.
    widths : sequence of seven int
        Widths of the layers; the default is CNN-F.
    """

    def __init__(self, image_size: int = 224, *, widths: Sequence[int] = WIDTHS) -> None:
        require_size("cnn-f", image_size, _MIN_SIZE)
        mean = np.broadcast_to(IMAGENET_MEAN, (3, image_size, image_size)).copy()
        super().__init__(image_size, widths[-1], mean=mean, std=np.ones((3, 1, 1)))
        one, two, three, four, five, six, seven = widths
        layers: list[tuple[str, nn.Module]] = [
            ("conv1", nn.Conv2d(3, one, 11, stride=4)),
            *_after(1, is_normalised=True, is_pooled=True),
            ("conv2", nn.Conv2d(one, two, 5, padding=2)),
            *_after(2, is_normalised=True, is_pooled=True),
            ("conv3", nn.Conv2d(two, three, 3, padding=1)),
            *_after(3),
            ("conv4", nn.Conv2d(three, four, 3, padding=1)),
            *_after(4),
            ("conv5", nn.Conv2d(four, five, 3, padding=1)),
            *_after(5, is_pooled=True),
            ("fit", nn.AdaptiveAvgPool2d(_POOLED_SIDE)),
            ("flatten", nn.Flatten()),
            ("full6", nn.Linear(five * _POOLED_SIDE**2, six)),
            ("relu6", nn.ReLU(inplace=True)),
            ("full7", nn.Linear(six, seven)),
            ("relu7", nn.ReLU(inplace=True)),
        ]
        self.layers = nn.Sequential(OrderedDict(layers))

    def stages(self) -> list[nn.Module]:
        """Return the seven layers, each with its activation, normalisation and pooling."""
        names = [name for name, _ in self.layers.named_children()]
        starts = [names.index(name) for name in _FIRST_OF_LAYER]
        return [self.layers[start:stop] for start, stop in pairwise([*starts, len(names)])]


def build(
    *,
    image_size: int = 224,
    pretrained: bool = True,
    weights: Path | None = None,
    seed: int = 0,
    widths: Sequence[int] = WIDTHS,
) -> Network:
    """Return CNN-F with the weights of ``imagenet-vgg-f.mat``, or new ones if `pretrained` is false."""
    path = required_file(weights, "cnn-f", ADDRESS) if pretrained else None
    network = CNNF(image_size, widths=widths)
    if path is None:
        initialise(network, seed)
    else:
        load_matconvnet(network, path)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def load_matconvnet(network: CNNF, path: Path) -> None:
    """Load the weights and the mean image of a MatConvNet file."""
    published = read_matconvnet(path)
    state: dict[str, Tensor] = {"mean": _mean_image(published.mean, network.image_size, path), "std": network.std}
    for name, module in network.layers.named_children():
        if not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        layer = published.layers.get(name) or published.layers.get(name.replace("full", "fc"))
        if layer is None:
            found = ", ".join(published.layers) or "none"
            raise DataError(f"{path} has no layer {name}, only {found}; cnn-f needs {ADDRESS}")
        if isinstance(module, nn.Conv2d):  # height, width, in, out
            shape: tuple[int, ...] = (*module.kernel_size, module.in_channels, module.out_channels)
        else:  # a fully connected layer is published as a convolution over all of its input
            side = _POOLED_SIDE if name == "full6" else 1
            shape = side, side, module.in_features // side**2, module.out_features
        if _longer_than_one(layer.filters.shape) != _longer_than_one(shape) or layer.biases.shape != shape[3:]:
            raise DataError(
                f"{path}: {name} has filters {layer.filters.shape} and {layer.biases.size} biases, expected {shape} and"
                f" {shape[3]}; cnn-f needs {ADDRESS}"
            )
        weight = layer.filters.reshape(shape).transpose(3, 2, 0, 1).reshape(module.weight.shape)
        state[f"layers.{name}.weight"] = torch.from_numpy(np.ascontiguousarray(weight))
        state[f"layers.{name}.bias"] = torch.from_numpy(layer.biases)
    network.load_state_dict(state)


def _after(number: int, *, is_normalised: bool = False, is_pooled: bool = False) -> list[tuple[str, nn.Module]]:
    """Return the layers after a convolution."""
    layers: list[tuple[str, nn.Module]] = [(f"relu{number}", nn.ReLU(inplace=True))]
    if is_normalised:
        layers.append((f"norm{number}", LocalResponseNorm()))
    if is_pooled:
        # Equal to the published padding, one row and column after the last.
        layers.append((f"pool{number}", nn.MaxPool2d(3, 2, ceil_mode=True)))
    return layers


def _longer_than_one(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length > 1]


def _mean_image(mean: NDArray[np.float32], size: int, path: Path) -> Tensor:
    """Return the mean image (or mean colour) at the size of the network."""
    if mean.shape[-1:] != (3,) or mean.ndim not in (1, 3):
        raise DataError(f"{path}: the mean image has shape {mean.shape}, expected (height, width, 3) or (3,).")
    planes = torch.from_numpy(mean.reshape(1, 1, 3) if mean.ndim == 1 else mean).permute(2, 0, 1)[None]
    if planes.shape[-2:] != (size, size):
        planes = functional.interpolate(planes, (size, size), mode="bilinear", antialias=True)
    return planes.squeeze(0).contiguous()
