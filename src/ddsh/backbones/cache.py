"""Content-addressed on-disk cache of network activations."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError
from ddsh.images import Image
from ddsh.storage import locked

__all__ = ["ActivationCache", "Activations", "content_key"]

Activations: TypeAlias = NDArray[np.float32]
_KEY_BYTES = 16


class ActivationCache:
    """Activations of one shape in an append-only folder, found by image content.

    Rows are appended before their keys, so a process that is killed leaves at most rows without keys. Processes that
    share the folder append under a lock.

    Parameters
    ----------
    folder : path
        One folder per network and stage; see :class:`~ddsh.backbones.frozen.FrozenLayers`.
    shape : tuple of int
        Shape of the activations of one image.
    """

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._row_bytes = 4 * int(np.prod(shape))
        self._folder, self._rows_file, self._keys_file = folder, folder / "rows.f32", folder / "keys.bin"
        self._places: dict[bytes, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in (self._rows_file, self._keys_file):
                path.touch()
        except OSError as error:
            raise ArtefactError(f"{folder} cannot be used as a cache ({error.strerror}); choose another.") from error

    def get(self, images: Sequence[Image], compute: Callable[[Sequence[Image]], Activations]) -> Activations:
        """Return the activations of images; missing ones are computed and stored."""
        keys = [content_key(image) for image in images]
        self._read_new_keys()
        missing = {key: image for key, image in zip(keys, images, strict=True) if key not in self._places}
        if missing:
            self._append(list(missing), compute(list(missing.values())))
            self._read_new_keys()
        n_rows = self._rows_file.stat().st_size // self._row_bytes
        rows = np.memmap(self._rows_file, np.float32, "r", shape=(n_rows, *self._shape))
        return np.asarray(rows[[self._places[key] for key in keys]])

    def _read_new_keys(self) -> None:
        """Read the keys that were appended since the last call."""
        known = len(self._places)
        with self._keys_file.open("rb") as file:
            file.seek(known * _KEY_BYTES)
            content = file.read()
        n_rows = self._rows_file.stat().st_size // self._row_bytes
        for place in range(min(len(content) // _KEY_BYTES, n_rows - known)):
            self._places[content[place * _KEY_BYTES : (place + 1) * _KEY_BYTES]] = known + place

    def _append(self, keys: list[bytes], rows: Activations) -> None:
        """Append rows, then their keys, except those that another process has appended."""
        try:
            with (
                locked(self._folder / "lock", wait=-1, busy=""),
                self._keys_file.open("r+b") as key_file,
                self._rows_file.open("r+b") as row_file,
            ):
                self._read_new_keys()
                fresh = [place for place, key in enumerate(keys) if key not in self._places]
                n_kept = len(self._places)
                row_file.truncate(n_kept * self._row_bytes)
                row_file.seek(0, os.SEEK_END)
                row_file.write(np.ascontiguousarray(rows[fresh], np.float32).data)
                row_file.flush()
                key_file.truncate(n_kept * _KEY_BYTES)
                key_file.seek(0, os.SEEK_END)
                key_file.write(b"".join(keys[place] for place in fresh))
        except OSError as error:
            raise ArtefactError(
                f"{self._folder} is full or read-only ({error.strerror}); choose another cache_dir."
            ) from error


def content_key(image: NDArray[Any]) -> bytes:
    """Return a short digest of an image's shape and pixels."""
    digest = hashlib.blake2b(str(image.shape).encode(), digest_size=_KEY_BYTES)
    digest.update(np.ascontiguousarray(image).data)
    return digest.digest()
