"""New weights: He's initialisation, drawn from a generator of its own."""

import torch
from torch import nn


def initialise(module: nn.Module, seed: int) -> None:
    """Draw the weights of every convolution and full layer as He et al. (2015) do; biases become 0.

    The same seed gives the same weights; PyTorch's global generator is neither read nor moved.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
