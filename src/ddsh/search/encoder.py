"""Adapter of a model for search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ddsh.images import Image
from ddsh.methods.base import Outputs
from ddsh.model import Model


class Encoder:
    """Turns images into real outputs, whose signs are the codes.

    Parameters
    ----------
    model : Model
        The model.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.method, self.n_bits = model, model.name, model.n_bits
        self.preprocessing, self.fingerprint, self.prepare = model.preprocessing, model.fingerprint, model.prepare

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a saved model."""
        return cls(Model.load(folder))

    def outputs(self, images: Sequence[Image]) -> Outputs:
        """Return the real outputs of images that :meth:`prepare` returned, shape (n, n_bits)."""
        return self.model.project(images)
