"""Local response normalisation as MatConvNet computes it, several times faster on CPU than PyTorch's own.

``y = x / L**0.75``, where ``L = 2 + 1e-4 * (sum of x**2 over the channel and the two on either side)``. PyTorch and
Caffe divide their constant by the number of channels in the window; MatConvNet does not.

References
----------
Krizhevsky, A., Sutskever, I. and Hinton, G. "ImageNet Classification with Deep Convolutional Neural Networks."
NIPS 2012.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_REACH = 2  # neighbours on each side: a window of five channels
_KAPPA = 2.0
_ALPHA = 1e-4
_BETA = 0.75
# Pieces of a batch that stay in a core's cache: the temporaries of a whole batch would travel to memory and back.
_PIECE = 1 << 18


class LocalResponseNorm(nn.Module):
    """Divides each response by the 0.75th power of 2 + 1e-4 times the squares of its five nearest channels."""

    def forward(self, responses: Tensor) -> Tensor:
        """Return the responses, shape (n, channels, height, width), normalised."""
        normalised: Tensor = _LocalResponseNorm.apply(responses)  # type: ignore[no-untyped-call]
        return normalised


class _LocalResponseNorm(torch.autograd.Function):
    """Keeps only its input; the scale is cheaper to compute again than to fetch from memory."""

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
    """Return L ** -0.5; L ** -0.75 is it times its own root, which is far cheaper than a power."""
    return _sum_of_neighbours(x * x).mul_(_ALPHA).add_(_KAPPA).rsqrt_()


def _sum_of_neighbours(x: Tensor) -> Tensor:
    """Return for each channel the sum of itself and the two on either side."""
    total = x.clone()
    for distance in range(1, _REACH + 1):
        total[:, distance:] += x[:, :-distance]
        total[:, :-distance] += x[:, distance:]
    return total
