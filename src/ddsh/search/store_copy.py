"""Copying a search index from one store to another."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ddsh.errors import ArtefactError
from ddsh.search.address import create_store, has_store, open_store
from ddsh.search.indexer import Progress
from ddsh.search.store import AUTO, Entry, Store, StoreWriter, check_fingerprint

__all__ = ["copy_store"]

_BATCH = 1000


def copy_store(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    wait: float,
    on_progress: Progress | None = None,
) -> int:
    """Copy all entries with their ids, the model and kept images, compare both stores, and return the number copied.

    Entries that the target has already are not copied again, so that an interrupted copy can be continued. Nobody can
    change the source in the meantime.

    Parameters
    ----------
    source, target : path or str
        Addresses of stores; the target is created if it does not exist.
    wait : float
        Seconds to wait for another writer.
    on_progress : callable, optional
        Called with the number of entries done and their total.

    Raises
    ------
    ArtefactError
        If the target was made with another model, or differs from the source in the end.
    """
    copied = done = 0
    with open_store(source, wait) as old, old.write(alone=True) as reader:
        if has_store(target):
            new = open_store(target, wait)
        else:
            manifest = old.manifest.model_copy(update={"index": AUTO})
            new = create_store(
                target, manifest, lambda folder: shutil.copytree(old.model_folder, folder, dirs_exist_ok=True), wait
            )
        with new:
            check_fingerprint(new.address, old.address, old.manifest.fingerprint, new.manifest.fingerprint)
            with new.write(alone=True) as writer:
                with writer.transaction():
                    for root in reader.roots():
                        writer.add_root(root)
                after, total = -1, old.count()
                while ids := old.ids(after, _BATCH):
                    known = set(new.ids(ids[0] - 1, _BATCH))
                    missing = [number for number in ids if number not in known]
                    if missing:
                        entries = _keep_images(old, writer, old.entries(missing))
                        with writer.transaction():
                            writer.restore_all(entries, old.contents(missing))
                    copied, done, after = copied + len(missing), done + len(ids), ids[-1]
                    if on_progress:
                        on_progress(done, total)
            _compare(old, new)
    return copied


def _keep_images(old: Store, writer: StoreWriter, entries: Sequence[Entry]) -> list[Entry]:
    """Copy kept images, and return the entries with the paths of the copies."""
    found = []
    for entry in entries:
        path = Path(entry.path)
        if path.is_relative_to(old.folder):
            copy = writer.keep_image(path.name, path.read_bytes())
            os.utime(copy, ns=(entry.mtime_ns, entry.mtime_ns))
            entry = entry._replace(path=str(copy))
        found.append(entry)
    return found


def _compare(old: Store, new: Store) -> None:
    """Raise if two stores differ in an entry, a code or the number of entries."""
    after, different = -1, abs(old.count() - new.count())
    while ids := old.ids(after, _BATCH):
        mine, theirs = old.contents(ids), new.contents(ids)
        entries = {entry.id: _without_folder(entry, new) for entry in new.entries(ids)}
        for entry in old.entries(ids):
            same = entries.get(entry.id) == _without_folder(entry, old) and mine[entry.id] == theirs.get(entry.id)
            different += not same
        after = ids[-1]
    if different:
        raise ArtefactError(
            f"{new.address} differs from {old.address} in {different:,} entries; copy to a new, empty place."
        )


def _without_folder(entry: Entry, store: Store) -> Entry:
    path = Path(entry.path)
    return entry._replace(path=path.name if path.is_relative_to(store.folder) else entry.path)
