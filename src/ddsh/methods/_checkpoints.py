"""Checkpoints of a training run: atomic and fingerprinted."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from ddsh.errors import ArtefactError
from ddsh.storage import atomic_write

__all__ = ["Checkpoint", "Checkpoints"]

_KEEP = 2


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to continue an interrupted training run.

    Parameters
    ----------
    step : int
        Mini-batches done so far, over all epochs.
    tensors : dict of str to ndarray
        Weights, momentum, codes.
    facts : dict
        Plain values, such as the history.
    """

    step: int
    tensors: dict[str, NDArray[Any]]
    facts: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run in one folder.

    Parameters
    ----------
    folder : path
        Folder of the checkpoints.
    fingerprint : str
        Digest of the configuration and the data; a checkpoint with another one is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, then remove all but the last two."""
        facts = {"fingerprint": self.fingerprint, "step": checkpoint.step, "facts": checkpoint.facts}
        tensors = {name: np.ascontiguousarray(tensor) for name, tensor in checkpoint.tensors.items()}
        with atomic_write(self.folder / f"checkpoint-{checkpoint.step:09d}.safetensors") as file:
            file.write(save(tensors, {"ddsh": json.dumps(facts)}))
        for path in self._paths()[:-_KEEP]:
            path.unlink(missing_ok=True)

    def latest(self, share: Callable[[bytes | None], bytes | None] = lambda data: data) -> Checkpoint | None:
        """Return the newest checkpoint, or None if there is none.

        Parameters
        ----------
        share : callable
            Gives all processes of a training what the first one has read; the others may not see its folder.
        """
        path = (self._paths() or [self.folder])[-1]
        try:
            data = share(None if path == self.folder else path.read_bytes())
            if data is None:
                return None
            n_bytes = int.from_bytes(data[:8], "little")  # of the header, see the format of safetensors
            content = json.loads(json.loads(data[8 : 8 + n_bytes])["__metadata__"]["ddsh"])
            tensors = load(data)
            fingerprint, step, facts = content["fingerprint"], int(content["step"]), content["facts"]
        except Exception as error:  # a damaged file makes safetensors and JSON raise almost anything
            raise ArtefactError(f"{path} is not a checkpoint of ddsh ({error}).") from error
        if fingerprint != self.fingerprint:
            raise ArtefactError(f"{path} belongs to another configuration or other data; nothing was changed.")
        return Checkpoint(step, tensors, facts)

    def require_none(self) -> None:
        """Raise if there are checkpoints: a new run must not overwrite an old one."""
        if self._paths():
            raise ArtefactError(f"{self.folder} holds checkpoints of another run; resume it or choose another folder.")

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoint-*.safetensors"))
