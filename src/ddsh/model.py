"""Models: a hashing method and a backbone, from images to binary codes."""

import hashlib
import json
import operator
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from ddsh.backbones.base import PREPROCESSING_VERSION, Backbone
from ddsh.calibration import MIN_QUERIES, Calibration, altered_copy
from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, InvalidInput
from ddsh.images import Image, Images, SomeImages, as_images
from ddsh.labels import LabelsLike, as_labels
from ddsh.look import LOOK_BITS, MAX_SAMPLE, Look
from ddsh.methods.registry import METHODS, get_method
from ddsh.storage import Manifest, atomic_write

if TYPE_CHECKING:  # scikit-learn and PyTorch are imported when a model is made or loaded
    from ddsh.backbones.network import HashNetwork
    from ddsh.methods.base import Hasher, Outputs
    from ddsh.methods.training import TrainingStep

__all__ = ["LOOK_IMAGE_SIZE", "Model", "ModelManifest", "pixel_features"]

LOOK_IMAGE_SIZE = 160
"""Side of the images that the default backbone of a model without a method sees."""

MODEL_FILES = ("model.json", "model.safetensors")
_BLOCK_ROWS = 1024
_MAX_HELD = 300  # images of a model without a method that calibrate it, so that it does not learn look bits from them
_MAX_FEATURES = 10_000_000
_LOOK = "look."


class ModelManifest(Manifest):
    """The content of ``model.json``.

    Attributes
    ----------
    method : str or None
        Name of the method, or ``module:Class``; None for a model with look bits only.
    params : dict
        All parameters of the method, resolved.
    backbone : dict or None
        Parameters of the backbone; None for a method on pixels.
    weights : str
        SHA-256 of ``model.safetensors``.
    about : dict
        Additional facts, such as dataset, split and history.
    look : dict or None
        Number of look bits (``n_bits``) and stages of the network that they come from (``stages``).
    calibration : Calibration or None
        What distances of its codes mean, in per cent.
    fingerprint : str or None
        :attr:`Model.fingerprint`, so that it is known before the weights are read; None in older files.
    """

    format_version = 6
    method: str | None
    params: dict[str, Any]
    backbone: dict[str, Any] | None
    weights: str
    about: dict[str, Any]
    look: dict[str, Any] | None
    calibration: Calibration | None
    fingerprint: str | None

    @classmethod
    def upgrade(cls, content: dict[str, Any], version: object) -> dict[str, Any] | None:
        """Convert older versions.

        In version 5 the distance of both codes is another one, so its calibration is dropped; version 4 has no
        fingerprint, 3 no calibration, 2 no look bits; 1 has the backbone among the parameters and epochs as passes.
        """
        if version in (2, 3, 4, 5):
            content = {"look": None, "calibration": None, "fingerprint": None} | content
            calibration = content["calibration"]
            return content | {
                "calibration": calibration if calibration and "both" not in calibration["curves"] else None
            }
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
        nothing = dict.fromkeys(("look", "calibration", "fingerprint"))
        return facts | {"weights": content["fingerprint"], "about": about} | nothing


