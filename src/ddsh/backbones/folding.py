"""Batch normalisation folded into the convolutions before it: the same features in less time."""

import copy
from itertools import pairwise
from typing import TypeVar

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

M = TypeVar("M", bound=nn.Module)


def fold_batch_norm(network: M) -> M:
    """Return a copy, for inference, in which a convolution and the batch normalisation after it are one convolution.

    Only neighbours inside an ``nn.Sequential`` are folded; the network that was given is not touched.
    """
    folded = copy.deepcopy(network).eval()
    for module in list(folded.modules()):
        if isinstance(module, nn.Sequential):
            _fold(module)
    return folded


def _fold(layers: nn.Sequential) -> None:
    for (place, first), (after, second) in pairwise(list(layers.named_children())):
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d) and second.running_mean is not None:
            setattr(layers, place, fuse_conv_bn_eval(first, second))
            setattr(layers, after, nn.Identity())
