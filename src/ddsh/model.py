"""Models: a hashing method and a backbone, from images to binary codes."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors
from sklearn.base import clone

from ddsh.backbones.base import PREPROCESSING_VERSION, Backbone
from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError, DdshError, InvalidInput
from ddsh.images import Image, Images, SomeImages, as_images
from ddsh.labels import LabelsLike
from ddsh.methods.base import Hasher, Outputs
from ddsh.methods.registry import METHODS, get_method
from ddsh.methods.training import TrainingStep
from ddsh.storage import Manifest, atomic_write

if TYPE_CHECKING:
    from ddsh.backbones.network import HashNetwork

__all__ = ["Model", "ModelManifest", "pixel_features"]

MODEL_FILES = ("model.json", "model.safetensors")
_BLOCK_ROWS = 1024


class ModelManifest(Manifest):
    """The content of ``model.json``.

    Attributes
    ----------
    method : str
        Name of the method, or ``module:Class``.
    params : dict
        All parameters of the method, resolved.
    backbone : dict or None
        Parameters of the backbone; None for a method on pixels.
    weights : str
        SHA-256 of ``model.safetensors``.
    about : dict
        Additional facts, such as dataset, split and history.
    """

    format_version = 2
    method: str
    params: dict[str, Any]
    backbone: dict[str, Any] | None
    weights: str
    about: dict[str, Any]

    @classmethod
    def upgrade(cls, content: dict[str, Any], version: object) -> dict[str, Any] | None:
        """Convert version 1, with the backbone among the parameters and epochs called passes."""
        if version != 1:
            return None
        params, about = content["params"], content["about"]
        owner = params if "network" in params else params.get("extension", {})
        network = owner if isinstance(owner, dict) and "network" in owner else about.pop("features", None)
        backbone = None
        if network:
            names = {"network": "name", "image_size": "image_size", "weights": "weights", "n_frozen": "n_frozen"}
            backbone = {new: network[old] for old, new in names.items() if network.get(old) is not None}
        for part in (params, owner):
            for name in ("network", "image_size", "weights", "n_frozen", "device", "memory"):
                part.pop(name, None)
            training = part.get("training")
            if training and "passes" in training:
                training["epochs"], training["final_lr"] = training.pop("passes"), training.pop("final_rate")
        facts = {"method": content["method"], "params": params, "backbone": backbone}
        return facts | {"weights": content["fingerprint"], "about": about}


class Model:
    """A hashing method with a backbone: images in, binary codes out.

    Methods that take features use those of the backbone, or pixels without one; methods that take images train the
    backbone.

    Parameters
    ----------
    method : str or Hasher
        A method, or the name of one.
    backbone : str or Backbone, optional
        The backbone. By default a method that takes images trains its own, and a method that takes features uses
        pixels.

    Examples
    --------
    >>> import ddsh
    >>> model = ddsh.Model(ddsh.ITQ(32), "efficientnet-lite0")
    >>> model
    Model(ITQ(), Backbone('efficientnet-lite0', image_size=224))
    """

    def __init__(self, method: str | Hasher = "ddsh", backbone: str | Backbone | None = None) -> None:
        chosen = get_method(method)() if isinstance(method, str) else method
        if not isinstance(chosen, Hasher):
            raise InvalidInput(f"A method is a name or a ddsh.Hasher such as ddsh.DDSH(32); got {method!r}.")
        given = None if backbone is None else Backbone.of(backbone)
        self.method: Hasher = chosen if given is None else chosen.with_backbone(given)
        if self.method.inputs == "features" and given is not None:
            given = given.with_options(n_frozen=0)  # nothing of it is trained
        self.backbone: Backbone | None = self.method.trained_backbone or given
        self.about: dict[str, Any] = {}
        """Additional facts, saved with the model."""

    @property
    def n_bits(self) -> int:
        """Code length."""
        return self.method.n_bits

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.card.name

    def __repr__(self) -> str:
        return f"Model({self.method!r}{'' if self.backbone is None else f', {self.backbone!r}'})"

    def fit(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        labels: LabelsLike | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_step: Callable[[TrainingStep], None] | None = None,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> Self:
        """Learn from images and, if the method is supervised, their labels.

        Parameters
        ----------
        images : array, path or sequence
            Arrays, paths, Pillow images or a sequence of them; see :func:`ddsh.images.as_images`.
        labels : Labels, vector, or 0/1 matrix, optional
            Their labels.
        checkpoints, resume, on_step
            Folder of checkpoints, whether to continue from the newest, and a callback after each mini-batch. Methods
            that train no network ignore them.
        on_epoch : callable, optional
            Called after each epoch of a deep method; see :meth:`ddsh.methods.DeepHasher.fit`.
        """
        source = as_images(images)
        if self.method.inputs == "features":
            self.method.fit(self._features(source), labels)
        else:
            train: Callable[..., Any] = self.method.fit
            options = {} if on_epoch is None else {"on_epoch": on_epoch}
            train(source, labels, checkpoints=checkpoints, resume=resume, on_step=on_step, **options)
        return self

    def project(self, images: Any, on_progress: Callable[[int, int], None] | None = None) -> Outputs:  # noqa: ANN401
        """Return real outputs, shape (n, n_bits); their signs are the codes."""
        return np.concatenate(list(self._blocks(as_images(images), on_progress)))

    def encode(self, images: Any, on_progress: Callable[[int, int], None] | None = None) -> BinaryCodes:  # noqa: ANN401
        """Return binary codes, computed about a thousand images at a time.

        Parameters
        ----------
        images : array, path or sequence
            Arrays, paths, Pillow images or a sequence of them; see :func:`ddsh.images.as_images`.
        on_progress : callable, optional
            Called with (done, total).
        """
        blocks = self._blocks(as_images(images), on_progress)
        return BinaryCodes.stack([BinaryCodes.from_outputs(outputs) for outputs in blocks])

    def prepare(self, image: Image) -> Image:
        """Return one image, preprocessed for the model; raise if it does not fit."""
        if self.backbone is not None:
            return self.backbone.prepare(image)
        if image.shape[2] == 3 and image.size == 3 * self.method.n_features_in_:  # grey images, decoded to RGB
            return np.asarray(Pillow.fromarray(image).convert("L"))[..., None]
        if image.size != self.method.n_features_in_:
            height, width, channels = image.shape
            raise InvalidInput(
                f"{width} x {height} pixels in {channels} channels are {image.size:,} values, but the model takes"
                f" {self.method.n_features_in_:,}; train a model with a backbone (--backbone)."
            )
        return image

    @property
    def preprocessing(self) -> dict[str, Any]:
        """Description of the preprocessing, as plain JSON."""
        facts: dict[str, Any] = {"version": PREPROCESSING_VERSION}
        backbone = self.backbone
        if backbone is None:
            return facts | {"pixels": self.method.n_features_in_}
        if self.method.inputs == "features":
            checksum = backbone.weights_checksum
            return facts | {"features": backbone.name, "image_size": backbone.image_size, "checksum": checksum}
        return facts | {"network": backbone.name, "image_size": backbone.image_size, "channels": backbone.n_channels}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and preprocessing; equal fingerprints mean equal codes."""
        weights = hashlib.sha256(self._serialised()).hexdigest()
        facts = {"weights": weights, "method": self.name} | self.preprocessing
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def network(self) -> "HashNetwork | None":
        """The trained network with its hash layer, or None for other methods."""
        learned = getattr(self.method, "learned_", None)
        network: HashNetwork | None = getattr(getattr(learned, "regression", self.method), "model_", None)
        return network

    @property
    def history(self) -> list[dict[str, Any]]:
        """Loss of every epoch; empty for methods that train no network."""
        return getattr(self.method, "history_", [])

    def save(self, folder: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
        """Write the fitted model to a folder, as ``model.json`` and ``model.safetensors``.

        Parameters
        ----------
        folder : path
            The folder; it must not have a model yet.
        about : dict, optional
            Additional facts, as plain JSON; :attr:`about` by default.
        """
        target = Path(folder)
        if (target / MODEL_FILES[0]).exists():
            raise InvalidInput(f"{folder} holds a model already; choose another folder or remove it.")
        weights = self._serialised()
        cls = type(self.method)
        backbone = None
        if self.backbone is not None:
            backbone = self.backbone.describe() | {"weights": self.backbone.weights}
        manifest = ModelManifest(
            method=self.name if self.name in METHODS else f"{cls.__module__}:{cls.__qualname__}",
            params=self.method.describe_params(),
            backbone=backbone,
            weights=hashlib.sha256(weights).hexdigest(),
            about=self.about if about is None else about,
        )
        with atomic_write(target / MODEL_FILES[1]) as file:
            file.write(weights)
        manifest.write(target / MODEL_FILES[0])

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, device: str = "auto") -> Self:
        """Read a model that :meth:`save` wrote.

        Parameters
        ----------
        folder : path
            Folder of the model.
        device : str
            Device of the network: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        """
        source = Path(folder)
        manifest = ModelManifest.read(
            source / MODEL_FILES[0], missing=f"{folder} holds no model ({MODEL_FILES[0]} is missing)."
        )
        path = source / MODEL_FILES[1]
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            with safe_open(path, framework="np") as file:
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- not a dict
        except (OSError, SafetensorError) as error:
            raise ArtefactError(f"{path} is missing or damaged ({error}).") from error
        if found != manifest.weights:
            raise ArtefactError(f"{path} is not the file that model.json describes; copy the whole folder again.")
        try:
            backbone = None if manifest.backbone is None else Backbone(**manifest.backbone, device=device)
            model = cls(get_method(manifest.method).from_description(manifest.params), backbone)
            model.method.set_weights(weights)
        except ArtefactError:
            raise
        except (DdshError, KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise ArtefactError(f"{folder} does not fit this version of ddsh ({reason}).") from error
        model.about = manifest.about
        return model

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the trained network to an ONNX file; see :func:`ddsh.export.export_onnx`."""
        from ddsh.export import export_onnx

        export_onnx(self, path)

    def clone(self) -> "Model":
        """Return an unfitted copy with the same parameters."""
        return Model(clone(self.method), self.backbone)

    def _serialised(self) -> bytes:
        return to_safetensors({name: np.asarray(array, order="C") for name, array in self.method.get_weights().items()})

    def _features(self, images: Images) -> NDArray[np.float32]:
        return pixel_features(images) if self.backbone is None else self.backbone.features(images)

    def _blocks(self, images: Images, on_progress: Callable[[int, int], None] | None) -> Iterator[Outputs]:
        for start in range(0, len(images), _BLOCK_ROWS):
            block = SomeImages(images, np.arange(start, min(start + _BLOCK_ROWS, len(images))))
            yield self.method.project(self._features(block) if self.method.inputs == "features" else block)
            if on_progress:
                on_progress(start + len(block), len(images))


def pixel_features(images: Images) -> NDArray[np.float32]:
    """Return the pixels of images of one size as features, 0 to 1."""
    taken = images.take(np.arange(len(images)))
    shapes = {image.shape for image in taken}
    if len(shapes) != 1:
        raise InvalidInput(
            f"The images have {len(shapes)} different sizes, so their pixels cannot be features; choose a backbone."
        )
    return np.stack(list(taken)).reshape(len(taken), -1).astype(np.float32) / np.float32(255)
