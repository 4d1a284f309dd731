"""The one training loop of all deep methods."""

import copy
import hashlib
import inspect
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from ddsh.backbones.folding import fold_batch_norm
from ddsh.backbones.frozen import FrozenLayers, check_n_stages, from_maps
from ddsh.backbones.hash_network import HashNetwork, choose_device
from ddsh.backbones.network import ImageSource, Network
from ddsh.backbones.registry import build_network
from ddsh.backbones.weights import fingerprint
from ddsh.errors import Diverged, InvalidInput
from ddsh.labels import Labels, LabelsLike
from ddsh.methods._batches import AugmentedPixels, Batches, FrozenMaps, PreparedImages, check_images
from ddsh.methods._checkpoints import Checkpoint, Checkpoints
from ddsh.methods._distributed import add_gradients, gather_gradients, gather_rows, my_share, world
from ddsh.methods.base import Hasher, Outputs
from ddsh.methods.training import Training, TrainingStep

Rows: TypeAlias = NDArray[np.int64]


class DeepOptions(TypedDict, total=False):
    """Parameters that every deep method has; see :class:`DeepHasher`."""

    network: str | Network
    image_size: int | None
    n_frozen: int
    training: Training | None
    seed: int
    device: str
    weights: str | None
    memory: str | None


class DeepHasher(Hasher):
    """A method that trains a network end to end.

    Subclasses write :meth:`_loss` and, where needed, :meth:`_begin_fit`, :meth:`_begin_pass` and :meth:`_after_batch`;
    what they keep between mini-batches they hand out and take back with :meth:`_state` and :meth:`_restore`. In
    ``__init__`` they name the parameters that are theirs and pass the others on.

    Parameters
    ----------
    n_bits : int
        Code length.
    network : str or Network
        A name of :data:`ddsh.backbones.BACKBONES`, or your own.
    image_size : int, optional
        Side of the images that the network sees; its own if not given.
    n_frozen : int
        First stages of the network that keep their pretrained weights; what they put out is computed once.
    training : Training, optional
        Passes, learning rate and so on; the method's own if not given.
    seed : int
        Of everything random.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``mps``.
    weights : str, optional
        File with the network's pretrained weights, where they are not a package.
    memory : str, optional
        Folder where outputs of frozen stages are kept, for the next run; nothing is kept if not given.

    Attributes
    ----------
    model_ : HashNetwork
        The trained network.
    history_ : list of dict
        Loss of every pass and, where the method has one, its objective.
    """

    usual_training: ClassVar[Training]
    """How the method is trained if nothing else is said."""
    needs_whole_batch: ClassVar[bool] = False
    """Whether the loss is on pairs inside a mini-batch, which processes that share it must then see whole."""
    _folded: tuple[HashNetwork, HashNetwork] | None = None
    """The trained network, and what it was folded to for inference."""

    def __init__(
        self,
        n_bits: int = 32,
        *,
        network: str | Network = "efficientnet-lite0",
        image_size: int | None = None,
        n_frozen: int = 0,
        training: Training | None = None,
        seed: int = 0,
        device: str = "auto",
        weights: str | None = None,
        memory: str | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.network = network
        self.image_size = image_size
        self.n_frozen = n_frozen
        self.training = training
        self.seed = seed
        self.device = device
        self.weights = weights
        self.memory = memory

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return all parameters, of this class and of those it epochs others on to (scikit-learn's hook)."""
        makers = (vars(parent)["__init__"] for parent in cls.__mro__ if "__init__" in vars(parent))
        named = [given for maker in makers for given in inspect.signature(maker).parameters.values()]
        return sorted({given.name for given in named if given.kind is given.KEYWORD_ONLY} | {"n_bits"})

    def fit(
        self,
        X: Any,  # noqa: ANN401, N803 -- scikit-learn's name
        y: LabelsLike | None = None,
        *,
        checkpoints: Path | None = None,
        resume: bool = False,
        on_step: Callable[[TrainingStep], None] | None = None,
    ) -> Self:
        """Train on images `X`, shape (n, height, width, channels) or a sequence of such, and their labels `y`.

        Parameters
        ----------
        X : uint8 images
            The training images.
        y : Labels, vector, or 0/1 matrix
            Their labels.
        checkpoints : path, optional
            Folder for checkpoints; the last two stay there, for the caller to remove when the model is safe.
        resume : bool
            Go on from the newest checkpoint there, if there is one; the codes are those of a run that never stopped.
        on_step : callable, optional
            Told of each mini-batch.
        """
        self._check_parameters()
        images = check_images(X)
        labels = self._check_labels(images, y)
        assert labels is not None, "deep methods are supervised"
        self._run(images, labels, checkpoints, resume, on_step)
        return self

    def _run(
        self,
        images: ImageSource,
        labels: Labels,
        folder: Path | None,
        resume: bool,
        on_step: Callable[[TrainingStep], None] | None,
    ) -> None:
        self.model_ = HashNetwork(self._build_network(), self.n_bits, self.seed).to(choose_device(self.device))
        check_n_stages(self.model_.backbone, self._n_frozen())
        batches = self._batches(images)
        self._begin_fit(labels)
        loop = _Loop(self, batches, on_step)
        store = Checkpoints(folder, self._fingerprint(batches, labels)) if folder else None
        if store and not resume:
            store.require_none()
        loop.run(store)
        self._folded = None
        self.history_: list[dict[str, Any]] = loop.history

    @abstractmethod
    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the mean loss of a mini-batch from the network's outputs, shape (n, n_bits)."""

    def _batches(self, images: ImageSource) -> Batches:
        """Return what the network learns from: the images, or what its frozen layers make of them."""
        schedule = self._schedule()
        if not self._n_frozen():
            prepared = PreparedImages(images, self.model_.backbone)
            return AugmentedPixels(prepared, flip=schedule.flip, crop=schedule.crop)
        if schedule.crop:
            raise InvalidInput(f"Frozen layers see each image as it is: n_frozen={self._n_frozen()} needs crop=0.")
        return FrozenMaps(images, self._frozen_layers(), flip=schedule.flip)

    def _n_frozen(self) -> int:
        """Return how many stages of the network keep their weights."""
        return self.n_frozen

    def _frozen_layers(self) -> FrozenLayers:
        memory = None if self.memory is None else Path(self.memory)
        return FrozenLayers(self.model_.backbone, self._n_frozen(), memory)

    def _begin_fit(self, labels: Labels) -> None:
        """Prepare what the method keeps while it trains: the labels, and what a subclass adds."""
        self._labels = labels

    def _begin_pass(self, number: int) -> tuple[Rows, float | None]:
        """Do what comes before a pass; return the rows to train on and the method's objective, if it has one."""
        return np.arange(len(self._labels)), None

    def _after_batch(self, rows: Rows, outputs: NDArray[np.float32]) -> None:
        """Take note of the outputs of a mini-batch."""

    def _state(self) -> dict[str, NDArray[Any]]:
        """Return what must be in a checkpoint."""
        return {}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back what :meth:`_state` returned."""

    def _schedule(self) -> Training:
        """Return how to train; the default is the method's."""
        return self.training or self.usual_training

    def _rng(self, *purpose: int) -> np.random.Generator:
        """Return the random numbers for one purpose: the same in every run, wherever it was resumed."""
        return np.random.Generator(np.random.PCG64([self.seed, *purpose]))

    def _build_network(self, n_features: int | None = None) -> Network:
        """Return the network with its pretrained weights, or of a known width to be filled with saved ones."""
        if isinstance(self.network, Network):
            return copy.deepcopy(self.network)
        if n_features is not None:
            return build_network(self.network, image_size=self.image_size, pretrained=False, n_features=n_features)
        return build_network(self.network, image_size=self.image_size, weights=self.weights, seed=self.seed)

    def _fingerprint(self, batches: Batches, labels: Labels) -> str:
        """Return what a checkpoint must agree on: parameters, images, labels, and the weights at the start."""
        digest = hashlib.sha256(json.dumps(self.describe_params(), sort_keys=True).encode())
        digest.update(batches.digest().encode())
        digest.update(labels.to_array().tobytes())
        digest.update(fingerprint(self.model_).encode())
        return digest.hexdigest()

    def _is_fitted(self) -> bool:
        return hasattr(self, "history_")

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Return the weights of the network."""
        if not self._is_fitted():
            raise NotFittedError(f"{type(self).__name__} must be fitted before it can be saved; call fit first.")
        return {name: tensor.cpu().numpy() for name, tensor in self.model_.state_dict().items()}

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Take back the weights of the network."""
        width = weights["head.weight"].shape[1]
        model = HashNetwork(self._build_network(n_features=width), self.n_bits, self.seed)
        model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        self.model_ = model.to(choose_device(self.device))
        self.history_ = []

    def describe_params(self) -> dict[str, Any]:
        """Return the parameters as plain JSON; a network of your own is only named, and `memory` changes nothing."""
        return {name: describe(value) for name, value in self.get_params().items() if name != "memory"}

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Make the method from plain values; of ``training`` only what differs from the default need be there.

        A learning rate alone also moves the final rate, which keeps its ratio to it. The network must be one that ddsh
        knows by name.
        """
        given = params.get("training")
        method = cls(**(params | {"training": None}))
        if given:
            base = method._schedule()
            base = base.scaled(given.get("learning_rate", base.learning_rate))
            method.set_params(training=replace(base, **given))
        return method

    def _check_items(self, X: Any) -> Any:  # noqa: ANN401, N803
        return check_images(X)

    def _fit(self, items: Any, labels: Labels | None) -> None:  # noqa: ANN401
        assert labels is not None, "deep methods are supervised"
        self._run(items, labels, None, False, None)

    def _project(self, items: Any) -> Outputs:  # noqa: ANN401
        model = self._inference_network()
        with torch.inference_mode():
            outputs = [model.finish(maps, n_done).cpu().numpy() for maps, n_done in self._maps(items, model)]
        return np.concatenate(outputs)

    def _inference_network(self) -> HashNetwork:
        """Return the network with batch normalisation folded, which is done once: a single query must not wait."""
        if self._folded is None or self._folded[0] is not self.model_:
            self._folded = self.model_, fold_batch_norm(self.model_)
        return self._folded[1]

    def _maps(self, images: ImageSource, model: HashNetwork) -> Iterator[tuple[Tensor, int]]:
        """Yield images a chunk at a time with how many stages they have passed: some, if those are remembered."""
        device = self.model_.head.weight.device
        if self.memory is not None and self._n_frozen():
            for maps in self._frozen_layers().chunks(images):
                yield from_maps(maps).to(device), self._n_frozen()
        else:
            for chunk in PreparedImages(images, self.model_.backbone, keep=False).chunks():
                yield model.backbone.begin(torch.from_numpy(chunk).to(device), 0), 0


class _Loop:
    """One training run: its optimiser, its clock, its checkpoints."""

    def __init__(
        self,
        method: DeepHasher,
        batches: Batches,
        on_step: Callable[[TrainingStep], None] | None,
    ) -> None:
        self.method, self.batches, self.on_step = method, batches, on_step
        self.n_frozen = method._n_frozen()
        self.schedule = method._schedule()
        self.model = method.model_
        self.device = self.model.head.weight.device
        self.optimiser = self._optimiser()
        self.history: list[dict[str, Any]] = []
        self.step = 0
        self.pass_loss = 0.0
        self.started = self.saved = time.monotonic()

    def run(self, store: Checkpoints | None) -> None:
        """Train from the start, or from the newest checkpoint."""
        resumed = self._restore(store.latest()) if store else None
        first = len(self.history) if resumed is None else len(self.history) - 1
        for number in range(first, self.schedule.epochs):
            if number == first and resumed is not None:
                rows, skip = resumed
            else:
                rows, skip = self._begin_pass(number), 0
            self._pass(number, rows, skip, store)

    def _optimiser(self) -> torch.optim.SGD:
        schedule = self.schedule
        stages = self.model.backbone.stages()
        for stage in stages[: self.n_frozen]:
            stage.requires_grad_(False)
        learning = [parameter for stage in stages[self.n_frozen :] for parameter in stage.parameters()]
        groups = [{"params": list(self.model.head.parameters()), "factor": schedule.head_factor}]
        if learning:
            groups.insert(0, {"params": learning, "factor": 1.0})
        return torch.optim.SGD(
            groups, lr=schedule.learning_rate, momentum=schedule.momentum, weight_decay=schedule.weight_decay
        )

    def _begin_pass(self, number: int) -> Rows:
        rows, objective = self.method._begin_pass(number)
        self.pass_loss = 0.0
        self.history.append({"pass": number + 1, "objective": objective, "loss": None})
        return rows

    def _pass(self, number: int, rows: Rows, skip: int, store: Checkpoints | None) -> None:
        batches = list(self._batches(number, rows))
        self.model.train()
        for place, batch in enumerate(batches):
            if place < skip:
                continue
            self.pass_loss += self._learn(number, place, len(batches), batch)
            self.step += 1
            self.history[-1]["loss"] = self.pass_loss / (place + 1)
            self._report(number, place + 1, len(batches), len(rows))
            if store and (place + 1 == len(batches) or self._is_due()):
                self._save(store, rows, place + 1)

    def _batches(self, number: int, rows: Rows) -> Iterator[Rows]:
        order = rows[np.argsort(self.method._rng(1, number).random(len(rows)), kind="stable")]
        size = self.schedule.batch_size
        return (order[start : start + size] for start in range(0, len(order), size))

    def _learn(self, number: int, place: int, n_batches: int, batch: Rows) -> float:
        """Take one step down the gradient of a mini-batch; return its loss."""
        rate = self.schedule.rate((number + place / n_batches) / self.schedule.epochs)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        mine = my_share(batch)
        inputs = my_share(self.batches.take(batch, self.method._rng(2, number, place)))
        outputs = self._forward(inputs)
        loss = self._loss(outputs, mine, batch) * (len(mine) / len(batch))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        add_gradients(self.model)
        self.optimiser.step()
        everything = gather_rows(torch.cat([outputs.detach(), loss.detach().expand(len(mine), 1)], 1), len(batch))
        values = everything.cpu().numpy()
        if not np.isfinite(values).all():
            raise Diverged("Training diverged: the loss is no longer finite. Choose a smaller learning rate.")
        self.method._after_batch(batch, values[:, :-1])
        return float(values[: world()[1], -1].sum())

    def _forward(self, inputs: NDArray[Any]) -> Tensor:
        if self.n_frozen:
            return self.model.finish(from_maps(inputs).to(self.device), self.n_frozen)
        outputs: Tensor = self.model(torch.from_numpy(inputs).to(self.device))
        return outputs

    def _loss(self, outputs: Tensor, mine: Rows, batch: Rows) -> Tensor:
        if self.method.needs_whole_batch:
            return self.method._loss(gather_gradients(outputs, len(batch)), batch)
        return self.method._loss(outputs, mine)

    def _report(self, number: int, done: int, n_batches: int, n_rows: int) -> None:
        if self.on_step is None or world()[0] != 0:
            return
        elapsed = time.monotonic() - self.started
        total = n_batches * self.schedule.epochs
        finished = number * n_batches + done
        per_second = finished / max(elapsed, 1e-9)
        self.on_step(
            TrainingStep(
                done=finished,
                total=total,
                epoch=number + 1,
                epochs=self.schedule.epochs,
                loss=self.history[-1]["loss"],
                objective=self.history[-1]["objective"],
                bits_per_second=per_second * n_rows / n_batches * self.method.n_bits,
                seconds_left=(total - finished) / per_second,
            )
        )

    def _is_due(self) -> bool:
        return time.monotonic() - self.saved >= self.schedule.checkpoint_seconds

    def _save(self, store: Checkpoints, rows: Rows, done: int) -> None:
        if world()[0] == 0:
            tensors = {f"model.{name}": tensor.cpu().numpy() for name, tensor in self.model.state_dict().items()}
            tensors |= {f"momentum.{name}": tensor.cpu().numpy() for name, tensor in self._momenta().items()}
            tensors |= {f"method.{name}": array for name, array in self.method._state().items()}
            facts = {"history": self.history, "done": done, "pass_loss": self.pass_loss}
            store.save(Checkpoint(self.step, tensors | {"rows": rows}, facts))
        self.saved = time.monotonic()

    def _momenta(self) -> dict[str, Tensor]:
        """Return the momentum of each parameter that has one."""
        parameters = (parameter for group in self.optimiser.param_groups for parameter in group["params"])
        states = (self.optimiser.state.get(parameter, {}).get("momentum_buffer") for parameter in parameters)
        return {str(place): state for place, state in enumerate(states) if state is not None}

    def _restore(self, checkpoint: Checkpoint | None) -> tuple[Rows, int] | None:
        """Take back a checkpoint; return the rows of the pass it was made in and how many mini-batches were done."""
        if checkpoint is None:
            return None
        parts: dict[str, dict[str, NDArray[Any]]] = {"model": {}, "momentum": {}, "method": {}}
        for name, array in checkpoint.tensors.items():
            kind, _, rest = name.partition(".")
            if kind in parts:
                parts[kind][rest] = array
        self.model.load_state_dict({name: torch.from_numpy(array) for name, array in parts["model"].items()})
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        for place, array in parts["momentum"].items():
            parameter = parameters[int(place)]
            self.optimiser.state[parameter]["momentum_buffer"] = torch.from_numpy(array).to(parameter).clone()
        self.method._restore(parts["method"])
        self.step = checkpoint.step
        self.history = list(checkpoint.facts["history"])
        self.pass_loss = float(checkpoint.facts["pass_loss"])
        return checkpoint.tensors["rows"], int(checkpoint.facts["done"])


def describe(value: Any) -> Any:  # noqa: ANN401 -- any parameter
    """Return a parameter as plain JSON: a training as an object, a module by what it is."""
    if isinstance(value, Training):
        return asdict(value)
    if isinstance(value, nn.Module):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return value if isinstance(value, int | float | str | None) else repr(value)
