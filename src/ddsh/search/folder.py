"""The folder of a search: what lies where, its manifest, and the lock that keeps writers apart."""

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ddsh.errors import ArtefactError, DdshError, InvalidInput
from ddsh.storage import atomic_write

FORMAT_VERSION = 1
MANIFEST = "search.json"
MODEL = "model"
CATALOGUE = "catalogue.sqlite"
INDEX = "index"
IMAGES = "images"
_LOCK = "lock"
_MAX_MANIFEST_BYTES = 1 << 20
_POLL_SECONDS = 0.02


class Busy(DdshError):
    """Somebody else is changing the index."""


@dataclass(frozen=True)
class Manifest:
    """The content of ``search.json``, which never changes once it is written.

    Parameters
    ----------
    fingerprint : str
        Of the model and its preprocessing; see :class:`~ddsh.search.encoder.Encoder`.
    n_bits : int
        Code length.
    preprocessing : dict
        How an image becomes what the model sees.
    index : str
        A name of :data:`ddsh.index.INDEXES`, or ``auto``.
    keeps_outputs : bool
        Whether real outputs are kept beside the codes.
    """

    fingerprint: str
    n_bits: int
    preprocessing: Mapping[str, Any]
    index: str
    keeps_outputs: bool

    def write(self, folder: Path) -> None:
        """Write the manifest to a folder."""
        with atomic_write(folder / MANIFEST) as file:
            file.write(json.dumps({"version": FORMAT_VERSION, **asdict(self)}, indent=2).encode())

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a folder, or say what is wrong with it."""
        path = folder / MANIFEST
        try:
            with path.open("rb") as file:
                content = json.loads(file.read(_MAX_MANIFEST_BYTES))
            version = content.pop("version")
            manifest = cls(**content) if version == FORMAT_VERSION else None
        except (FileNotFoundError, NotADirectoryError):
            raise ArtefactError(
                f"{folder} holds no search index ({MANIFEST} is missing); make one with: ddsh index MODEL IMAGES --out"
                f" {folder}"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise ArtefactError(
                f"{path} is damaged ({type(error).__name__}: {reason}); make the index again."
            ) from error
        if manifest is None:
            raise ArtefactError(f"{path} has version {version}; this ddsh reads version {FORMAT_VERSION}.")
        return manifest


def is_search(folder: Path) -> bool:
    """Return whether a folder holds a search index."""
    return (folder / MANIFEST).is_file()


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which takes the place of `folder` only when the block ends well.

    So a search index is there as a whole or not at all, whenever its making is cut short.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{folder} is there already and is not empty; choose another folder.")
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        temporary = folder.absolute().with_name(f".{folder.absolute().name}.{secrets.token_hex(8)}")
        temporary.mkdir()
    except OSError as error:
        raise ArtefactError(f"{folder} cannot be made ({error.strerror or error}); choose another folder.") from error
    try:
        yield temporary
        temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def only_writer(folder: Path, wait: float) -> Iterator[None]:
    """Keep other writers out while the block runs, in this process and in others.

    The system drops the lock with the process, however it ends, so that a killed writer never locks anybody out.

    Parameters
    ----------
    folder : path
        The folder of a search index.
    wait : float
        Seconds to wait for another writer.
    """
    try:
        file = (folder / _LOCK).open("a+b")
    except OSError as error:
        raise ArtefactError(f"{folder} cannot be changed ({error.strerror or error}).") from error
    with file:
        _acquire(file, folder, time.monotonic() + wait)
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


def _acquire(file: IO[bytes], folder: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                file.seek(0)
                owner = file.read(20).decode(errors="replace") or "unknown"
                raise Busy(f"{folder} is being changed by process {owner}; try again when it is done.") from None
            time.sleep(_POLL_SECONDS)
        else:
            return
