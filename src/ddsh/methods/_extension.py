"""How the codes of training items are carried over to new items: the second step of every two-step method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ddsh.base import Outputs, check_features
from ddsh.errors import DdshError, InvalidInput, UnknownName
from ddsh.methods._kernels import choose_anchors, kernel_map, kernel_product, rbf_width
from ddsh.methods._training import Training, TrainingStep
from ddsh.methods._trees import grow_trees, project_trees, read_models

if TYPE_CHECKING:
    from ddsh.methods._regression import CodeRegression
    from ddsh.networks.network import Network

Features: TypeAlias = NDArray[np.float64]
Signs: TypeAlias = NDArray[np.int8]
Arrays: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Progress:
    """What an extension that trains a network does meanwhile; the others have no use for it.

    Parameters
    ----------
    checkpoints : path, optional
        Folder for checkpoints.
    resume : bool
        Go on from the newest of them.
    on_step : callable, optional
        Told of each mini-batch.
    """

    checkpoints: Path | None = None
    resume: bool = False
    on_step: Callable[[TrainingStep], None] | None = None


class Learned(ABC):
    """What an extension has learned."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The width of the features it takes; None where it takes images."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """What each pass of a training brought."""
        return []

    @abstractmethod
    def project(self, items: Any) -> Outputs:  # noqa: ANN401 -- features or images
        """Return real outputs whose signs are the code, shape (n, n_bits)."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return all of it as named arrays, which the extension's ``restore`` takes back."""


@dataclass(frozen=True)
class Extension(ABC):
    """What learns given codes of training items, so that it can give codes to new ones.

    Subclasses are frozen dataclasses of parameters.
    """

    kind: ClassVar[str]
    inputs: ClassVar[Literal["features", "images"]] = "features"

    def check_items(self, items: Any) -> Any:  # noqa: ANN401 -- whatever the caller calls items
        """Return items as the extension takes them, or raise."""
        return check_features(items)

    @abstractmethod
    def learn(self, items: Any, signs: Signs, *, seed: int, progress: Progress) -> Learned:  # noqa: ANN401
        """Learn to give each item its row of -1 and +1 in `signs`."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> Learned:
        """Take back what :meth:`Learned.to_arrays` returned."""

    def describe(self) -> dict[str, Any]:
        """Return kind and parameters as plain JSON."""
        return {"kind": self.kind} | asdict(self)

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Make the extension from its parameters as plain values."""
        return cls(**params)


@dataclass(frozen=True)
class Linear(Extension):
    """A linear function for each bit, by ridge regression to the signs.

    Parameters
    ----------
    ridge : float
        Weight of the penalty, in units of the features' mean variance times the number of items.
    """

    kind = "linear"
    ridge: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self, "ridge")

    def learn(self, items: Features, signs: Signs, *, seed: int, progress: Progress) -> "LinearMap":
        """Solve the regression."""
        return LinearMap.fit(items, signs, self.ridge)

    def restore(self, arrays: Arrays) -> "LinearMap":
        """Take back a linear map."""
        return LinearMap(**arrays)


@dataclass(frozen=True)
class LinearMap(Learned):
    """An affine function, (x - mean) weights + offset.

    Parameters
    ----------
    mean : ndarray, shape (d,)
        Of the training features.
    weights : ndarray, shape (d, n_bits)
        The function.
    offset : ndarray, shape (n_bits,)
        Mean of the training signs.
    """

    mean: Features
    weights: Features
    offset: Features

    @classmethod
    def fit(cls, features: Features, signs: Signs, ridge: float) -> Self:
        """Minimise the squared error plus a penalty on the weights."""
        mean, offset = features.mean(axis=0), signs.mean(axis=0)
        return cls(mean, _ridge_weights(features - mean, signs - offset, ridge), offset)

    @property
    def n_features(self) -> int:
        """The width of the features it takes."""
        return len(self.mean)

    def project(self, items: Features) -> Outputs:
        """Return the values of the function."""
        return items @ self.weights + self._constant

    def to_arrays(self) -> Arrays:
        """Return the three arrays."""
        return {"mean": self.mean, "weights": self.weights, "offset": self.offset}

    @cached_property
    def _constant(self) -> Features:
        constant: Features = self.offset - self.mean @ self.weights
        return constant


