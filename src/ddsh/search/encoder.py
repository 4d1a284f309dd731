"""A saved model as search uses it: images in, real outputs out, and a fingerprint of all that decides them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets.base import Dataset
from ddsh.errors import InvalidInput
from ddsh.evaluation.results import items, network_params
from ddsh.images import Image
from ddsh.labels import as_labels
from ddsh.methods import load_model
from ddsh.methods.base import Outputs

if TYPE_CHECKING:
    from ddsh.backbones.hash_network import HashNetwork
    from ddsh.methods._models import SavedModel
    from ddsh.methods.base import Hasher

PREPROCESSING_VERSION = 1
"""Must grow whenever the same file would get other pixels than before: codes from then and now do not compare."""


class Encoder:
    """Turns images into real outputs, whose signs are the codes.

    Parameters
    ----------
    saved : SavedModel
        The model.
    """

    def __init__(self, saved: "SavedModel") -> None:
        self._hasher = saved.hasher
        self._network = network_of(saved.hasher)
        self._extractor = saved.extractor()
        self.method = saved.hasher.card.name
        self.n_bits = saved.hasher.n_bits
        self.preprocessing = self._preprocessing(saved.about.get("features"))
        """How an image becomes what the model sees, as plain JSON."""
        self.fingerprint = _digest({"weights": saved.fingerprint, "method": self.method} | dict(self.preprocessing))
        """Equal fingerprints, equal codes: it covers the weights and the preprocessing."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a saved model."""
        return cls(load_model(folder))

    def prepare(self, image: Image) -> Image:
        """Return an image as small as the model needs it, or raise where the model cannot take it."""
        if self._network is not None:
            prepared: Image = self._network.backbone.prepare([image])[0]
            return prepared
        n_pixels = self.preprocessing.get("pixels")
        if n_pixels is not None and image.size != n_pixels:
            height, width, channels = image.shape
            raise InvalidInput(
                f"{width} x {height} pixels in {channels} colours are {image.size:,} numbers, but the model takes"
                f" {n_pixels:,}; train one on the features of a network (--network)."
            )
        return image

    def outputs(self, images: Sequence[Image]) -> Outputs:
        """Return the real outputs of images that :meth:`prepare` returned, shape (n, n_bits)."""
        nothing = as_labels(np.zeros((len(images), 2), np.uint8))
        dataset = Dataset("images", _Listed(images), nothing, ())
        seen = items(self._hasher, dataset, np.arange(len(images)), self._extractor)
        outputs: Outputs = self._hasher.project(seen)
        return outputs

    def _preprocessing(self, features: Mapping[str, Any] | None) -> Mapping[str, Any]:
        version = {"version": PREPROCESSING_VERSION}
        if self._network is not None:
            backbone = self._network.backbone
            name = network_params(self._hasher).get("network")
            return version | {"network": name, "image_size": backbone.image_size, "channels": backbone.n_channels}
        if self._extractor is not None and features is not None:
            size = self._extractor.image_size
            return version | {
                "features": self._extractor.name,
                "image_size": size,
                "checksum": self._checksum(features),
            }
        return version | {"pixels": self._hasher.n_features_in_}

    def _checksum(self, features: Mapping[str, Any]) -> str | None:
        """Return the checksum of the weights behind the features: the known one, or that of the user's own file."""
        assert self._extractor is not None, "only features have weights besides the model's"
        if self._extractor.checksum is not None or not features.get("weights"):
            return self._extractor.checksum
        with Path(features["weights"]).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class _Listed:
    """Images in a list, as a dataset wants them."""

    def __init__(self, images: Sequence[Image]) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: int, /) -> Image:
        return self._images[row]

    def take(self, rows: NDArray[np.integer[Any]]) -> Sequence[Image]:
        """Return the images of some rows."""
        return [self._images[int(row)] for row in rows]

    def name(self, row: int) -> str:
        """Return the row."""
        return f"image {row}"


def network_of(hasher: "Hasher") -> "HashNetwork | None":
    """Return the network that a method trained, hash layer included, or None if it trained none."""
    learned = getattr(hasher, "learned_", None)  # two-step methods keep what they learned, maybe a deep method, here
    deep = getattr(learned, "regression", hasher)
    network: HashNetwork | None = getattr(deep, "model_", None)
    return network


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