class Model:
    """A hashing method with a backbone: images in, binary codes out.

    Methods that take features use those of the backbone, or pixels without one; methods that take images train the
    backbone. A model has *label bits*, those of its method, and *look bits*, which are learned without labels from the
    same forward pass (:class:`ddsh.look.Look`) and tell images with the same label bits apart.

    Parameters
    ----------
    method : str, Hasher or None
        A method, or the name of one; None for a model with look bits only, which needs no labels.
    backbone : str or Backbone, optional
        The backbone. By default a method that takes images trains its own, and a method that takes features uses
        pixels; a model without a method uses ``efficientnet-lite0``.
    look_bits : int
        Number of look bits; 0 for none. A model without a backbone has none.

    Examples
    --------
    >>> import ddsh
    >>> model = ddsh.Model(ddsh.ITQ(32), "efficientnet-lite0")
    >>> model
    Model(ITQ(), Backbone('efficientnet-lite0', image_size=224))
    """

    def __init__(
        self,
        method: "str | Hasher | None" = "ddsh",
        backbone: str | Backbone | None = None,
        look_bits: int = LOOK_BITS,
    ) -> None:
        from ddsh.methods.base import Hasher

        chosen = get_method(method)() if isinstance(method, str) else method
        if chosen is not None and not isinstance(chosen, Hasher):
            raise InvalidInput(f"A method is a name or a ddsh.Hasher such as ddsh.DDSH(32); got {method!r}.")
        given = None if backbone is None else Backbone.of(backbone)
        if chosen is None and given is None:
            given = Backbone("efficientnet-lite0", image_size=LOOK_IMAGE_SIZE)
        self.method: Hasher | None = chosen if chosen is None or given is None else chosen.with_backbone(given)
        if (self.method is None or self.method.inputs == "features") and given is not None:
            given = given.with_options(n_frozen=0)  # nothing of it is trained
        trained = None if self.method is None else self.method.trained_backbone
        self.backbone: Backbone | None = trained or given
        self.look: Look | None = None
        """Look bits, once they are learned."""
        self.calibration: Calibration | None = None
        """What distances of the codes mean; see :meth:`calibrate`."""
        self._look_bits = 0 if self.backbone is None else look_bits
        if self._look_bits:
            Look(self._look_bits)  # raises if there are too many
        elif self.method is None:
            raise InvalidInput("A model without a method has look bits only: give look_bits of 1 or more.")
        self.about: dict[str, Any] = {}
        """Additional facts, saved with the model."""

    @property
    def n_bits(self) -> int:
        """Number of label bits; 0 for a model without a method."""
        return 0 if self.method is None else self.method.n_bits

    @property
    def look_bits(self) -> int:
        """Number of look bits; 0 if the model has none."""
        return self._look_bits

    @property
    def name(self) -> str:
        """Name of the method, ``look`` without one."""
        return "look" if self.method is None else self.method.card.name

    def __repr__(self) -> str:
        return f"Model({self.method!r}{'' if self.backbone is None else f', {self.backbone!r}'})"

    def fit(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        labels: LabelsLike | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_step: "Callable[[TrainingStep], None] | None" = None,
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
        self.calibration = None
        if self.method is not None and self.method.inputs == "features":
            self.method.fit(self._features(source), labels)
        elif self.method is not None:
            train: Callable[..., Any] = self.method.fit
            options = {} if on_epoch is None else {"on_epoch": on_epoch}
            train(source, labels, checkpoints=checkpoints, resume=resume, on_step=on_step, **options)
        if self._look_bits and (self.method is None or self.method.inputs == "features" or self._deep_method()):
            return self.fit_look(source, self._look_bits)
        self._look_bits = 0
        return self

    def fit_look(self, images: Any, look_bits: int = LOOK_BITS) -> Self:  # noqa: ANN401 -- see as_images
        """Learn look bits only, from images without labels, and keep the label bits.

        :meth:`fit` does this already. Call it for a model that was trained without look bits, such as one that an
        earlier version saved. A model without a method is also calibrated, with altered copies of a fifth of the
        images, at most 300, which are left out otherwise.

        Parameters
        ----------
        images : array, path or sequence
            Images; at most 5,000 of them, drawn at random, are used.
        look_bits : int
            Number of look bits.
        """
        if self.backbone is None:
            raise InvalidInput(f"{self.name} on pixels has no look bits; train a model with a backbone (--backbone).")
        if self.method is not None and self.method.inputs == "images" and self._deep_method() is None:
            raise InvalidInput(f"{self.name} has no project_with_look, so there are no look bits.")
        source = as_images(images)
        if len(source) > MAX_SAMPLE:
            rows = np.random.Generator(np.random.PCG64(0)).permutation(len(source))[:MAX_SAMPLE]
            source = SomeImages(source, np.sort(rows))
        network = self.network
        look = Look(look_bits, self.backbone.look_stages if network is None else network.backbone.look_stages())
        features = self._project_both(source, look)[1]
        rows = np.random.Generator(np.random.PCG64(0)).permutation(len(source))
        n_held = min(_MAX_HELD, len(source) // 5) if self.method is None else 0
        held, learned = np.sort(rows[:n_held]), np.sort(rows[n_held:])
        look.fit([part[learned] for part in features])
        self.look, self._look_bits, self.calibration = look, look_bits, None
        if n_held >= MIN_QUERIES:
            rng = np.random.Generator(np.random.PCG64(0))
            copies = self.encode_pair([altered_copy(source[row], rng) for row in held.tolist()])
            familiarity = look.familiarity([part[held] for part in features])
            self.calibration = Calibration.from_copies(CodePair(None, look.encode(features)), copies, held, familiarity)
        return self

    def calibrate(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        labels: LabelsLike,
        database: Any,  # noqa: ANN401 -- see as_images
        database_labels: LabelsLike,
    ) -> Self:
        """Learn what distances mean: what share of the images at a distance has a label in common.

        Parameters
        ----------
        images, labels
            Images that the model was not trained on, and their labels.
        database, database_labels
            Images to find with them, and their labels; the training images may be among them.
        """
        similar = as_labels(labels).similar(as_labels(database_labels))
        codes, familiarity = self.encode_with_familiarity(images)
        self.calibration = Calibration.from_labels(codes, self.encode_pair(database), similar, familiarity)
        return self

    def project(self, images: Any, on_progress: Callable[[int, int], None] | None = None) -> "Outputs":  # noqa: ANN401
        """Return real outputs, shape (n, n_bits); their signs are the label bits."""
        return np.concatenate(list(self._blocks(as_images(images), on_progress)))

    def encode(self, images: Any, on_progress: Callable[[int, int], None] | None = None) -> BinaryCodes:  # noqa: ANN401
        """Return the label bits, computed about a thousand images at a time.

        Parameters
        ----------
        images : array, path or sequence
            Arrays, paths, Pillow images or a sequence of them; see :func:`ddsh.images.as_images`.
        on_progress : callable, optional
            Called with (done, total).
        """
        blocks = self._blocks(as_images(images), on_progress)
        return BinaryCodes.stack([BinaryCodes.from_outputs(outputs) for outputs in blocks])

    def encode_pair(self, images: Any, on_progress: Callable[[int, int], None] | None = None) -> CodePair:  # noqa: ANN401
        """Return label bits and look bits, from one forward pass per image.

        Parameters
        ----------
        images : array, path or sequence
            As for :meth:`encode`.
        on_progress : callable, optional
            Called with (done, total).
        """
        return self.encode_with_familiarity(images, on_progress)[0]

    def encode_with_familiarity(
        self,
        images: Any,  # noqa: ANN401 -- see as_images
        on_progress: Callable[[int, int], None] | None = None,
    ) -> tuple[CodePair, NDArray[np.float64] | None]:
        """Return both codes, and how familiar each image looks; None without look bits.

        See :meth:`ddsh.look.Look.familiarity`.

        Parameters
        ----------
        images : array, path or sequence
            As for :meth:`encode`.
        on_progress : callable, optional
            Called with (done, total).
        """
        look = self.look
        if look is None:
            self.require_method()
            return CodePair(self.encode(images, on_progress), None), None
        pairs, familiarity = [], []
        for block in _split(as_images(images), on_progress):
            outputs, features = self._project_both(block, look)
            label = None if outputs is None else BinaryCodes.from_outputs(outputs)
            bits, familiar = look.encode_with_familiarity(features)
            pairs.append(CodePair(label, bits))
            familiarity.append(familiar)
        return CodePair.stack(pairs), np.concatenate(familiarity)

    def prepare(self, image: Image) -> Image:
        """Return one image, preprocessed for the model; raise if it does not fit."""
        if self.backbone is not None:
            return self.backbone.prepare(image)
        n_values = self.require_method().n_features_in_
        if image.shape[2] == 3 and image.size == 3 * n_values:  # grey images, decoded to RGB
            return np.asarray(Pillow.fromarray(image).convert("L"))[..., None]
        if image.size != n_values:
            height, width, channels = image.shape
            raise InvalidInput(
                f"{width} x {height} pixels in {channels} channels are {image.size:,} values, but the model takes"
                f" {n_values:,}; train a model with a backbone (--backbone)."
            )
        return image

    @property
    def preprocessing(self) -> dict[str, Any]:
        """Description of the preprocessing, as plain JSON."""
        facts: dict[str, Any] = {"version": PREPROCESSING_VERSION}
        backbone = self.backbone
        if backbone is None:
            return facts | {"pixels": self.require_method().n_features_in_}
        if self.method is None or self.method.inputs == "features":
            checksum = backbone.weights_checksum
            return facts | {"features": backbone.name, "image_size": backbone.image_size, "checksum": checksum}
        return facts | {"network": backbone.name, "image_size": backbone.image_size, "channels": backbone.n_channels}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and preprocessing; equal fingerprints mean equal codes."""
        return self._fingerprint(self._weights())

    @property
    def label_fingerprint(self) -> str:
        """Fingerprint of the model without its look bits; equal ones mean equal label bits."""
        weights = self._weights()
        return self._fingerprint({name: weights[name] for name in weights if not name.startswith(_LOOK)})

    def _fingerprint(self, weights: dict[str, NDArray[Any]]) -> str:
        facts = {"weights": hashlib.sha256(to_safetensors(weights)).hexdigest(), "method": self.name}
        return hashlib.sha256(json.dumps(facts | self.preprocessing, sort_keys=True).encode()).hexdigest()

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
        weights = to_safetensors(self._weights())
        cls = type(self.method)
        method = self.name if self.name in METHODS else f"{cls.__module__}:{cls.__qualname__}"
        look = None if self.look is None else {"n_bits": self.look.n_bits, "stages": self.look.stages}
        backbone = None
        if self.backbone is not None:
            backbone = self.backbone.describe() | {"weights": self.backbone.weights}
        manifest = ModelManifest(
            method=None if self.method is None else method,
            params={} if self.method is None else self.method.describe_params(),
            backbone=backbone,
            weights=hashlib.sha256(weights).hexdigest(),
            about=self.about if about is None else about,
            look=look,
            calibration=self.calibration,
            fingerprint=self.fingerprint,
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
        manifest = cls.read_manifest(source)
        path = source / MODEL_FILES[1]
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            with safe_open(path, framework="np") as file:
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- not a dict
        except (OSError, SafetensorError, TypeError, AttributeError) as error:  # types that NumPy does not have
            raise ArtefactError(f"{path} is missing or damaged ({error}).") from error
        if found != manifest.weights:
            raise ArtefactError(f"{path} is not the file that model.json describes; copy the whole folder again.")
        try:
            backbone = None if manifest.backbone is None else Backbone(**manifest.backbone, device=device)
            look = None if manifest.look is None else Look(**manifest.look)
            method = None
            if manifest.method is not None:
                method = get_method(manifest.method).from_description(manifest.params)
            model = cls(method, backbone, 0 if look is None else look.n_bits)
            if look is not None:
                of_look = [name for name in weights if name.startswith(_LOOK)]
                model.look = look.set_weights({name.removeprefix(_LOOK): weights.pop(name) for name in of_look})
            if model.method is not None:
                model.method.set_weights(weights)
                model._check_weights()
        except ArtefactError:
            raise
        except Exception as error:  # damaged parameters make constructors raise almost anything
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ArtefactError(f"{folder} does not fit this version of ddsh ({reason}).") from error
        model.about, model.calibration = manifest.about, manifest.calibration
        return model

    @staticmethod
    def read_manifest(folder: str | os.PathLike[str]) -> ModelManifest:
        """Read the description of a saved model, without its weights."""
        missing = f"{folder} holds no model ({MODEL_FILES[0]} is missing)."
        return ModelManifest.read(Path(folder) / MODEL_FILES[0], missing=missing)

    def save_calibration(self, folder: str | os.PathLike[str]) -> None:
        """Write the calibration to the folder of this model; weights and codes stay as they are."""
        path = Path(folder) / MODEL_FILES[0]
        ModelManifest.read(path).model_copy(update={"calibration": self.calibration}).write(path)

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the trained network to an ONNX file; see :func:`ddsh.export.export_onnx`."""
        from ddsh.export import export_onnx

        export_onnx(self, path)

    def clone(self) -> "Model":
        """Return an unfitted copy with the same parameters."""
        from sklearn.base import clone

        return Model(None if self.method is None else clone(self.method), self.backbone, self._look_bits)

    def _check_weights(self) -> None:
        """Raise if the loaded weights of the method do not fit each other and the code length."""
        method, network, n_bits = self.require_method(), self.network, self.n_bits
        if network is not None:
            n_bits = network.head.out_features
        elif method.inputs == "features":
            n_features = operator.index(method.n_features_in_)
            if not 0 < n_features <= _MAX_FEATURES:
                raise InvalidInput(f"its weights are for {n_features:,} features")
            with np.errstate(all="ignore"):
                outputs = method.project(np.zeros((1, n_features), np.float32))
            n_bits = outputs.shape[1]
        if n_bits != self.n_bits:
            raise InvalidInput(f"its weights are for {n_bits} bits, its parameters for {self.n_bits}")

    def _weights(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the method and, with a prefix, those of the look bits."""
        if self.method is None and self.look is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This model is not fitted yet; call fit first.")
        weights = {} if self.method is None else self.method.get_weights()
        if self.look is not None:
            weights |= {f"{_LOOK}{name}": array for name, array in self.look.get_weights().items()}
        return {name: np.asarray(array, order="C") for name, array in weights.items()}

    def _features(self, images: Images) -> NDArray[np.float32]:
        return pixel_features(images) if self.backbone is None else self.backbone.features(images)

    def _project_both(self, images: Images, look: Look) -> "tuple[Outputs | None, tuple[NDArray[np.float32], ...]]":
        """Return the outputs of the method and the features for look bits, from one forward pass."""
        if (deep := self._deep_method()) is not None:
            outputs, features = deep.project_with_look(images, look.stages)
            return outputs, features
        assert self.backbone is not None, "a model without a backbone has no look bits"
        features = self.backbone.look_features(images, look.stages)
        return None if self.method is None else self.method.project(features[-1]), features

    def _deep_method(self) -> Any:  # noqa: ANN401 -- a DeepHasher; importing it would import PyTorch
        """Return the fitted method, or the one of its extension, if it trains a network as ours do."""
        trained = getattr(getattr(self.method, "learned_", None), "regression", self.method)
        return trained if hasattr(trained, "project_with_look") else None

    def _blocks(self, images: Images, on_progress: Callable[[int, int], None] | None) -> "Iterator[Outputs]":
        method = self.require_method()
        for block in _split(images, on_progress):
            yield method.project(self._features(block) if method.inputs == "features" else block)

    def require_method(self) -> "Hasher":
        """Return the method; raise :class:`~ddsh.errors.InvalidInput` if the model has look bits only."""
        if self.method is None:
            fitted = "" if self.look is not None else " and is not fitted yet"
            raise InvalidInput(f"This model has look bits only{fitted}: use encode_pair, which returns them.")
        return self.method


def _split(images: Images, on_progress: Callable[[int, int], None] | None) -> Iterator[Images]:
    """Yield blocks of about a thousand images; report each when the next one is asked for."""
    for start in range(0, len(images), _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, len(images))
        yield SomeImages(images, np.arange(start, stop))
        if on_progress:
            on_progress(stop, len(images))


def pixel_features(images: Images) -> NDArray[np.float32]:
    """Return the pixels of images of one size as features, 0 to 1."""
    taken = images.take(np.arange(len(images)))
    shapes = {image.shape for image in taken}
    if len(shapes) != 1:
        raise InvalidInput(
            f"The images have {len(shapes)} different sizes, so their pixels cannot be features; choose a backbone."
        )
    return np.stack(list(taken)).reshape(len(taken), -1).astype(np.float32) / np.float32(255)
