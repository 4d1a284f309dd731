"""Download datasets from their official addresses."""

import gzip
import os
import string
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ddsh.datasets.sources import NOT_FETCHABLE, SOURCES, RemoteFile, Source
from ddsh.datasets.transfer import ELSEWHERE, Patience, Progress, Transfer, cause_of, md5_of, one_line, web_scheme
from ddsh.errors import DataError, DownloadError, UnknownName


def fetch(
    name: str,
    root: str | os.PathLike[str],
    *,
    mirror: str | None = None,
    timeout: float = 30.0,
    attempts: int = 3,
    pause: float = 1.0,
    on_progress: Progress | None = None,
    sources: Mapping[str, Source] = SOURCES,
) -> list[Path]:
    """Download a dataset; what is there already is not downloaded again.

    A download that was cut is continued, also by a later call: it waits in a ``.part`` file
    beside its target. A file takes its final name only when its checksum is right.

    Parameters
    ----------
    name : str
        A name in `sources`.
    root : path
        The folder that holds the datasets; created if needed.
    mirror : str, optional
        An http or https address of a folder with the same files, used in place of the official one.
    timeout : float
        Seconds a server may stay silent.
    attempts : int
        How many attempts in a row may bring no new bytes.
    pause : float
        Seconds to wait before the next attempt; doubled with every failure in a row.
    on_progress : Progress, optional
        Called with a file's name, its bytes so far and its size; the bytes grow steadily, save that
        they start anew when a file has to be downloaded from its beginning again.
    sources : mapping of str to Source
        The datasets that are known.

    Returns
    -------
    list of Path
        The files, or the folder of an unpacked archive.

    Raises
    ------
    UnknownName
        If `sources` has no such name.
    DataError
        If the dataset exists but cannot be downloaded by anyone.
    DownloadError
        If the server, the content, or the disk does not allow it.
    """
    errand = _Errand(Path(root), mirror, Patience(timeout, attempts, pause), on_progress or _ignore)
    source = _find(name, sources)
    if not hasattr(tarfile, "data_filter") and any(file.unpack_to for file in source.files):
        raise DownloadError(f"This Python cannot unpack {name} safely; use Python 3.11.4 or newer.")
    try:
        return [errand.bring(file, source.folder) for file in source.files]
    except OSError as error:
        raise DownloadError(
            f"Cannot store {name} under {root}: {cause_of(error)}. "
            "Make room there or choose another --root, then run it again."
        ) from error


def _find(name: str, sources: Mapping[str, Source]) -> Source:
    """Look a source up, or say why there is none."""
    if name in sources:
        return sources[name]
    if name in NOT_FETCHABLE:
        raise DataError(NOT_FETCHABLE[name])
    raise UnknownName("dataset to fetch", name, sources)


def _ignore(name: str, done_bytes: int, total_bytes: int | None, /) -> None:
    """Take progress reports that nobody asked for."""


@dataclass(frozen=True)
class _Errand:
    """What the files of one call of :func:`fetch` have in common."""

    root: Path
    mirror: str | None
    patience: Patience
    on_progress: Progress

    def bring(self, file: RemoteFile, folder: str) -> Path:
        """Return where a file (or the folder it unpacks to) is, after downloading it if needed."""
        if file.unpack_to is None:
            return self._download(file, self.root / folder / file.name)
        unpacked = self.root / file.unpack_to
        if not unpacked.is_dir():
            _unpack(self._download(file, self.root / file.name), unpacked)
        missing = [name for name in file.holds if not (unpacked / name).is_file()]
        if missing:
            raise DownloadError(f"{unpacked} is there but lacks {', '.join(missing)}; remove it and run this again.")
        return unpacked

    def _download(self, file: RemoteFile, target: Path) -> Path:
        if not (target.is_file() and md5_of(target) == file.md5):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                Transfer(self._address(file), file, target, self.patience, self.on_progress).run()
            except DownloadError:
                with suppress(OSError):  # a folder in which nothing arrived would look like the dataset
                    target.parent.rmdir()
                raise
        return target

    def _address(self, file: RemoteFile) -> str:
        url = file.url if self.mirror is None else f"{self.mirror.rstrip('/')}/{file.name}"
        if not web_scheme(url):
            raise DownloadError(
                f"Cannot download {one_line(url)}: not a complete http:// or https:// address. {ELSEWHERE}"
            )
        return quote(url, safe=string.punctuation)


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that creates `folder`, all or nothing, and remove it unless the disk was at fault."""
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            _extract(archive, Path(scratch))
            made = Path(scratch, folder.name)
            if made.is_symlink() or not made.is_dir():
                raise DownloadError(f"{archive.name} does not hold the folder {folder.name}. {ELSEWHERE}")
            made.replace(folder)
    except DownloadError:
        archive.unlink()
        raise
    archive.unlink()


def _extract(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DownloadError(f"{archive.name} cannot be unpacked ({cause_of(error)}). {ELSEWHERE}") from error
