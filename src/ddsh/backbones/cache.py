"""What a network made of images, on disk, found again by the images' content."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError

Image: TypeAlias = NDArray[np.uint8]
Maps: TypeAlias = NDArray[np.float32]
_KEY_BYTES = 16


class Store:
    """Rows of one shape in a folder that only grows: an image's row is computed once and read from then on.

    Rows are appended before their keys, so that a process that is killed leaves at most rows nobody finds; processes
    that share the folder append one after the other.

    Parameters
    ----------
    folder : path
        Where the rows are; one folder for each network, see :class:`~ddsh.backbones.frozen.FrozenLayers`.
    shape : tuple of int
        Of one row.
    """

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._row_bytes = 4 * int(np.prod(shape))
        self._rows_file, self._keys_file = folder / "rows.f32", folder / "keys.bin"
        self._places: dict[bytes, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in (self._rows_file, self._keys_file):
                path.touch()
        except OSError as error:
            raise ArtefactError(f"{folder} cannot be used as a memory ({error.strerror}); name another.") from error

    def get(self, images: Sequence[Image], compute: Callable[[Sequence[Image]], Maps]) -> Maps:
        """Return the rows of images; those that are not there are computed and kept."""
        keys = [content_key(image) for image in images]
        self._read_keys()
        missing = {key: image for key, image in zip(keys, images, strict=True) if key not in self._places}
        if missing:
            self._keep(list(missing), compute(list(missing.values())))
            self._read_keys()
        return self._read_rows([self._places[key] for key in keys])

    def _read_rows(self, places: list[int]) -> Maps:
        n_rows = self._rows_file.stat().st_size // self._row_bytes
        mapped = np.memmap(self._rows_file, np.float32, "r", shape=(n_rows, *self._shape))
        return np.asarray(mapped[places])

    def _read_keys(self) -> None:
        """Take note of the keys that were appended since the last look."""
        known = len(self._places)
        with self._keys_file.open("rb") as file:
            file.seek(known * _KEY_BYTES)
            content = file.read()
        n_rows = self._rows_file.stat().st_size // self._row_bytes
        n_new = min(len(content) // _KEY_BYTES, n_rows - known)
        for place in range(n_new):
            self._places[content[place * _KEY_BYTES : (place + 1) * _KEY_BYTES]] = known + place

    def _keep(self, keys: list[bytes], rows: Maps) -> None:
        try:
            self._append(keys, rows)
        except OSError as error:
            folder = self._rows_file.parent
            raise ArtefactError(
                f"{folder} can keep no more ({error.strerror}); name a folder with more room as memory."
            ) from error

    def _append(self, keys: list[bytes], rows: Maps) -> None:
        with self._keys_file.open("r+b") as key_file, self._rows_file.open("r+b") as row_file:
            fcntl.flock(key_file, fcntl.LOCK_EX)
            self._read_keys()
            fresh = [place for place, key in enumerate(keys) if key not in self._places]
            n_kept = len(self._places)
            row_file.truncate(n_kept * self._row_bytes)
            row_file.seek(0, os.SEEK_END)
            row_file.write(np.ascontiguousarray(rows[fresh], np.float32).data)
            row_file.flush()
            key_file.truncate(n_kept * _KEY_BYTES)
            key_file.seek(0, os.SEEK_END)
            key_file.write(b"".join(keys[place] for place in fresh))


def content_key(image: NDArray[Any]) -> bytes:
    """Return a short digest of an image's shape and pixels."""
    digest = hashlib.blake2b(str(image.shape).encode(), digest_size=_KEY_BYTES)
    digest.update(np.ascontiguousarray(image).data)
    return digest.digest()
