"""Reuse of the figures of an earlier report that have not changed."""

import hashlib
import json
import pickle
from contextlib import suppress
from pathlib import Path

import matplotlib as mpl

from ddsh.report import plot
from ddsh.storage import atomic_write

__all__ = ["FigureCache", "drawing_key"]

_RECORD = ".figures.json"  # beside the folder, which holds figures only


def drawing_key(*content: object) -> str:
    """Return a digest of what a figure is drawn from, and of what draws it.

    Parameters
    ----------
    *content : object
        Data and styles of the figure.
    """
    digest = hashlib.sha256(Path(plot.__file__).read_bytes() + mpl.__version__.encode())
    digest.update(pickle.dumps(content, protocol=5))
    return digest.hexdigest()


class FigureCache:
    """The figures in a folder, with a record beside it of what each was drawn from.

    A file that was changed or damaged since does not fit the record and is drawn again.

    Parameters
    ----------
    folder : path
        Folder of the figures.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._record = folder, folder.with_name(_RECORD)
        self._drawn: dict[str, list[str]] = {}
        with suppress(OSError, ValueError, AttributeError, TypeError):  # a damaged record is no record
            found = json.loads(self._record.read_bytes())
            self._drawn = {name: [str(key), str(digest)] for name, (key, digest) in found.items()}

    def get(self, name: str, key: str) -> bytes | None:
        """Return the file of a figure, if it was drawn from the same content."""
        expected = self._drawn.get(name)
        if expected is None or expected[0] != key:
            return None
        with suppress(OSError):
            content = (self._folder / name).read_bytes()
            if hashlib.sha256(content).hexdigest() == expected[1]:
                return content
        return None

    def put(self, name: str, key: str, content: bytes) -> Path:
        """Write the file of a figure, unless it is there, and return its path."""
        path = self._folder / name
        if self.get(name, key) != content:
            with atomic_write(path) as file:
                file.write(content)
            self._drawn[name] = [key, hashlib.sha256(content).hexdigest()]
        return path

    def save(self) -> None:
        """Write the record."""
        with atomic_write(self._record) as file:
            file.write(json.dumps(self._drawn, indent=0).encode())
