"""Networks that MatConvNet published as MATLAB files: filters, biases and the mean image, in both of its layouts.

The old layout has ``filters`` and ``biases`` in every layer and ``normalization`` beside the layers; the new one has
``weights``, a cell of both, and ``meta.normalization``. Either may lie inside a structure called ``net``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from ddsh.errors import DataError

__all__ = ["Layer", "Published", "read_matconvnet"]

MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Layer:
    """A layer's filters (height, width, in, out; axes of length 1 may be missing) and its biases (out)."""

    filters: NDArray[np.float32]
    biases: NDArray[np.float32]


@dataclass(frozen=True)
class Published:
    """What a file holds.

    Parameters
    ----------
    layers : mapping of str to Layer
        The convolutional layers, by name; full layers are published as convolutions.
    mean : array, shape (height, width, channels) or (channels,)
        To be subtracted from the pixels, 0 to 255.
    """

    layers: Mapping[str, Layer]
    mean: NDArray[np.float32]


def read_matconvnet(path: Path) -> Published:
    """Read a MatConvNet network, or say in one line why it is none."""
    content = _read(path)
    try:
        net = content.get("net", content)
        layers = {str(layer["name"]): _layer(layer) for layer in net["layers"] if layer["type"] == "conv"}
        normalisation = net.get("meta", net)["normalization"]
        return Published(layers, np.asarray(normalisation["averageImage"], np.float32))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a MatConvNet network ({type(error).__name__}: {error}).") from error


def _read(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes; a network of at most {MAX_BYTES:,} is read.")
    try:
        content: Mapping[str, Any] = loadmat(path, simplify_cells=True)
    except Exception as error:  # a damaged file makes the reader raise almost anything
        raise DataError(f"{path} is not a readable MATLAB file ({type(error).__name__}: {error}).") from error
    return content


def _layer(layer: Mapping[str, Any]) -> Layer:
    filters, biases = layer["weights"] if "weights" in layer else (layer["filters"], layer["biases"])
    return Layer(np.asarray(filters, np.float32), np.asarray(biases, np.float32).ravel())
