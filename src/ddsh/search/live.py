"""The index of a catalogue: kept in step with it, and saved beside it so that opening is quick.

Its files are made from the catalogue and named by the state they show. Whoever opens the folder takes the newest files
whose state the catalogue knows and adds what changed since; files that are cut short, damaged or of another history
cost time, never truth: the index is then made from the catalogue again.
"""

import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np

from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError
from ddsh.index import get_index
from ddsh.index.base import Index
from ddsh.search.catalogue import Catalogue, Changes, State

AUTO = "auto"
_NAME = re.compile(r"([0-9]{12})-([0-9a-f]{16})")
_MAX_BEHIND = 1 / 10
"""Larger shares of changes are worth a new save; smaller ones are looked up at every opening."""


class LiveIndex:
    """An index that follows a catalogue.

    Parameters
    ----------
    folder : path
        Where its files are.
    kind : str
        A name of :data:`ddsh.index.INDEXES`; ``auto`` takes the hash table, whose searches are the fastest where many
        images share a code, as learned codes do.
    n_bits : int
        Code length.
    """

    def __init__(self, folder: Path, kind: str, n_bits: int) -> None:
        self._folder = folder
        self._class = get_index("buckets" if kind == AUTO else kind)
        self._n_bits = n_bits
        self._state: State | None = None
        self._base: State | None = None  # what the files show, if there are any
        self._index: Index = self._class(n_bits)

    @property
    def kind(self) -> str:
        """Name of the index."""
        return self._index.name

    @property
    def state(self) -> State | None:
        """The state of the catalogue that it shows."""
        return self._state

    def follow(self, catalogue: Catalogue) -> Index:
        """Return the index at the catalogue's present state; call it while that state is being read."""
        state = catalogue.state()
        if state != self._state:
            if self._state is None or not catalogue.has_state(self._state):
                self._open(catalogue)
            self._apply(catalogue)
            self._state = state
        return self._index

    def save_if_behind(self, catalogue: Catalogue) -> None:
        """Write the files anew, if they are too far behind the catalogue; for the only writer."""
        with catalogue.reading():
            index, state = self.follow(catalogue), catalogue.state()
            if not self._is_behind(catalogue):
                return
        # A folder under its right name is whole; one that is cut short keeps the other name until it is removed.
        unfinished = self._folder / f".{_name_of(state)}"
        index.save(unfinished)
        unfinished.replace(self._folder / _name_of(state))
        self._base = state
        catalogue.forget_before(state)
        self._remove_all_but(state)

    def _is_behind(self, catalogue: Catalogue) -> bool:
        if self._base is None or not catalogue.has_state(self._base):
            return True
        return catalogue.count_changes(self._base) > _MAX_BEHIND * catalogue.count()

    def _open(self, catalogue: Catalogue) -> None:
        """Start from files, or from nothing."""
        self._base, self._state, self._index = None, None, self._class(self._n_bits)
        for state in self._saved(catalogue):
            with suppress(ArtefactError):
                index = self._class.load(self._folder / _name_of(state))
                if index.n_bits == self._n_bits:
                    self._base, self._state, self._index = state, state, index
                    return

    def _apply(self, catalogue: Catalogue) -> None:
        changes = catalogue.codes() if self._state is None else catalogue.changes(self._state)
        gone = changes.gone[np.isin(changes.gone, self._index.ids)] if len(changes.gone) else changes.gone
        if len(gone):
            self._index.remove(gone)
        if len(changes.ids):
            self._index.add(_codes(changes, self._n_bits), changes.ids)

    def _saved(self, catalogue: Catalogue) -> list[State]:
        """Return the states of the saved files that belong to the catalogue, newest first."""
        names = sorted((path.name for path in self._folder.iterdir()), reverse=True)
        states = [State(int(match[1]), match[2]) for name in names if (match := _NAME.fullmatch(name))]
        return [state for state in states if catalogue.has_state(state)]

    def _remove_all_but(self, state: State) -> None:
        for path in list(self._folder.iterdir()):
            if path.name != _name_of(state):
                shutil.rmtree(path, ignore_errors=True)


def _name_of(state: State) -> str:
    return f"{state.generation:012d}-{state.token}"


def _codes(changes: Changes, n_bits: int) -> BinaryCodes:
    return BinaryCodes(changes.packed, n_bits)