@dataclass(frozen=True)
class Kernel(Extension):
    """A linear function of Gaussian kernels on anchors for each bit.

    Parameters
    ----------
    n_anchors : int
        Training items drawn as anchors; all of them where there are fewer.
    ridge : float
        Weight of the penalty, in units of the kernels' mean variance times the number of items.
    """

    kind = "kernel"
    n_anchors: int = 1000
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        _check_positive(self, "n_anchors", "ridge")

    def learn(self, items: Features, signs: Signs, *, seed: int, progress: Progress) -> "KernelMap":
        """Draw anchors and solve the regression."""
        anchors = choose_anchors(items, self.n_anchors, np.random.Generator(np.random.PCG64(seed)))
        width = rbf_width(items, anchors)
        return KernelMap(anchors, width, LinearMap.fit(kernel_map(items, anchors, width), signs, self.ridge))

    def restore(self, arrays: Arrays) -> "KernelMap":
        """Take back anchors, width and the linear map."""
        linear = {name: array for name, array in arrays.items() if name not in ("anchors", "width")}
        return KernelMap(arrays["anchors"], arrays["width"].item(), LinearMap(**linear))


@dataclass(frozen=True)
class KernelMap(Learned):
    """An affine function of Gaussian kernels.

    Parameters
    ----------
    anchors : ndarray, shape (m, d)
        Their centres.
    width : float
        Their standard deviation.
    linear : LinearMap
        The function of the m kernels.
    """

    anchors: Features
    width: float
    linear: LinearMap

    @property
    def n_features(self) -> int:
        """The width of the features it takes."""
        return int(self.anchors.shape[1])

    def project(self, items: Features) -> Outputs:
        """Return the values of the function."""
        return kernel_product(items, self.anchors, self.width, self.linear.weights) + self.linear._constant

    def to_arrays(self) -> Arrays:
        """Return anchors, width and the linear map."""
        return {"anchors": self.anchors, "width": np.array([self.width])} | self.linear.to_arrays()


@dataclass(frozen=True)
class Trees(Extension):
    """Boosted decision trees for each bit, by LightGBM.

    Parameters
    ----------
    n_trees : int
        Trees for each bit.
    n_leaves : int
        Leaves of a tree.
    learning_rate : float
        How much of each tree is taken.
    max_features : int
        Features, drawn at random, that each tree sees; all where there are fewer.
    n_bins : int
        Values that a feature is rounded to.
    min_leaf : int
        Fewest training items in a leaf.
    n_workers : int, optional
        Bits learned at the same time, as many as there are cores if not given; it changes nothing but the time.
    """

    kind = "trees"
    n_trees: int = 400
    n_leaves: int = 16
    learning_rate: float = 0.1
    max_features: int = 64
    n_bins: int = 31
    min_leaf: int = 10
    n_workers: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_positive(self, "n_trees", "learning_rate", "max_features", "min_leaf")
        if min(self.n_leaves, self.n_bins) < 2:
            raise InvalidInput(f"n_leaves and n_bins must be at least 2; got {self.n_leaves}, {self.n_bins}.")
        if self.n_workers is not None:
            _check_positive(self, "n_workers")

    def learn(self, items: Features, signs: Signs, *, seed: int, progress: Progress) -> "Forest":
        """Grow the trees of every bit."""
        settings = {
            "num_leaves": self.n_leaves,
            "learning_rate": self.learning_rate,
            "feature_fraction": min(1.0, self.max_features / items.shape[1]),
            "max_bin": self.n_bins,
            "min_data_in_leaf": self.min_leaf,
        }
        models = grow_trees(items, signs, n_trees=self.n_trees, settings=settings, seed=seed, n_workers=self.n_workers)
        return Forest(models, self.n_workers)

    def restore(self, arrays: Arrays) -> "Forest":
        """Take back the models."""
        texts = (arrays[_model_name(bit)].tobytes().decode() for bit in range(len(arrays)))
        return Forest(tuple(texts), self.n_workers)

    def describe(self) -> dict[str, Any]:
        """Return kind and parameters as plain JSON, all but the number of workers, which changes nothing."""
        return {name: value for name, value in super().describe().items() if name != "n_workers"}


