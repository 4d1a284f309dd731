"""Extension ``cnn``: a network trained to predict the codes."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ddsh.errors import MissingExtra
from ddsh.labels import Labels
from ddsh.methods._extensions.base import Arrays, Extension, FitOptions, Learned, Signs
from ddsh.methods.base import Outputs
from ddsh.methods.training import Training

if TYPE_CHECKING:
    from ddsh.backbones import Backbone
    from ddsh.methods._regression import CodeRegression

__all__ = ["CNN", "TrainedNetwork"]


@dataclass(frozen=True)
class CNN(Extension):
    """A network trained to predict the codes; the items are images.

    Parameters
    ----------
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    """

    kind = "cnn"
    inputs = "images"
    backbone: "str | Backbone" = "efficientnet-lite0"
    training: Training | None = None

    def check_items(self, items: Any) -> Any:  # noqa: ANN401 -- see as_images
        """Return images, or raise."""
        return self._regression(1)._check_items(items)

    def learn(self, items: Any, signs: Signs, *, seed: int, options: FitOptions) -> "TrainedNetwork":  # noqa: ANN401
        """Train the network."""
        regression = self._regression(signs.shape[1], seed)
        return TrainedNetwork(regression.fit(items, (signs > 0).astype(np.uint8), **vars(options)))

    def restore(self, arrays: Arrays) -> "TrainedNetwork":
        """Return the network with the given weights."""
        regression = self._regression(len(arrays["head.weight"]))
        regression.set_weights(arrays)
        return TrainedNetwork(regression)

    def with_backbone(self, backbone: "Backbone") -> "CNN":
        """Return the extension with another backbone."""
        return replace(self, backbone=backbone)

    def adapted(self, labels: Labels) -> "CNN":
        """Return the extension with a schedule for few images; itself if there are enough."""
        regression = self._regression(1)
        suited = regression.adapted(labels)
        return self if suited is regression else replace(self, training=suited.training)

    @property
    def trained_backbone(self) -> "Backbone":
        """The backbone that the extension trains."""
        return self._regression(1).trained_backbone

    def describe(self) -> dict[str, Any]:
        """Return kind and training as plain JSON, without the backbone."""
        return {"kind": self.kind, "training": asdict(self._regression(1)._schedule())}

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Build the extension from plain values.

        ``training`` may contain only the fields that differ from the default.
        """
        regression = cls()._regression(1).from_description(params)
        return cls(regression.backbone, regression.training)

    def _regression(self, n_bits: int, seed: int = 0) -> "CodeRegression":
        try:
            from ddsh.methods._regression import CodeRegression
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra("The extension 'cnn'", "PyTorch", "deep") from error
        return CodeRegression(n_bits, seed=seed, backbone=self.backbone, training=self.training)


@dataclass(frozen=True)
class TrainedNetwork(Learned):
    """A network that predicts codes.

    Parameters
    ----------
    regression : CodeRegression
        The fitted regression.
    """

    regression: "CodeRegression"

    @property
    def n_features(self) -> None:
        """None: it takes images."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """Loss of every epoch."""
        return self.regression.history_

    def project(self, items: Any) -> Outputs:  # noqa: ANN401
        """Return the outputs of the network."""
        return self.regression.project(items)

    def to_arrays(self) -> Arrays:
        """Return the weights of the network."""
        return self.regression.get_weights()
