"""Making the catalogue agree with the files again: what changed, what moved, what is gone."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ddsh.images import find_images
from ddsh.search.adding import Adder, Given
from ddsh.search.catalogue import Catalogue, FileRow
from ddsh.search.folder import IMAGES
from ddsh.search.reports import AddReport, RefreshReport


class Refresher:
    """Compares a catalogue with the files it speaks of; for the only writer. No image is added.

    Parameters
    ----------
    catalogue : Catalogue
        The catalogue.
    adder : Adder
        What reads files again.
    folder : path
        The folder of the search index.
    """

    def __init__(self, catalogue: Catalogue, adder: Adder, folder: Path) -> None:
        self._catalogue, self._adder, self._folder = catalogue, adder, folder.absolute()
        self._roots = catalogue.roots()

    def refresh(self, on_progress: Callable[[int, int], None] | None) -> RefreshReport:
        """Look at every file, and bring the catalogue up to date."""
        rows = self._catalogue.files()
        touched, missing = _compare(rows, on_progress)
        again = self._read([row.path for row in touched] + self._moved_files(rows, missing))
        gone, out_of_reach = self._divide([row for row in missing if row.id not in again.moved])
        broken = {skipped.path for skipped in again.broken}
        removed = [row.id for row in gone] + [row.id for row in touched if str(row.path) in broken]
        with self._catalogue.writing():
            self._catalogue.remove(removed)
        self._remove_kept_files()
        return RefreshReport(
            unchanged=len(rows) - len(touched) - len(missing) + len(again.known),
            changed=again.changed,
            moved=again.moved,
            removed=tuple(sorted(removed)),
            broken=again.broken,
            out_of_reach=tuple(sorted(map(str, out_of_reach))),
        )

    def _read(self, paths: Sequence[Path]) -> AddReport:
        return self._adder.add([Given(path) for path in paths], None)

    def _moved_files(self, rows: Iterable[FileRow], missing: Sequence[FileRow]) -> list[Path]:
        """Return unknown files below the folders that were added, whose content is that of a missing one."""
        if not missing:
            return []
        known = {row.path for row in rows}
        lost = {(row.n_bytes, row.sha256) for row in missing}
        sizes = {n_bytes for n_bytes, _ in lost}
        found = (path for root in self._roots if root.is_dir() for path in find_images(root) if path not in known)
        # Only what has the size of a missing file is worth reading.
        return [path for path in dict.fromkeys(found) if (size := _size(path)) in sizes and _key(path, size) in lost]

    def _divide(self, missing: Sequence[FileRow]) -> tuple[list[FileRow], set[Path]]:
        """Divide into files that are gone and folders that are out of reach."""
        gone: list[FileRow] = []
        out_of_reach: set[Path] = set()
        for row in missing:
            home = self._home(row.path)
            if _is_there(home):
                gone.append(row)
            else:
                out_of_reach.add(home)
        return gone, out_of_reach

    def _home(self, path: Path) -> Path:
        """Return the folder that must be there for a missing file to count as gone."""
        homes = [root for root in (self._folder, *self._roots) if path.is_relative_to(root)]
        return homes[0] if homes else path.parent

    def _remove_kept_files(self) -> None:
        """Remove kept images that nobody refers to, such as those of an addition that was cut short."""
        known = {row.path for row in self._catalogue.files()}
        for path in list((self._folder / IMAGES).iterdir()):
            if path not in known:
                path.unlink(missing_ok=True)


def _compare(
    rows: Sequence[FileRow], on_progress: Callable[[int, int], None] | None
) -> tuple[list[FileRow], list[FileRow]]:
    """Return the files that are not as they were, and those that are missing."""
    touched: list[FileRow] = []
    missing: list[FileRow] = []
    for done, row in enumerate(rows, 1):
        try:
            status = row.path.stat()
        except OSError:
            missing.append(row)
        else:
            if (status.st_size, status.st_mtime_ns) != (row.n_bytes, row.mtime_ns):
                touched.append(row)
        if on_progress:
            on_progress(done, len(rows))
    return touched, missing


def _is_there(folder: Path) -> bool:
    """Return whether a folder is there and holds anything: the place of a disk that is not plugged in is empty."""
    with suppress(OSError):
        return any(folder.iterdir())
    return False


def _size(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_size
    return None


def _key(path: Path, size: int | None) -> tuple[int | None, bytes]:
    with suppress(OSError), path.open("rb") as file:
        return size, hashlib.file_digest(file, "sha256").digest()
    return size, b""