@dataclass(frozen=True)
class Forest(Learned):
    """Boosted trees for each bit.

    Parameters
    ----------
    models : tuple of str
        LightGBM's text of each.
    n_workers : int, optional
        Threads that predict, as many as there are cores if not given.
    """

    models: tuple[str, ...]
    n_workers: int | None = None

    @property
    def n_features(self) -> int:
        """The width of the features it takes."""
        return int(self._boosters[0].num_feature())

    def project(self, items: Features) -> Outputs:
        """Return the log-odds of each bit."""
        return project_trees(self._boosters, items, self.n_workers)

    def to_arrays(self) -> Arrays:
        """Return the models as bytes."""
        return {_model_name(bit): np.frombuffer(text.encode(), np.uint8) for bit, text in enumerate(self.models)}

    @cached_property
    def _boosters(self) -> list[Any]:
        return read_models(self.models)


@dataclass(frozen=True)
class CNN(Extension):
    """A network that is trained to put out the codes; the items are images.

    Parameters
    ----------
    network : str or Network
        A name of :data:`ddsh.networks.NETWORKS`, or your own.
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
        from ddsh.methods._images import check_images

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


EXTENSIONS: Mapping[str, type[Extension]] = {cls.kind: cls for cls in (CNN, Kernel, Linear, Trees)}


def as_extension(given: str | Mapping[str, Any] | Extension) -> Extension:
    """Return an extension that is given by name, described in plain values, or as it is.

    Parameters
    ----------
    given : str, mapping or Extension
        A name of `EXTENSIONS`, ``{"kind": name}`` with parameters besides, or an extension.
    """
    if isinstance(given, Extension):
        return given
    description = {"kind": given} if isinstance(given, str) else given
    if not isinstance(description, Mapping) or "kind" not in description:
        raise InvalidInput(f"An extension is a name or has a kind, one of {', '.join(EXTENSIONS)}; got {given!r}.")
    if description["kind"] not in EXTENSIONS:
        raise UnknownName("extension", str(description["kind"]), EXTENSIONS)
    return _described(
        EXTENSIONS[description["kind"]], {name: description[name] for name in description if name != "kind"}
    )


def _described(cls: type[Extension], params: dict[str, Any]) -> Extension:
    """Return an extension with some of its parameters, or say which one it does not have."""
    known = [parameter.name for parameter in fields(cls)]
    for name in params:
        if name not in known:
            raise InvalidInput(f"The extension {cls.kind!r} has no parameter {name!r}; it has {', '.join(known)}.")
    return cls.from_description(params) if params else cls()


def _ridge_weights(X: Features, Y: Features, ridge: float) -> Features:  # noqa: N803 -- the usual letters
    """Return the W that minimises |Y - XW|^2 + penalty |W|^2; X and Y are centred."""
    n, d = X.shape
    # Where every feature is constant there is nothing to weigh, and any penalty gives W = 0.
    penalty = ridge * (float(np.square(X).sum()) / d or 1.0)
    if n < d:  # the same W, from a smaller matrix
        weights: Features = X.T @ linalg.solve(X @ X.T + penalty * np.eye(n), Y, assume_a="pos")
    else:
        weights = linalg.solve(X.T @ X + penalty * np.eye(d), X.T @ Y, assume_a="pos")
    return weights


def _model_name(bit: int) -> str:
    return f"bit{bit:04}"


def _check_positive(parameters: Extension, *names: str) -> None:
    for name in names:
        if not getattr(parameters, name) > 0:
            raise InvalidInput(f"{name} must be above 0; got {getattr(parameters, name)}.")


def _regression_class() -> "type[CodeRegression]":
    """Return the class that trains a network, or say what it needs."""
    try:
        from ddsh.methods._regression import CodeRegression
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise DdshError("The extension 'cnn' needs PyTorch. Run: pip install 'ddsh[deep]'") from error
    return CodeRegression
