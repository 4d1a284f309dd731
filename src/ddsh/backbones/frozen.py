"""The first stages of a network as they are: images in, feature maps out; each image is computed once."""

import hashlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ddsh.backbones.cache import Image, Maps, Store
from ddsh.backbones.folding import fold_batch_norm
from ddsh.backbones.network import ImageSource, Network
from ddsh.backbones.weights import fingerprint
from ddsh.errors import InvalidInput

CHUNK = 256
"""How many images pass a network at a time."""


class FrozenLayers:
    """The first stages of a network, which keep their weights.

    Parameters
    ----------
    network : Network
        The network; it is copied.
    n_stages : int
        How many of its stages; all of them give the features.
    memory : path, optional
        Folder where what they put out is kept for the next time. The same folder serves any network: each has a
        folder of its own in it, named by the weights.
    """

    def __init__(self, network: Network, n_stages: int, memory: Path | None = None) -> None:
        check_n_stages(network, n_stages)
        self.n_stages = n_stages
        self._network = fold_batch_norm(network)
        self._device = network.mean.device
        self._store = None if memory is None else self._open(memory, network)

    def outputs(self, images: ImageSource, on_progress: Callable[[int, int], None] | None = None) -> Maps:
        """Return what the stages make of images: maps, shape (n, height, width, channels), or features (n, d)."""
        return np.concatenate(list(self.chunks(images, on_progress)))

    def chunks(self, images: ImageSource, on_progress: Callable[[int, int], None] | None = None) -> Generator[Maps]:
        """Yield the same some images at a time: maps of a whole database need not fit into memory."""
        for start in range(0, len(images), CHUNK):
            part = [np.asarray(images[row]) for row in range(start, min(start + CHUNK, len(images)))]
            yield self._compute(part) if self._store is None else self._store.get(part, self._compute)
            if on_progress:
                on_progress(start + len(part), len(images))

    def row_shape(self) -> tuple[int, ...]:
        """Return the shape of the outputs of one image."""
        side, n_channels = self._network.image_size, self._network.n_channels
        return self._compute([np.zeros((side, side, n_channels), np.uint8)]).shape[1:]

    def _compute(self, images: Sequence[Image]) -> Maps:
        pixels = torch.from_numpy(self._network.prepare(images)).to(self._device)
        with torch.inference_mode():
            return as_maps(self._network.begin(pixels, self.n_stages))

    def _open(self, memory: Path, network: Network) -> Store:
        # The other stages may have learned since; they must not count.
        stages = fingerprint(nn.ModuleList(network.stages()[: self.n_stages]))
        pixels = [network.mean.cpu().numpy().tobytes(), network.std.cpu().numpy().tobytes()]
        name = hashlib.sha256(b"".join([stages.encode(), f" {network.image_size} ".encode(), *pixels])).hexdigest()
        return Store(memory / name[:32], self.row_shape())


def check_n_stages(network: Network, n_stages: int) -> None:
    """Raise unless the network has that many stages."""
    most = len(network.stages())
    if not 0 <= n_stages <= most:
        raise InvalidInput(f"The network has {most} stages, so that 0 to {most} can be frozen; got {n_stages}.")


def as_maps(outputs: Tensor) -> Maps:
    """Return a stage's output as an array, channels last."""
    last = outputs.permute(0, 2, 3, 1) if outputs.ndim == 4 else outputs
    maps: Maps = last.contiguous().cpu().numpy()
    return maps


def from_maps(maps: Maps) -> Tensor:
    """Return what :func:`as_maps` took, ready for the next stage."""
    outputs = torch.from_numpy(maps)
    return outputs.permute(0, 3, 1, 2) if outputs.ndim == 4 else outputs
