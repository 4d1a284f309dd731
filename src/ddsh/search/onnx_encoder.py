"""Encoding with onnxruntime.

It is faster than PyTorch on a CPU and starts faster. The encoder is a file beside the model, ``encoder.onnx``. It is
written once, when many images are added, if the packages for it are installed, and only if its bits agree with those of
PyTorch on images of the index.
"""

import hashlib
import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from ddsh.backbones.base import Backbone
from ddsh.codes import BinaryCodes, CodePair
from ddsh.images import Image
from ddsh.look import Look
from ddsh.model import MODEL_FILES, Model, ModelManifest
from ddsh.storage import Manifest

__all__ = ["OnnxEncoder", "write_encoder"]

_FILE, _MANIFEST = "encoder.onnx", "encoder.json"
_LOOK = "look."
_BATCH = 32
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

_LOG = logging.getLogger(__name__)


class EncoderManifest(Manifest):
    """The content of ``encoder.json``.

    Attributes
    ----------
    fingerprint : str
        Fingerprint of the model.
    sha256 : str
        SHA-256 of ``encoder.onnx``.
    """

    fingerprint: str
    sha256: str


class OnnxEncoder:
    """A saved model as far as it is needed to encode images, without PyTorch. Use :meth:`open`.

    Parameters
    ----------
    manifest : ModelManifest
        Description of the model.
    look : Look
        Its look bits.
    content : bytes
        The ONNX file.
    """

    def __init__(self, manifest: ModelManifest, look: Look, content: bytes) -> None:
        import onnxruntime

        assert manifest.backbone is not None, "a model with look bits has a backbone"
        self._backbone, self._look, self._has_labels = Backbone(**manifest.backbone), look, manifest.method is not None
        options = onnxruntime.SessionOptions()
        # Threads that wait by spinning take the time from those that decode the next images.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """Open the encoder of a saved model; None if there is none, or if it is not intact."""
        if not (folder / _MANIFEST).exists() or importlib.util.find_spec("onnxruntime") is None:
            return None
        manifest = Model.read_manifest(folder)
        if manifest.look is None:
            return None
        try:
            facts = EncoderManifest.read(folder / _MANIFEST)
            content = (folder / _FILE).read_bytes()
            weights = (folder / MODEL_FILES[1]).read_bytes()
            if facts.fingerprint != manifest.fingerprint or hashlib.sha256(weights).hexdigest() != manifest.weights:
                return None
            if hashlib.sha256(content).hexdigest() != facts.sha256:
                _LOG.warning("%s is damaged; delete it. PyTorch encodes the images.", folder / _FILE)
                return None
            with safe_open(folder / MODEL_FILES[1], framework="np") as file:
                names = [name for name in file.keys() if name.startswith(_LOOK)]  # noqa: SIM118 -- not a dict
                arrays = {name.removeprefix(_LOOK): file.get_tensor(name) for name in names}
            return cls(manifest, Look(**manifest.look).set_weights(arrays), content)
        except Exception:  # weights that do not fit raise almost anything; Model.load says what is wrong
            return None

    def prepare(self, image: Image) -> Image:
        """Return one image, preprocessed for the model."""
        return self._backbone.prepare(image)

    def encode_with_familiarity(self, images: Sequence[Image]) -> tuple[CodePair, NDArray[np.float64]]:
        """Return both codes of prepared images, and how familiar each looks; as those of :class:`ddsh.Model`."""
        parts: list[list[NDArray[Any]]] = []
        for start in range(0, len(images), _BATCH):
            pixels = np.stack(list(images[start : start + _BATCH]))
            parts.append(self._session.run(None, {"pixels": pixels}))
        found = [np.concatenate(column) for column in zip(*parts, strict=True)]
        label = BinaryCodes.from_outputs(found.pop(0)) if self._has_labels else None
        look, familiarity = self._look.encode_with_familiarity(found)
        return CodePair(label, look), familiarity

    def encode_pair(self, images: Sequence[Image]) -> CodePair:
        """Return both codes of prepared images."""
        return self.encode_with_familiarity(images)[0]


def write_encoder(model: Model, folder: Path, images: Sequence[Image]) -> OnnxEncoder | None:
    """Write the encoder of a saved model, compare its bits with PyTorch's, and return it; None if it is of no use.

    Parameters
    ----------
    model : Model
        The model.
    folder : path
        Folder that it was saved to.
    images : sequence of Image
        Prepared images to compare the codes of.
    """
    missing = any(importlib.util.find_spec(name) is None for name in _PACKAGES)
    is_deep = model.network is not None or model.method is None
    if missing or model.look is None or not is_deep or not images or _has_gpu():
        return None
    from ddsh.export import export_encoder

    try:
        export_encoder(model, folder / _FILE)
        content = (folder / _FILE).read_bytes()
        encoder = OnnxEncoder(Model.read_manifest(folder), model.look, content)
        agree = encoder.encode_pair(images) == model.encode_pair(images)
    except Exception as error:  # the exporter raises almost anything
        _LOG.warning("PyTorch encodes the images, because the model cannot run in onnxruntime (%s).", error)
        (folder / _FILE).unlink(missing_ok=True)
        return None
    if not agree:
        _LOG.warning("PyTorch encodes the images, because onnxruntime computes other bits of %d images.", len(images))
        (folder / _FILE).unlink(missing_ok=True)
        return None
    EncoderManifest(fingerprint=model.fingerprint, sha256=hashlib.sha256(content).hexdigest()).write(folder / _MANIFEST)
    _LOG.info("onnxruntime encodes the images; the bits of %d images agree with PyTorch's.", len(images))
    return encoder


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()
