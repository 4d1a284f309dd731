"""Store interface: entries, their codes, and exact search over them.

:class:`ImageSearch` needs nothing else, so a database can replace the local folder by implementing :class:`Store` and
:class:`StoreWriter` in one module. :mod:`ddsh.search.local` is the implementation for a local folder.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from ddsh.codes import MAX_BITS, CodePair
from ddsh.errors import ArtefactError, InvalidInput
from ddsh.index.pairs import By
from ddsh.storage import Manifest

__all__ = [
    "AUTO",
    "MAX_NESTING",
    "Content",
    "Entry",
    "Filter",
    "Ids",
    "Neighbours",
    "SearchManifest",
    "StagedCodes",
    "Store",
    "StoreWriter",
    "StoredFile",
    "check_fingerprint",
    "check_metadata",
]

MAX_NESTING = 20
"""Largest number of lists and objects of metadata inside each other."""

AUTO = "auto"
"""Name of an index that lets the store choose."""

Ids: TypeAlias = NDArray[np.int64]

_FINGERPRINT = re.compile("[0-9a-f]{64}")


class SearchManifest(Manifest):
    """Settings of a search index, fixed until it is upgraded to another model.

    Attributes
    ----------
    fingerprint : str
        Fingerprint of the model and its preprocessing.
    n_bits, look_bits : int
        Number of label bits and of look bits; 0 if there are none.
    preprocessing : dict
        Preprocessing of the model.
    index : str
        A name of :data:`ddsh.index.INDEXES`, or ``auto``.
    """

    format_version = 2
    fingerprint: str
    n_bits: int
    look_bits: int
    preprocessing: dict[str, Any]
    index: str

    @classmethod
    def upgrade(cls, content: dict[str, Any], version: object) -> dict[str, Any] | None:
        """Convert version 1, which had no look bits and could keep real outputs."""
        if version != 1:
            return None
        return {name: value for name, value in content.items() if name != "keeps_outputs"} | {"look_bits": 0}

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if not _FINGERPRINT.fullmatch(self.fingerprint):  # part of the name of a folder
            raise ValueError("the fingerprint is not a checksum")
        if not (0 <= self.n_bits <= MAX_BITS and 0 <= self.look_bits <= MAX_BITS and self.n_bits + self.look_bits):
            raise ValueError(f"{self.n_bits} label bits and {self.look_bits} look bits")
        return self


class Entry(NamedTuple):
    """An indexed image; a tuple, because every search makes one for each hit.

    Attributes
    ----------
    id : int
        Unique number; never reused, even after the image was removed.
    path : str
        Path of the image file.
    sha256 : str
        Checksum of the file.
    n_bytes, width, height : int
        Size of the file, and of the upright image in pixels.
    mtime_ns : int
        Modification time of the file, in nanoseconds since 1970.
    labels : tuple of str
        Labels.
    metadata : dict
        Any JSON data of the user.
    """

    id: int
    path: str
    sha256: str
    n_bytes: int
    width: int
    height: int
    mtime_ns: int
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Display name: the file name, or the id if the file is named by its checksum."""
        name = self.path[self.path.rfind(os.sep) + 1 :]  # called for every hit; pathlib takes twenty times as long
        return f"image {self.id}" if name.partition(".")[0] == self.sha256 else name


@dataclass(frozen=True)
class Filter:
    """Which entries to search.

    Parameters
    ----------
    labels : tuple of str
        Labels; an empty tuple allows all entries.
    all_labels : bool
        Whether an entry needs all of the labels; one of them suffices by default.
    text : str
        Words; each must occur in a label, in the file name or in a value of the metadata, in any case.
    """

    labels: tuple[str, ...] = ()
    all_labels: bool = False
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.text.strip())


@dataclass(frozen=True)
class Content:
    """Content of an image file and its code; files with equal content share it.

    Parameters
    ----------
    sha256 : bytes
        Checksum of the file.
    n_bytes, width, height : int
        Size of the file, and of the image in pixels.
    code : bytes
        The packed label bits, then the packed look bits.
    tiny : bytes
        Tiny copy of the image; see :mod:`ddsh.search.duplicates`.
    """

    sha256: bytes
    n_bytes: int
    width: int
    height: int
    code: bytes
    tiny: bytes


