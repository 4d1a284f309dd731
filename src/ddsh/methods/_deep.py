"""Base class of methods that train a network end to end."""

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor, nn

from ddsh.backbones.base import Backbone
from ddsh.backbones.frozen import CHUNK, FrozenLayers, check_n_stages, from_channels_last
from ddsh.backbones.layers import fold_batch_norm
from ddsh.backbones.network import HashNetwork, choose_device
from ddsh.backbones.weights import fingerprint
from ddsh.errors import InvalidInput
from ddsh.images import Images, as_images
from ddsh.labels import Labels, LabelsLike, SingleLabels
from ddsh.methods._batches import Batches, FrozenBatches, ImageBatches, PreparedImages
from ddsh.methods._checkpoints import Checkpoints
from ddsh.methods._loop import TrainingLoop
from ddsh.methods.base import Hasher, Outputs, SearchRange
from ddsh.methods.training import FEWEST_BATCHES, SEARCHED, Training, TrainingStep

__all__ = ["DeepHasher", "Rows"]

Rows: TypeAlias = NDArray[np.int64]


class DeepHasher(Hasher):
    """A method that trains a network end to end.

    Subclasses implement :meth:`_loss` and, where needed, :meth:`_begin_fit`, :meth:`_begin_epoch`, :meth:`_after_batch`
    and :meth:`_end_fit`; state that they keep between mini-batches is saved with :meth:`_state` and :meth:`_restore`.

    Parameters
    ----------
    n_bits : int
        Code length.
    backbone : str, Backbone or Network
        The network to train.
    training : Training, optional
        Epochs, learning rate and so on; the method's own by default.
    seed : int
        Random seed.

    Attributes
    ----------
    model_ : HashNetwork
        The trained network.
    history_ : list of dict
        Loss of every epoch and, where the method has one, its objective.
    """

    default_training: ClassVar[Training]
    """Default training schedule of the method."""
    needs_whole_batch: ClassVar[bool] = False
    """Whether the loss is on pairs within a mini-batch, so that distributed processes need all of its outputs."""
    loss_weights: ClassVar[tuple[str, ...]] = ()
    """Parameters that weigh terms of the loss: 0 or more, and varied by ``ddsh tune``."""
    n_views: ClassVar[int] = 1
    """Augmented views of each image in a mini-batch; `_loss` gets its rows once per view, one view after another."""
    needs_features: ClassVar[bool] = False
    """Whether the loss uses the features of the images before training, :attr:`_features_before`."""
    _features_before: NDArray[np.float32]
    _progress: float = 0.0
    """Fraction of the training that is done."""
    _helper: nn.Module | None = None
    """Module that is trained with the network and dropped afterwards, such as a classifier."""
    _folded: tuple[HashNetwork, HashNetwork] | None = None

    def __init__(
        self,
        n_bits: int = 32,
        *,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.backbone = backbone
        self.training = training
        self.seed = seed

    def fit(
        self,
        X: Any,  # noqa: ANN401, N803 -- scikit-learn's name
        y: LabelsLike | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_step: Callable[[TrainingStep], None] | None = None,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> Self:
        """Train on images `X` and their labels `y`.

        Parameters
        ----------
        X : images
            Arrays, paths, Pillow images or a sequence of them; see :func:`ddsh.images.as_images`.
        y : Labels, vector, or 0/1 matrix
            Their labels.
        checkpoints : path, optional
            Folder for checkpoints; the last two are kept until the caller removes them.
        resume : bool
            Continue from the newest checkpoint, if any; the codes equal those of an uninterrupted run.
        on_step : callable, optional
            Called with a :class:`TrainingStep` after each mini-batch.
        on_epoch : callable, optional
            Called after each epoch with its record in `history_`, which it may extend; the method can encode images
            then.
        """
        self._check_parameters()
        images = as_images(X)
        labels = self._check_labels(images, y)
        if labels is None:
            labels = SingleLabels(np.zeros(len(images), np.int64), missing=0)
        backbone = Backbone.of(self.backbone)
        network = HashNetwork(backbone.build(seed=self.seed), self.n_bits, self.seed)
        self.model_ = network.to(choose_device(backbone.device))
        check_n_stages(self.model_.backbone, self._n_frozen())
        schedule, n_frozen = self._schedule(), self._n_frozen()
        batches: Batches
        if not n_frozen:
            prepared = PreparedImages(images, self.model_.backbone)
            batches = ImageBatches(prepared, flip=schedule.flip, crop=schedule.crop)
        elif schedule.crop:
            raise InvalidInput(f"Frozen stages see each image once: n_frozen={n_frozen} needs crop=0.")
        else:
            batches = FrozenBatches(images, self._frozen_layers(), flip=schedule.flip)
        if schedule.standardise or self.needs_features:
            features = self._features(batches, len(images))
            if self.needs_features:
                self._features_before = features.cpu().numpy()
            if schedule.standardise:
                self.model_.standardise(features)
        self._begin_fit(labels)
        loop = TrainingLoop(self, batches, on_step, on_epoch)
        store = None
        if checkpoints is not None:
            store = Checkpoints(checkpoints, self._fingerprint(batches, labels))
            if not resume:
                store.require_none()
        loop.run(store)
        self._end_fit()
        self.model_.absorb_standardisation()
        self._folded = None
        self.history_: list[dict[str, Any]] = loop.history
        return self

    def with_backbone(self, backbone: Backbone) -> Self:
        """Return a copy that trains `backbone`."""
        copied: Self = clone(self)
        return copied.set_params(backbone=backbone)  # type: ignore[no-any-return]

    @property
    def trained_backbone(self) -> Backbone:
        """The backbone that the method trains."""
        return Backbone.of(self.backbone)

    def search_space(self, labels: Labels) -> dict[str, SearchRange]:
        """Return the parameters that ``ddsh tune`` varies: those of the training schedule, and weights of the loss."""
        space: dict[str, SearchRange] = {f"training.{name}": factor for name, factor in SEARCHED.items()}
        return space | dict.fromkeys(self.loss_weights, 10.0)

    def adapted(self, labels: Labels, given: Collection[str] | None = None) -> Self:
        """Return a copy with a schedule for few images; see :meth:`Hasher.adapted`."""
        schedule = self._schedule()
        if given is None:
            given = vars(schedule) if self.training is not None else ()
        suited = schedule.for_few(len(labels), given, self._fewest_batches())
        if suited == schedule:
            return self
        copied: Self = clone(self)
        return copied.set_params(training=suited)  # type: ignore[no-any-return]

    def _features(self, batches: Batches, n_images: int) -> Tensor:
        """Return the features of all training images, augmented as in training, before the first step."""
        rng, n_frozen, device, parts = self._rng(6), self._n_frozen(), self.model_.head.weight.device, []
        network = self.model_.backbone.eval()
        with torch.inference_mode():
            for start in range(0, n_images, CHUNK):
                inputs: Any = batches.take(np.arange(start, min(start + CHUNK, n_images)), rng)
                if n_frozen:
                    parts.append(network.finish(from_channels_last(inputs).to(device), n_frozen))
                else:
                    parts.append(network(torch.from_numpy(inputs).to(device)))
        return torch.cat(parts)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self.loss_weights:
            if not getattr(self, name) >= 0:
                raise InvalidInput(f"{name} must be 0 or more; got {getattr(self, name)}.")

    @abstractmethod
    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the mean loss of a mini-batch from the network's outputs, shape (n, n_bits)."""

    def _n_frozen(self) -> int:
        """Return the number of frozen stages."""
        return self.trained_backbone.n_frozen

    def _frozen_layers(self) -> FrozenLayers:
        return FrozenLayers(self.model_.backbone, self._n_frozen(), self.trained_backbone.cache_dir)

    def _begin_fit(self, labels: Labels) -> None:
        """Prepare the state of a training run; the base class stores the labels."""
        self._labels = labels

    def _begin_epoch(self, number: int) -> tuple[Rows, float | None]:
        """Prepare an epoch; return its rows and the objective, if the method has one."""
        return np.arange(len(self._labels)), None

    def _after_batch(self, rows: Rows, outputs: NDArray[np.float32]) -> None:
        """Update the state with the outputs of a mini-batch."""

    def _end_fit(self) -> None:
        """Finish a training run; the network may still be changed."""

    def _state(self) -> dict[str, NDArray[Any]]:
        """Return the state that a checkpoint must hold."""
        return {}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore the state of :meth:`_state`."""

    def _schedule(self) -> Training:
        """Return the training schedule."""
        return self.training or self.default_training

    def _fewest_batches(self) -> int:
        """Return the number of mini-batches in an epoch below which :meth:`adapted` makes them smaller."""
        return FEWEST_BATCHES

    def _rng(self, *purpose: int) -> np.random.Generator:
        """Return a generator for one purpose, the same in every run, resumed or not."""
        return np.random.Generator(np.random.PCG64([self.seed, *purpose]))

    def _fingerprint(self, batches: Batches, labels: Labels) -> str:
        """Return the digest of parameters, data and initial weights for checkpoints."""
        facts = self.describe_params() | {"backbone": self.trained_backbone.describe()}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        digest.update(batches.digest().encode())
        digest.update(labels.to_array().tobytes())
        digest.update(fingerprint(self.model_).encode())
        return digest.hexdigest()

    def _is_fitted(self) -> bool:
        return hasattr(self, "history_")

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Return the weights of the network."""
        self._check_fitted()
        return {name: tensor.cpu().numpy() for name, tensor in self.model_.state_dict().items()}

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Restore the weights of the network."""
        backbone = self.trained_backbone
        network = backbone.build(n_features=weights["head.weight"].shape[1])
        model = HashNetwork(network, self.n_bits, self.seed)
        model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        self.model_ = model.to(choose_device(backbone.device))
        self.history_ = []

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter except the backbone as plain JSON, with the training schedule resolved."""
        params = super().describe_params()
        del params["backbone"]
        return params | {"training": asdict(self._schedule())}

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Build the method from plain values.

        ``training`` may contain only the fields that differ from the default; a learning rate without `final_lr` scales
        the final rate, too.
        """
        params = dict(params)
        given = params.pop("training", None)
        if "backbone" in params:
            params["backbone"] = Backbone.of(params["backbone"])
        method = cls(**params)
        if isinstance(given, Training):
            return method.set_params(training=given)  # type: ignore[no-any-return]
        if given:
            base = method._schedule()
            base = base.scaled(given.get("learning_rate", base.learning_rate))
            method.set_params(training=replace(base, **given))
        return method

    def _check_items(self, X: Any) -> Images:  # noqa: ANN401, N803
        return as_images(X)

    def _fit(self, items: Images, labels: Labels | None) -> None:
        raise AssertionError("DeepHasher overrides fit")

    def project_with_look(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        look_stages: Sequence[int],
    ) -> tuple[Outputs, tuple[NDArray[np.float32], ...]]:
        """Return real outputs and, from the same forward pass, the features for look bits.

        Parameters
        ----------
        images : images
            See :func:`ddsh.images.as_images`.
        look_stages : sequence of int
            Stages after which means over the positions of the maps are taken.

        Returns
        -------
        outputs : ndarray, shape (n, n_bits)
            As of :meth:`project`.
        features : tuple of ndarray
            The means of each stage, shape (n, channels), and the features of the last stage; see
            :class:`ddsh.look.Look`.
        """
        self._check_fitted()
        items, model, device = as_images(images), self._folded_model(), self.model_.head.weight.device
        n_frozen, parts = self._n_frozen(), []
        with torch.inference_mode():
            is_cached = n_frozen > 0 and self.trained_backbone.cache_dir is not None
            if is_cached and n_frozen <= min(look_stages, default=n_frozen):
                maps = (from_channels_last(chunk).to(device) for chunk in self._frozen_layers().chunks(items))
            else:
                n_frozen = 0
                pixels = PreparedImages(items, self.model_.backbone, keep=False).chunks()
                maps = (model.backbone.begin(torch.from_numpy(chunk).to(device), 0) for chunk in pixels)
            for chunk in maps:
                found = model.backbone.finish_with_look(chunk, n_frozen, look_stages)
                parts.append([part.cpu().numpy() for part in (model.head(found[-1]), *found)])
        outputs, *features = (np.concatenate(column) for column in zip(*parts, strict=True))
        return outputs, tuple(features)

    def _folded_model(self) -> HashNetwork:
        """Return the network with batch normalisation folded into it, which is slow: once, not for every query."""
        if self._folded is None or self._folded[0] is not self.model_:
            self._folded = self.model_, fold_batch_norm(self.model_)
        return self._folded[1]

    def _project(self, items: Images) -> Outputs:
        model, device, n_frozen = self._folded_model(), self.model_.head.weight.device, self._n_frozen()
        with torch.inference_mode():
            if n_frozen and self.trained_backbone.cache_dir is not None:
                chunks = self._frozen_layers().chunks(items)
                outputs = [model.finish(from_channels_last(chunk).to(device), n_frozen) for chunk in chunks]
            else:
                pixels = PreparedImages(items, self.model_.backbone, keep=False).chunks()
                outputs = [model(torch.from_numpy(chunk).to(device)) for chunk in pixels]
        return np.concatenate([chunk.cpu().numpy() for chunk in outputs])
