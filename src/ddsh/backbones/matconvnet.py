"""Reader of MatConvNet networks: filters, biases and mean image.

The old layout has ``filters`` and ``biases`` in every layer and ``normalization`` beside the layers; the new one has
``weights``, a cell of both, and ``meta.normalization``. Both may be inside a structure called ``net``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import DataError
from ddsh.matlab import load_mat

__all__ = ["Layer", "Published", "read_matconvnet"]

MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Layer:
    """Filters and biases of a layer.

    Parameters
    ----------
    filters : ndarray of float32
        Height, width, in, out; axes of length 1 may be missing.
    biases : ndarray of float32, shape (out,)
        The biases.
    """

    filters: NDArray[np.float32]
    biases: NDArray[np.float32]


@dataclass(frozen=True)
class Published:
    """Content of a file.

    Parameters
    ----------
    layers : mapping of str to Layer
        Convolutional layers by name; fully connected layers are published as convolutions.
    mean : array, shape (height, width, channels) or (channels,)
        Mean of the pixels, 0 to 255.
    """

    layers: Mapping[str, Layer]
    mean: NDArray[np.float32]


def read_matconvnet(path: Path) -> Published:
    """Read a MatConvNet network."""
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes; a network may have at most {MAX_BYTES:,}.")
    content = load_mat(path, simplify=True)
    try:
        net = content.get("net", content)
        layers = {}
        for layer in net["layers"]:
            if layer["type"] == "conv":
                both = layer["weights"] if "weights" in layer else (layer["filters"], layer["biases"])
                filters, biases = (np.asarray(array, np.float32) for array in both)
                layers[str(layer["name"])] = Layer(filters, biases.ravel())
        normalisation = net.get("meta", net)["normalization"]
        return Published(layers, np.asarray(normalisation["averageImage"], np.float32))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a MatConvNet network ({type(error).__name__}: {error}).") from error
