"""A network with a hash layer on top, and the devices it can run on."""

import torch
from torch import Tensor, nn

from ddsh.backbones.network import Network
from ddsh.errors import InvalidInput

HEAD_STD = 0.01
"""The authors draw weight and bias of the new last layer from N(0, 0.01^2)."""


class HashNetwork(nn.Module):
    """Features, then one fully connected layer with an output per bit.

    Parameters
    ----------
    backbone : Network
        Maps images to features.
    n_bits : int
        Code length.
    seed : int
        Of the new layer's weights.
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

    def forward(self, pixels: Tensor) -> Tensor:
        """Return real outputs, shape (n, n_bits), of uint8 images, shape (n, size, size, channels)."""
        return self.finish(self.backbone.begin(pixels, 0), 0)

    def finish(self, maps: Tensor, n_stages: int) -> Tensor:
        """Return the real outputs of what the network's first stages put out."""
        outputs: Tensor = self.head(self.backbone.finish(maps, n_stages))
        return outputs


def choose_device(name: str) -> torch.device:
    """Return a device by name; ``auto`` is the best one there is."""
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
