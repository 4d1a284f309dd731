"""A network that learns the codes."""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ddsh.errors import DdshError
from ddsh.methods._extensions.base import Arrays, Extension, Learned, Progress, Signs
from ddsh.methods.base import Outputs
from ddsh.methods.training import Training

if TYPE_CHECKING:
    from ddsh.backbones.network import Network
    from ddsh.methods._regression import CodeRegression


@dataclass(frozen=True)
class CNN(Extension):
    """A network that is trained to put out the codes; the items are images.

    Parameters
    ----------
    network : str or Network
        A name of :data:`ddsh.backbones.BACKBONES`, or your own.
    image_size : int, optional
        Side of the images that the network sees; its own if not given.
    n_frozen : int
        First stages of the network that keep their pretrained weights.
    training : Training, optional
        Passes, learning rate and so on; the usual ones if not given.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``mps``.
    weights : str, optional
        File with the network's pretrained weights, where they are not a package.
    memory : str, optional
        Folder where outputs of frozen stages are kept, for the next run; nothing is kept if not given.
    """

    kind = "cnn"
    inputs = "images"
    network: "str | Network" = "efficientnet-lite0"
    image_size: int | None = None
    n_frozen: int = 0
    training: Training | None = None
    device: str = "auto"
    weights: str | None = None
    memory: str | None = field(default=None, compare=False)

    def check_items(self, items: Any) -> Any:  # noqa: ANN401 -- whatever the caller calls items
        """Return images, or raise."""
        _regression_class()
        from ddsh.methods._batches import check_images

        return check_images(items)

    def learn(self, items: Any, signs: Signs, *, seed: int, progress: Progress) -> "TrainedNetwork":  # noqa: ANN401
        """Train the network."""
        regression = self._regression(signs.shape[1], seed)
        regression.fit(items, (signs > 0).astype(np.uint8), **vars(progress))
        return TrainedNetwork(regression)

    def restore(self, arrays: Arrays) -> "TrainedNetwork":
        """Take back the network's weights."""
        regression = self._regression(len(arrays["head.weight"]))
        regression.set_weights(arrays)
        return TrainedNetwork(regression)

    def describe(self) -> dict[str, Any]:
        """Return kind and parameters as plain JSON; a network of your own is only named."""
        described = self._regression(1).describe_params()
        return {"kind": self.kind} | {name: described[name] for name in self._names() if name in described}

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Make the extension from plain values; of ``training`` only what differs from the default need be there."""
        regression = _regression_class().from_description(params)
        return cls(**{name: getattr(regression, name) for name in cls._names()})

    @classmethod
    def _names(cls) -> list[str]:
        return [parameter.name for parameter in fields(cls)]

    def _regression(self, n_bits: int, seed: int = 0) -> "CodeRegression":
        return _regression_class()(n_bits, seed=seed, **{name: getattr(self, name) for name in self._names()})


@dataclass(frozen=True)
class TrainedNetwork(Learned):
    """A network that puts out codes.

    Parameters
    ----------
    regression : CodeRegression
        It, trained.
    """

    regression: "CodeRegression"

    @property
    def n_features(self) -> None:
        """None: it takes images."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """Loss of every pass."""
        return self.regression.history_

    def project(self, items: Any) -> Outputs:  # noqa: ANN401
        """Return the outputs of the network."""
        return self.regression.project(items)

    def to_arrays(self) -> Arrays:
        """Return the weights of the network."""
        return self.regression.get_weights()


def _regression_class() -> "type[CodeRegression]":
    """Return the class that trains a network, or say what it needs."""
    try:
        from ddsh.methods._regression import CodeRegression
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise DdshError("The extension 'cnn' needs PyTorch. Run: pip install 'ddsh[deep]'") from error
    return CodeRegression
