"""Frozen stages: the outputs of a network's first stages, computed once."""

import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ddsh.backbones.base import PREPROCESSING_VERSION
from ddsh.backbones.cache import ActivationCache, Activations
from ddsh.backbones.layers import fold_batch_norm
from ddsh.backbones.network import Network
from ddsh.backbones.weights import fingerprint
from ddsh.errors import InvalidInput
from ddsh.images import Image, Images

__all__ = ["CHUNK", "FrozenLayers", "check_n_stages", "from_channels_last", "to_channels_last"]

CHUNK = 256
"""Images per forward pass."""


class FrozenLayers:
    """The first stages of a network, with fixed weights.

    Parameters
    ----------
    network : Network
        The network; it is copied.
    n_stages : int
        Number of stages; all stages return the features.
    cache_dir : path, optional
        Folder of the cache. Networks can share a folder: each has a subfolder named by a digest of its weights, its
        input size and the version of the preprocessing.
    """

    def __init__(self, network: Network, n_stages: int, cache_dir: str | os.PathLike[str] | None = None) -> None:
        check_n_stages(network, n_stages)
        self.n_stages = n_stages
        self._network = fold_batch_norm(network)
        self._device = network.mean.device
        self._cache: ActivationCache | None = None
        if cache_dir is not None:
            # Later stages are not part of the key, because their weights change in training.
            digest = hashlib.sha256(fingerprint(nn.ModuleList(network.stages()[:n_stages])).encode())
            digest.update(f" {network.image_size} ".encode())
            digest.update(network.mean.cpu().numpy().tobytes() + network.std.cpu().numpy().tobytes())
            digest.update(f" preprocessing {PREPROCESSING_VERSION}".encode())
            self._cache = ActivationCache(Path(cache_dir) / digest.hexdigest()[:32], self.output_shape())

    def outputs(self, images: Images, on_progress: Callable[[int, int], None] | None = None) -> Activations:
        """Return the outputs of all images: maps (n, height, width, channels) or features (n, d)."""
        return np.concatenate(list(self.chunks(images, on_progress)))

    def chunks(self, images: Images, on_progress: Callable[[int, int], None] | None = None) -> Generator[Activations]:
        """Yield the outputs in chunks, for databases that do not fit into memory."""
        for start in range(0, len(images), CHUNK):
            part = [np.asarray(images[row]) for row in range(start, min(start + CHUNK, len(images)))]
            yield self._compute(part) if self._cache is None else self._cache.get(part, self._compute)
            if on_progress:
                on_progress(start + len(part), len(images))

    def output_shape(self) -> tuple[int, ...]:
        """Return the shape of the output of one image."""
        side, n_channels = self._network.image_size, self._network.n_channels
        return self._compute([np.zeros((side, side, n_channels), np.uint8)]).shape[1:]

    @property
    def network(self) -> Network:
        """The network, with batch normalisation folded into it."""
        return self._network

    def look_features(self, images: Images, look_stages: Sequence[int]) -> tuple[Activations, ...]:
        """Return means over the positions of some maps, and the features; see :meth:`Network.finish_with_look`."""
        parts = []
        for start in range(0, len(images), CHUNK):
            part = [np.asarray(images[row]) for row in range(start, min(start + CHUNK, len(images)))]
            pixels = torch.from_numpy(self._network.prepare(part)).to(self._device)
            with torch.inference_mode():
                found = self._network.finish_with_look(self._network.begin(pixels, 0), 0, look_stages)
            parts.append([tensor.cpu().numpy() for tensor in found])
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def _compute(self, images: Sequence[Image]) -> Activations:
        pixels = torch.from_numpy(self._network.prepare(images)).to(self._device)
        with torch.inference_mode():
            return to_channels_last(self._network.begin(pixels, self.n_stages))


def check_n_stages(network: Network, n_stages: int) -> None:
    """Raise unless the network has at least `n_stages` stages."""
    most = len(network.stages())
    if not 0 <= n_stages <= most:
        raise InvalidInput(f"The network has {most} stages; 0 to {most} can be frozen, got {n_stages}.")


def to_channels_last(outputs: Tensor) -> Activations:
    """Return the output of a stage as an array, channels last."""
    last = outputs.permute(0, 2, 3, 1) if outputs.ndim == 4 else outputs
    activations: Activations = last.contiguous().cpu().numpy()
    return activations


def from_channels_last(activations: Activations) -> Tensor:
    """Return an array of :func:`to_channels_last` as the input of the next stage."""
    outputs = torch.from_numpy(activations)
    return outputs.permute(0, 3, 1, 2) if outputs.ndim == 4 else outputs
