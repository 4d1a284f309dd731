"""Layers, initialisation and batch norm folding of backbones.

`LocalResponseNorm` computes MatConvNet's layer, ``y = x / L**0.75`` with ``L = 2 + 1e-4 * (sum of x**2 over the
channel and the two on either side)``, several times faster on CPU than PyTorch's layer. PyTorch and Caffe divide the
constant by the number of channels in the window; MatConvNet does not.

References
----------
Krizhevsky, A., Sutskever, I. and Hinton, G. "ImageNet Classification with Deep Convolutional Neural Networks."
NIPS 2012.
He, K., Zhang, X., Ren, S. and Sun, J. "Delving Deep into Rectifiers." ICCV 2015.
"""

import copy
import functools
from itertools import pairwise
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["LocalResponseNorm", "depthwise_conv", "fold_batch_norm", "initialise"]

_REACH = 2  # neighbours on each side: a window of five channels
_KAPPA = 2.0
_ALPHA = 1e-4
_BETA = 0.75
# Elements of a piece of a batch whose temporaries fit into a core's cache.
_PIECE = 1 << 18
# Side of the largest images for which the gradient of depthwise kernels is a product of matrices, by kernel; for other
# kernels, images smaller than the kernel. Batch of 64 on 7 x 7: 24 ms, not 35, for 5 x 5 kernels; more for 3 x 3 ones.
_LARGEST_PRODUCT = {5: 7}

M = TypeVar("M", bound=nn.Module)


def initialise(module: nn.Module, seed: int) -> None:
    """Initialise convolutions and linear layers (He et al., 2015), biases to 0.

    Equal seeds give equal weights; PyTorch's global generator is not used.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def fold_batch_norm(network: M) -> M:
    """Return a copy for inference with batch norm folded into convolutions.

    Only neighbours inside an ``nn.Sequential`` are folded; the network is not modified.
    """
    folded = copy.deepcopy(network).eval()
    for layers in list(folded.modules()):
        if not isinstance(layers, nn.Sequential):
            continue
        for (place, first), (after, second) in pairwise(list(layers.named_children())):
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d) and second.running_mean is not None:
                setattr(layers, place, fuse_conv_bn_eval(first, second))
                setattr(layers, after, nn.Identity())
    return folded


def depthwise_conv(images: Tensor, weight: Tensor) -> Tensor:
    """Convolve each channel with its own kernel, stride 1, output of the same size.

    It equals ``conv2d`` with groups, but for small images the gradient of the weights is a product of matrices, which
    takes less time than oneDNN's loop on a CPU.

    Parameters
    ----------
    images : Tensor, shape (n, channels, side, side)
        The input.
    weight : Tensor, shape (channels, 1, kernel, kernel)
        The kernels; the side is odd.
    """
    return cast(Tensor, _DepthwiseConv.apply(images, weight))  # type: ignore[no-untyped-call]


class _DepthwiseConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:  # noqa: ANN401 -- autograd's own signature
        ctx.save_for_backward(x, weight)
        return functional.conv2d(x, weight, None, 1, weight.shape[-1] // 2, 1, len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ANN401
        x, weight = ctx.saved_tensors
        n_channels, kernel, side = len(weight), weight.shape[-1], x.shape[-1]
        needs_dx, needs_dw = ctx.needs_input_grad
        is_product = side <= _LARGEST_PRODUCT.get(kernel, kernel - 1)
        options = ([1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], n_channels)
        mask = [needs_dx, needs_dw and not is_product, False]
        dx, dw, _ = torch.ops.aten.convolution_backward(gradient, x, weight, None, *options, mask)
        if needs_dw and is_product:
            # Sums over images of every input position times every output position, by channel. To transpose one large
            # matrix takes less time than to permute four axes.
            inputs, outputs = (
                each.permute(0, 2, 3, 1).reshape(len(x), -1).t().contiguous().reshape(side**2, n_channels, -1)
                for each in (x, gradient)
            )
            products = torch.bmm(inputs.transpose(0, 1), outputs.permute(1, 2, 0)).reshape(n_channels, -1)
            dw = (products @ _offsets(side, kernel).to(products)).reshape(weight.shape)
        return dx, dw


@functools.cache
def _offsets(side: int, kernel: int) -> Tensor:
    """Return, for each pair of input and output positions, which entry of the kernel joins them: a 0/1 matrix."""
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    rows, columns = (each.reshape(-1, 1) - each.reshape(1, -1) + kernel // 2 for each in (y, x))
    joined = (rows >= 0) & (rows < kernel) & (columns >= 0) & (columns < kernel)
    matrix = torch.zeros(side**4, kernel**2)
    matrix[joined.reshape(-1).nonzero()[:, 0], (rows * kernel + columns)[joined]] = 1.0
    return matrix


class LocalResponseNorm(nn.Module):
    """Local response normalisation over five channels, as MatConvNet defines it."""

    def forward(self, responses: Tensor) -> Tensor:
        """Normalise responses, shape (n, channels, height, width)."""
        normalised: Tensor = _LocalResponseNorm.apply(responses)  # type: ignore[no-untyped-call]
        return normalised


class _LocalResponseNorm(torch.autograd.Function):
    """Saves only its input: recomputing the scale is faster than loading it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401 -- autograd's own signature
        """Normalise piece by piece."""
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        for part, target in zip(_pieces(x), _pieces(out), strict=True):
            root = _inverse_root(part)
            torch.mul(part, root, out=target).mul_(root.sqrt_())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401 -- autograd's own signature
        """Return the gradient of the input."""
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        for part, above, target in zip(_pieces(x), _pieces(gradient), _pieces(out), strict=True):
            root = _inverse_root(part)
            torch.mul(above, root, out=target).mul_(root.sqrt())
            shared = _sum_of_neighbours((target * part).mul_(root).mul_(root))
            target.sub_(shared.mul_(part).mul_(2 * _ALPHA * _BETA))
        return out


def _pieces(batch: Tensor) -> tuple[Tensor, ...]:
    if batch.device.type != "cpu":
        return (batch,)
    return torch.split(batch, max(1, _PIECE // max(1, batch[:1].numel())))


def _inverse_root(x: Tensor) -> Tensor:
    """Return L ** -0.5; times its square root it is L ** -0.75, without a power."""
    return _sum_of_neighbours(x * x).mul_(_ALPHA).add_(_KAPPA).rsqrt_()


def _sum_of_neighbours(x: Tensor) -> Tensor:
    """Return the sum of each channel and the two on either side."""
    total = x.clone()
    for distance in range(1, _REACH + 1):
        total[:, distance:] += x[:, :-distance]
        total[:, :-distance] += x[:, distance:]
    return total
