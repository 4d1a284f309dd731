"""Index that follows the catalogue, with files that make opening fast.

The files are derived from the catalogue and named by the state they show. On opening, the newest files whose state the
catalogue knows are loaded and the changes since then are applied; truncated or damaged files, or files of another
history, only cost time: the index is then rebuilt from the catalogue.
"""

import logging
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from ddsh.codes import CodePair
from ddsh.errors import ArtefactError
from ddsh.index import get_index, verify
from ddsh.index.pairs import PairIndex
from ddsh.search.catalogue import Catalogue, State
from ddsh.search.store import AUTO

__all__ = ["LiveIndex"]

_LOG = logging.getLogger(__name__)

_NAME = re.compile(r"([0-9]{12})-([0-9a-f]{16})")
_MAX_BEHIND = 1 / 10
"""Share of changed entries above which the files are written again; fewer changes are applied at every opening."""


class LiveIndex:
    """An index that follows a catalogue.

    Parameters
    ----------
    folder : path
        Folder of its files.
    name : str
        A name of :data:`ddsh.index.INDEXES`; ``auto`` chooses the hash table, which is the fastest where many images
        share a code, as learned codes do.
    n_bits, look_bits : int
        Number of label bits and of look bits; one of them may be 0.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str, n_bits: int, look_bits: int = 0) -> None:
        self._folder = Path(folder)
        self._class = get_index("buckets" if name == AUTO else name)
        self._n_bits, self._look_bits = n_bits, look_bits
        self._state: State | None = None
        self._saved: State | None = None  # the state of the files, if there are any
        self._index = self._empty()

    @property
    def name(self) -> str:
        """Name of the index."""
        return self._index.name

    @property
    def state(self) -> State | None:
        """The state of the catalogue that the index shows."""
        return self._state

    def follow(self, catalogue: Catalogue) -> PairIndex:
        """Return the index at the state that the catalogue is reading."""
        state = catalogue.state()
        if state == self._state:
            return self._index
        if self._state is None or not catalogue.has_state(self._state):
            self._load(catalogue)
            if state == self._state:
                return self._index
        changes = catalogue.codes() if self._state is None else catalogue.changes(self._state)
        gone = changes.gone[self._index.contains(changes.gone)]
        if len(gone):
            self._index.remove(gone)
        if len(changes.ids):
            codes = CodePair.from_packed(changes.packed, self._n_bits, self._look_bits)
            self._index.add(codes, changes.ids)
        self._state = state
        return self._index

    def save_if_behind(self, catalogue: Catalogue) -> None:
        """Write the files again if they are too far behind; only the writer may call this."""
        with catalogue.reading():
            index, state = self.follow(catalogue), catalogue.state()
            is_saved = self._saved is not None and (self._folder / _folder_name(self._saved)).is_dir()
            if self._saved is not None and is_saved and catalogue.has_state(self._saved):
                n_changes = catalogue.count_changes(self._saved)
                if n_changes <= _MAX_BEHIND * catalogue.count():
                    return
        # A folder under its final name is complete; an interrupted one keeps the other name until it is removed.
        unfinished = self._folder / f".{_folder_name(state)}"
        index.save(unfinished)
        unfinished.replace(self._folder / _folder_name(state))
        self._saved = state
        catalogue.forget_before(state)
        for path in self._files():
            if path.name != _folder_name(state):
                self._remove(path)

    def _load(self, catalogue: Catalogue) -> None:
        """Start from the newest usable files, or from an empty index."""
        self._saved, self._state, self._index = None, None, self._empty()
        names = sorted((path.name for path in self._files()), reverse=True)
        for match in filter(None, map(_NAME.fullmatch, names)):
            state = State(int(match[1]), match[2])
            if catalogue.has_state(state):
                try:
                    self._index = self._index.load(self._folder / _folder_name(state))
                except ArtefactError as error:
                    _LOG.warning("%s The index is rebuilt from the catalogue.", error)
                else:
                    self._saved, self._state = state, state
                    return

    def problems(self) -> list[str]:
        """Return the files that do not fit their checksums, after reading all of them."""
        found = []
        named = (path for path in self._files() if _NAME.fullmatch(path.name))
        for manifest in sorted(manifest for path in named for manifest in path.rglob("index.json")):
            try:
                verify(manifest.parent)
            except ArtefactError as error:
                found.append(str(error))
        return found

    @staticmethod
    def _remove(folder: Path) -> None:
        """Remove a folder, which must not keep its name while it is incomplete."""
        if _NAME.fullmatch(folder.name):
            with suppress(OSError):
                folder = folder.rename(folder.with_name(f".{folder.name}"))
        shutil.rmtree(folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        """Return what the folder holds; it may be deleted at any time."""
        try:
            return list(self._folder.iterdir())
        except FileNotFoundError:
            return []

    def _empty(self) -> PairIndex:
        return PairIndex(self._n_bits, self._look_bits, self._class)


def _folder_name(state: State) -> str:
    return f"{state.generation:012d}-{state.token}"
