"""Tiny: one convolution and one full layer, trained from scratch."""

from torch import nn

from ddsh.backbones import CustomNetwork, Network
from ddsh.backbones.layers import initialise


def build(*, image_size: int = 16, seed: int = 0) -> Network:
    """Return the network with new weights.

    Parameters
    ----------
    image_size : int
        Side of the images.
    seed : int
        Seed of the weights.
    """
    module = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 5, padding=2), nn.BatchNorm2d(8), nn.MaxPool2d(4), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(8 * (image_size // 4) ** 2, 32), nn.ReLU()),
    )
    network = CustomNetwork(module, image_size, mean=[127.5] * 3, std=[127.5] * 3, frozen_batch_norm=False)
    initialise(network, seed)
    return network