@dataclass(frozen=True)
class StoredFile:
    """Path, checksum, size and modification time of an indexed file."""

    id: int
    path: Path
    sha256: bytes
    n_bytes: int
    mtime_ns: int


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Result of :meth:`Store.search`, nearest first.

    Parameters
    ----------
    ids : ndarray of int64
        Ids of the entries.
    distances : ndarray of int64
        Distances by which they are ordered.
    label_distances, look_distances : ndarray of int64 or None
        Hamming distances of label bits and of look bits, where there are any.
    codes : CodePair
        Their codes.
    """

    ids: Ids
    distances: NDArray[np.int64]
    label_distances: NDArray[np.int64] | None
    look_distances: NDArray[np.int64] | None
    codes: CodePair


class StagedCodes(ABC):
    """Codes of another model, prepared beside those in use; see :meth:`Store.stage`."""

    @abstractmethod
    def __contains__(self, sha256: object) -> bool:
        """Return whether some content has a code."""

    @abstractmethod
    def put(self, codes: Mapping[bytes, bytes]) -> None:
        """Keep codes by the checksum of their content; they outlast the process."""


class StoreWriter(ABC):
    """Write access to a store, from :meth:`Store.write`.

    Changes are made inside :meth:`transaction`. One thread at a time may use a writer, except for :meth:`keep_image`.
    """

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Local folder of the store; see :class:`Store`."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Apply all changes of the block at once, or none of them if it fails or the process ends."""

    @abstractmethod
    def files(self) -> list[StoredFile]:
        """Return all files, by id."""

    @abstractmethod
    def file_at(self, path: Path) -> StoredFile | None:
        """Return the file with an absolute path, if it is indexed."""

    @abstractmethod
    def files_with(self, sha256: bytes) -> list[StoredFile]:
        """Return the files with some content, by id."""

    @abstractmethod
    def has_content(self, sha256: bytes) -> bool:
        """Return whether the code of some content is stored."""

    @abstractmethod
    def put_content(self, content: Content) -> None:
        """Store new content; content without a file is dropped when the writer is closed."""

    @abstractmethod
    def add(self, path: Path, sha256: bytes, mtime_ns: int) -> int:
        """Add an entry for a file with stored content and return its id."""

    @abstractmethod
    def content_of(self, image: int) -> Content | None:
        """Return the content of an entry."""

    @abstractmethod
    def restore(self, entry: Entry) -> None:
        """Add a removed entry with stored content again, with its id, labels and metadata."""

    def restore_all(self, entries: Sequence[Entry], contents: Mapping[int, Content]) -> None:
        """Add many entries with their ids, labels and metadata, and their contents by id."""
        for entry in entries:
            if not self.has_content(contents[entry.id].sha256):
                self.put_content(contents[entry.id])
            self.restore(entry)

    @abstractmethod
    def replace(self, image: int, sha256: bytes, mtime_ns: int) -> None:
        """Set the content of an entry whose file changed."""

    @abstractmethod
    def move(self, image: int, path: Path, mtime_ns: int) -> None:
        """Set the path and the modification time of an entry."""

    @abstractmethod
    def labels_of(self, image: int) -> tuple[str, ...] | None:
        """Return the labels of an entry; None if the id is unknown."""

    @abstractmethod
    def set_labels(self, image: int, labels: Sequence[str]) -> None:
        """Replace the labels of an entry."""

    @abstractmethod
    def set_metadata(self, image: int, metadata: str) -> None:
        """Replace the metadata of an entry, given as JSON."""

    @abstractmethod
    def remove(self, ids: Iterable[int], *, keep_images: bool = False) -> None:
        """Remove entries.

        Parameters
        ----------
        ids : iterable of int
            Their ids.
        keep_images : bool
            Leave images that were kept for them until :meth:`remove_unused_images`, so that they can be restored.

        Raises
        ------
        InvalidInput
            If an id is unknown.
        """

    @abstractmethod
    def roots(self) -> list[Path]:
        """Return the folders that were added."""

    @abstractmethod
    def add_root(self, folder: Path) -> None:
        """Record a folder whose images were added."""

    @abstractmethod
    def keep_image(self, name: str, data: bytes) -> Path:
        """Keep an image that has no file, and return the path of its file; any thread may call this."""

    @abstractmethod
    def remove_unused_images(self, keep: Collection[Path] = ()) -> None:
        """Delete kept images that no entry refers to, such as those of an interrupted addition; not those in `keep`."""

    @abstractmethod
    def switch(self, staged: StagedCodes) -> None:
        """Replace all codes and the model by staged ones; every content needs a staged code."""


