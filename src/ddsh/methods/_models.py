"""Trained methods on disk: a folder with ``model.json`` and ``model.safetensors``, never a pickle."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ddsh.errors import ArtefactError, DdshError, InvalidInput
from ddsh.methods.base import Hasher
from ddsh.storage import atomic_write

if TYPE_CHECKING:
    from ddsh.backbones.features import FeatureExtractor

FORMAT_VERSION = 1
_FACTS = "model.json"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class SavedModel:
    """A trained method and what is known of its making.

    Parameters
    ----------
    hasher : Hasher
        The method, ready to encode.
    fingerprint : str
        SHA-256 of its weights: equal fingerprints, equal codes.
    about : dict
        Dataset, split, history, versions and whatever else was saved with it.
    """

    hasher: Hasher
    fingerprint: str
    about: dict[str, Any] = field(default_factory=dict)

    def extractor(self) -> "FeatureExtractor | None":
        """Return where its features come from, or None if it takes images or pixels."""
        return extractor_of(self.about.get("features"))


def extractor_of(features: dict[str, Any] | None, memory: Path | None = None) -> "FeatureExtractor | None":
    """Return what gives the features that ``about["features"]`` speaks of (network, image_size, weights), if any."""
    if features is None:
        return None
    from ddsh.backbones.features import FeatureExtractor

    return FeatureExtractor(**features, memory=memory)


def save_model(hasher: Hasher, folder: Path, about: dict[str, Any] | None = None) -> str:
    """Write a trained method to a new folder.

    Parameters
    ----------
    hasher : Hasher
        A fitted method.
    folder : path
        Where to; a model that is there already is refused.
    about : dict, optional
        Facts to keep with it, as JSON: dataset, split fingerprint, history.

    Returns
    -------
    str
        The model's fingerprint.
    """
    if (folder / _FACTS).exists():
        raise InvalidInput(f"{folder} holds a model already; choose another folder or remove it.")
    weights = save({name: np.asarray(array, order="C") for name, array in hasher.get_weights().items()})
    fingerprint = hashlib.sha256(weights).hexdigest()
    facts = {
        "version": FORMAT_VERSION,
        "method": hasher.card.name,
        "params": hasher.describe_params(),
        "fingerprint": fingerprint,
        "about": about or {},
    }
    with atomic_write(folder / _WEIGHTS) as file:
        file.write(weights)
    with atomic_write(folder / _FACTS) as file:
        file.write(json.dumps(facts, indent=2).encode())
    return fingerprint


def load_model(folder: Path) -> SavedModel:
    """Read a trained method; anything that does not fit is refused with a reason."""
    from ddsh.methods import get_method

    facts = _read_facts(folder / _FACTS)
    weights = _read_weights(folder / _WEIGHTS, facts["fingerprint"])
    try:
        hasher = get_method(facts["method"]).from_description(facts["params"])
        hasher.set_weights(weights)
    except ArtefactError:
        raise
    except (DdshError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ArtefactError(f"{folder} does not fit this version of ddsh ({reason}).") from error
    return SavedModel(hasher, facts["fingerprint"], facts["about"])


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        version = facts["version"]
        known = {name: facts[name] for name in ("method", "params", "fingerprint", "about")}
    except FileNotFoundError:
        raise ArtefactError(f"{path.parent} holds no model ({path.name} is missing).") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(f"{path} is damaged ({type(error).__name__}: {error}).") from error
    if version != FORMAT_VERSION:
        raise ArtefactError(f"{path} has version {version}; this ddsh reads version {FORMAT_VERSION}.")
    return known


def _read_weights(path: Path, fingerprint: str) -> dict[str, NDArray[Any]]:
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        with safe_open(path, framework="np") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- not a dict
    except (OSError, SafetensorError) as error:
        raise ArtefactError(f"{path} is missing or damaged ({error}).") from error
    if found != fingerprint:
        raise ArtefactError(f"{path} is not the file that model.json speaks of; copy the whole folder again.")
    return weights
