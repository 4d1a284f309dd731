"""Small network for images of 28 to 32 pixels, trained from scratch."""

import numpy as np
import torch
from torch import nn

from ddsh.backbones.layers import initialise
from ddsh.backbones.network import Network

__all__ = ["Small", "build", "build_grey"]

N_FEATURES = 256
WIDTHS = (32, 64, 128)


class Small(Network):
    """Three convolutional blocks and one fully connected layer.

    Trains in minutes on a CPU. A block is a convolution, batch normalisation, pooling and ReLU.

    Parameters
    ----------
    image_size : int
        Side of the input.
    n_channels : int
        1 for grey images, 3 for colour.
    """

    def __init__(self, image_size: int, n_channels: int) -> None:
        half = np.full((n_channels, 1, 1), 127.5)
        super().__init__(image_size, N_FEATURES, mean=half, std=half, frozen_batch_norm=False)
        # Pooling before ReLU gives the same values with a quarter of the work.
        blocks = [
            nn.Sequential(
                nn.Conv2d(n_in, n_out, 3, padding=1, bias=False),
                nn.BatchNorm2d(n_out),
                nn.MaxPool2d(2),
                nn.ReLU(inplace=True),
            )
            for n_in, n_out in zip((n_channels, *WIDTHS), WIDTHS, strict=False)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.full = nn.Linear(WIDTHS[-1] * (image_size // 2 ** len(blocks)) ** 2, N_FEATURES)

    def stages(self) -> list[nn.Module]:
        """Return the blocks, and the fully connected layer with its ReLU."""
        return [*self.blocks, nn.Sequential(nn.Flatten(), self.full, nn.ReLU(inplace=True))]


def build(*, image_size: int = 32, n_channels: int = 3, seed: int = 0) -> Network:
    """Return the network for colour images, with new weights."""
    network = Small(image_size, n_channels)
    initialise(network, seed)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def build_grey(*, image_size: int = 28, seed: int = 0) -> Network:
    """Return the network for grey images, with new weights."""
    return build(image_size=image_size, n_channels=1, seed=seed)
