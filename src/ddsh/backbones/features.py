"""Features of images from a pretrained network, for the methods that learn from feature vectors."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ddsh.backbones.frozen import FrozenLayers
from ddsh.backbones.network import ImageSource, Network
from ddsh.backbones.registry import BACKBONES, build_network


class FeatureExtractor:
    """The last layer before the classifier of a pretrained network (4,096 wide for CNN-F and AlexNet).

    Parameters
    ----------
    network : str
        A name of :data:`ddsh.backbones.BACKBONES`.
    image_size : int, optional
        Side of the images that the network sees; its own if not given.
    weights : str, optional
        File with its pretrained weights, where they are not a package.
    memory : path, optional
        Folder where features are kept, for the next time; nothing is kept if not given.
    """

    def __init__(
        self, network: str, image_size: int | None = None, weights: str | None = None, memory: Path | None = None
    ) -> None:
        self.name = network
        self._asked_size, self._weights, self._memory = image_size, weights, memory

    @property
    def image_size(self) -> int:
        """Side of the images that the network sees."""
        return self._network.image_size

    @property
    def checksum(self) -> str | None:
        """Checksum of the network's file of weights, where it is known."""
        return BACKBONES[self.name].sha256

    def extract(
        self, images: ImageSource, on_progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Return the features of images, shape (n, d)."""
        return self._layers.outputs(images, on_progress)

    @cached_property
    def _network(self) -> Network:
        return build_network(self.name, image_size=self._asked_size, weights=self._weights)

    @cached_property
    def _layers(self) -> FrozenLayers:
        return FrozenLayers(self._network, len(self._network.stages()), self._memory)


def features(
    network: str,
    images: ImageSource,
    *,
    image_size: int | None = None,
    weights: str | None = None,
    memory: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Return the features that a pretrained network gives images, shape (n, d); see :class:`FeatureExtractor`."""
    return FeatureExtractor(network, image_size, weights, memory).extract(images, on_progress)
