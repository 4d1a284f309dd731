"""Images that were removed through the service and can still be restored."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock

from ddsh.errors import DdshError
from ddsh.search import ImageSearch, RemovedImage

__all__ = ["MAX_REMOVED", "UNDO_SECONDS", "RemovedItems"]

UNDO_SECONDS = 900.0
"""Time in which a removal can be undone."""

MAX_REMOVED = 5000
"""Number of removed images that are remembered, at most."""


class RemovedItems:
    """Removes images and restores them; any number of threads may use it.

    They are remembered in memory. The files of uploads stay in the folder of the index as long; when the time is over,
    the next change deletes them, or the end of the service.

    Parameters
    ----------
    search : ImageSearch
        The search index.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, search: ImageSearch, clock: Callable[[], float] = time.monotonic) -> None:
        self._search, self._clock = search, clock
        self._removed: dict[int, tuple[float, RemovedImage]] = {}
        self._lock = Lock()

    def remove(self, ids: Iterable[int]) -> tuple[list[int], list[int]]:
        """Remove images and return their ids, and the ids that are not in the index."""
        with self._lock:
            taken, missing = self._search.take_out(ids)
            now = self._clock()
            for image in taken:
                self._removed.pop(image.entry.id, None)  # restored and removed again: now it is the last one
                self._removed[image.entry.id] = now, image
            self._forget_old(now)
        return [image.entry.id for image in taken], missing

    def restore(self, ids: Iterable[int]) -> tuple[list[int], list[int]]:
        """Restore removed images and return their ids, and the ids that cannot be restored any more."""
        wanted = sorted(set(ids))
        with self._lock:
            self._forget_old(self._clock())
            restored = self._search.restore(self._removed[number][1] for number in wanted if number in self._removed)
            for number in restored:
                del self._removed[number]
        return restored, sorted(set(wanted) - set(restored))

    def close(self) -> None:
        """Delete the files of removed uploads."""
        if self._removed:
            self._removed.clear()
            with suppress(DdshError):  # another process is writing; the next refresh deletes them
                self._search.remove_unused_images()

    def _forget_old(self, now: float) -> None:
        old = [number for number, (then, _) in self._removed.items() if now - then > UNDO_SECONDS]
        old += list(self._removed)[len(old) : len(self._removed) - MAX_REMOVED]
        if not old:
            return
        for number in old:
            del self._removed[number]
        self._search.remove_unused_images(keep={image.entry.path for _, image in self._removed.values()})