class Store(ABC):
    """Entries of a search index and exact search over them. Any number of threads may use a store.

    Attributes
    ----------
    manifest : SearchManifest
        Settings. After an upgrade by another process they change when :meth:`snapshot` or :meth:`write` is entered.
    address : str
        Where the store is, for messages; without a password.
    folder : Path
        Local folder of the store; of a database, a folder for local copies.
    model_folder : Path
        Local folder with the saved model.
    """

    parallel_reads: ClassVar[bool] = False
    """Whether threads read at the same time; otherwise each waits in :meth:`snapshot` for the one before."""
    manifest: SearchManifest
    address: str
    folder: Path
    model_folder: Path

    @property
    @abstractmethod
    def index_name(self) -> str:
        """Name of the index that searches the codes."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads of this thread in the block see the same state, regardless of concurrent writers."""

    @abstractmethod
    def write(self, *, alone: bool = False) -> AbstractContextManager[StoreWriter]:
        """Return write access.

        Parameters
        ----------
        alone : bool
            Keep all other writers out. If it is False, a store may let others work at the same time; their
            transactions come one after the other.

        Raises
        ------
        Busy
            If another writer is in the way for too long.
        """

    def change_model(self, save: Callable[[Path], object]) -> None:
        """Let `save` change files of the saved model, in the folder that it is given; the fingerprint must stay."""
        save(self.model_folder)

    @abstractmethod
    def stage(
        self, manifest: SearchManifest, save_model: Callable[[Path], object]
    ) -> AbstractContextManager[StagedCodes]:
        """Prepare the codes of another model, while the store goes on serving and changing.

        Codes that an interrupted attempt with the same model left are there again. :meth:`StoreWriter.switch` puts
        them into use.

        Parameters
        ----------
        manifest : SearchManifest
            The new settings.
        save_model : callable
            Saves the new model to the folder it is given.

        Raises
        ------
        Busy
            If another process prepares codes.
        """

    def problems(self) -> list[str]:
        """Return what is wrong with the stored data, after reading all of it; one line each."""
        return []

    @abstractmethod
    def files(self) -> list[StoredFile]:
        """Return all files, by id."""

    @abstractmethod
    def generation(self) -> int:
        """Return the number of transactions so far."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of entries."""

    @abstractmethod
    def count_contents(self) -> tuple[int, int]:
        """Return the number of different contents and of different codes."""

    @abstractmethod
    def label_counts(self) -> dict[str, int]:
        """Return the number of entries with each label, by label."""

    @abstractmethod
    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return entries in the order of the ids; unknown ids are skipped."""

    @abstractmethod
    def ids(self, after: int, limit: int) -> list[int]:
        """Return the next ids after one, ascending."""

    @abstractmethod
    def sample(self, n: int, seed: int | None) -> list[int]:
        """Return `n` random ids, or all if there are fewer."""

    @abstractmethod
    def id_of(self, path: Path) -> int | None:
        """Return the id of the file with an absolute path."""

    @abstractmethod
    def ids_with(self, sha256: bytes) -> list[int]:
        """Return the ids of the files with some content, ascending."""

    @abstractmethod
    def code_of(self, image: int) -> CodePair | None:
        """Return the codes of an entry."""

    def copies_of(self, image: int) -> tuple[bytes, CodePair, list[int]] | None:
        """Return the checksum of an entry's file, its codes, and the ids of all entries with this content, ascending.

        A store may do it at once; the caller reads one :meth:`snapshot`.
        """
        entries, code = self.entries([image]), self.code_of(image)
        if not entries or code is None:
            return None
        sha256 = bytes.fromhex(entries[0].sha256)
        return sha256, code, self.ids_with(sha256)

    @abstractmethod
    def codes(self, ids: Sequence[int]) -> tuple[list[int], CodePair | None]:
        """Return the ids that are known, in their order, and the codes of these; no codes if there are none."""

    @abstractmethod
    def contents(self, ids: Sequence[int]) -> dict[int, Content]:
        """Return the contents of the entries that are known, by id."""

    @abstractmethod
    def matching(self, where: Filter) -> Ids:
        """Return the ids of the entries that a filter allows, ascending; see :meth:`search`."""

    @abstractmethod
    def tiny_copies(self) -> tuple[list[int], CodePair | None, list[bytes]]:
        """Return the id, the codes and the tiny copy of every entry, by id; no codes if there are no entries."""

    @abstractmethod
    def search(
        self,
        code: CodePair,
        k: int | None,
        *,
        by: By = "both",
        radius: int | None = None,
        where: Filter | None = None,
    ) -> Neighbours:
        """Return the entries nearest to a code.

        Parameters
        ----------
        code : CodePair
            One pair of codes.
        k : int or None
            Largest number of entries to return; None returns all.
        by : {"both", "label", "look"}
            What orders the entries; see :meth:`ddsh.index.pairs.PairIndex.search`.
        radius : int, optional
            Largest distance to return, in that order.
        where : Filter, optional
            Only entries that it allows; :class:`~ddsh.errors.UnknownName` is raised if no entry has one of its labels.
        """


def check_fingerprint(address: str, source: str, found: str, expected: str) -> None:
    """Raise :class:`~ddsh.errors.ArtefactError` if two models differ."""
    if found != expected:
        raise ArtefactError(
            f"{address} was made with another model (fingerprint {expected[:12]}) than {source} ({found[:12]}); codes"
            " of different models do not compare: use that model or make a new index."
        )


def check_metadata(value: object, depth: int = 0) -> None:
    """Raise :class:`~ddsh.errors.InvalidInput` for metadata that a response could not contain."""
    if depth > MAX_NESTING:
        raise InvalidInput(f"Metadata has more than {MAX_NESTING} lists and objects inside each other.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput("Metadata has half of a surrogate pair, which is not text.") from None
    elif isinstance(value, Mapping):
        for key, each in value.items():
            check_metadata(key, depth)
            check_metadata(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            check_metadata(each, depth + 1)
