"""Download datasets from their official addresses."""

import gzip
import os
import string
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import quote

from ddsh.datasets._transfer import (
    TRY_MIRROR,
    DownloadProgress,
    RemoteFile,
    RetryPolicy,
    Transfer,
    cause_of,
    md5_of,
    one_line,
    web_scheme,
)
from ddsh.errors import DataError, DownloadError, UnknownName

_MIN_UNPACKED_BYTES = 1 << 28
_MAX_RATIO = 10
_BLOCK = 512  # bytes that a member without content takes
_MAX_HEADER_BYTES = 1 << 20
_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

__all__ = ["NOT_FETCHABLE", "SOURCES", "DownloadProgress", "Downloader", "RemoteFile", "RetryPolicy", "Source", "fetch"]


@dataclass(frozen=True)
class Source:
    """Official addresses of the files of a dataset.

    Parameters
    ----------
    name : str
        Name of the dataset.
    homepage : str
        Its web page.
    folder : str
        Subfolder of the root for plain files; empty for archives, which contain a folder.
    files : tuple of RemoteFile
        The files.
    """

    name: str
    homepage: str
    folder: str
    files: tuple[RemoteFile, ...]


def _cifar10(name: str, archive: str, md5: str, n_bytes: int | None, folder: str, suffix: str) -> Source:
    """Return the source of one of the three distributions of CIFAR-10."""
    home = "https://www.cs.toronto.edu/~kriz/"
    holds = (*(f"data_batch_{number}{suffix}" for number in range(1, 6)), f"test_batch{suffix}")
    return Source(name, f"{home}cifar.html", "", (RemoteFile(home + archive, md5, n_bytes, folder, holds),))


def _mnist(name: str, homepage: str, base: str, sums: tuple[tuple[str, int], ...]) -> Source:
    """Return the source of a dataset in the four files of MNIST."""
    files = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    parts = zip(files, sums, strict=True)
    return Source(name, homepage, name, tuple(RemoteFile(f"{base}{file}-ubyte.gz", *sum_) for file, sum_ in parts))


_ALL = (
    _cifar10(
        "cifar10",
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        170_052_171,
        "cifar-10-batches-bin",
        ".bin",
    ),
    _cifar10(
        "cifar10-python",
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        170_498_071,
        "cifar-10-batches-py",
        "",
    ),
    _cifar10(
        "cifar10-matlab",
        "cifar-10-matlab.tar.gz",
        "70270af85842c9e89bb428ec9976c926",
        None,
        "cifar-10-batches-mat",
        ".mat",
    ),
    Source(
        "svhn",
        "http://ufldl.stanford.edu/housenumbers/",
        "svhn",
        (
            RemoteFile(
                "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                "e26dedcc434d2e4c54c9b2d4a06d8373",
                182_040_794,
            ),
            RemoteFile(
                "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                "eb5a983be6a315427106f1b164d9cef3",
                64_275_384,
            ),
        ),
    ),
    _mnist(
        "fashion-mnist",
        "https://github.com/zalandoresearch/fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        (
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
    _mnist(
        "mnist",
        "http://yann.lecun.com/exdb/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        (
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
)

SOURCES: Mapping[str, Source] = MappingProxyType({source.name: source for source in _ALL})
"""Datasets that can be downloaded, by name."""

NOT_FETCHABLE: Mapping[str, str] = MappingProxyType(
    {
        "nuswide": "The images of nuswide cannot be downloaded from an official address any more; "
        "get them from their authors "
        "(https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html) "
        "and put the files into ImageList/, Groundtruth/AllLabels/ and Flickr/ or images/ under the root.",
    }
)
"""Datasets that cannot be downloaded, and what to do instead, by name."""


def fetch(
    name: str,
    root: str | os.PathLike[str],
    *,
    mirror: str | None = None,
    timeout: float = 30.0,
    attempts: int = 3,
    pause: float = 1.0,
    on_progress: DownloadProgress | None = None,
    sources: Mapping[str, Source] = SOURCES,
) -> list[Path]:
    """Download a dataset; files that are already complete are not downloaded again.

    An interrupted download is resumed, also by a later call: the bytes so far are kept in a ``.part`` file beside the
    target. A file gets its final name only after its checksum was verified.

    Parameters
    ----------
    name : str
        A name in `sources`.
    root : path
        Folder of the datasets; created if needed.
    mirror : str, optional
        An http or https address of a folder with the same files, used instead of the official one.
    timeout : float
        Seconds to wait for a server that does not respond.
    attempts : int
        Number of consecutive attempts that may bring no new bytes.
    pause : float
        Seconds to wait before the next attempt; doubled after every consecutive failure.
    on_progress : DownloadProgress, optional
        Called with the name of a file, its bytes so far and its size. The bytes only start again from 0 when a file
        has to be downloaded from its beginning.
    sources : mapping of str to Source
        The known datasets.

    Returns
    -------
    list of Path
        The files, or the folder of an unpacked archive.

    Raises
    ------
    UnknownName
        If `sources` has no such name.
    DataError
        If the dataset cannot be downloaded from anywhere.
    DownloadError
        If the download or writing to disk fails, or the content is wrong.
    """
    downloader = Downloader(Path(root), mirror, RetryPolicy(timeout, attempts, pause), on_progress)
    if name not in sources:
        if name in NOT_FETCHABLE:
            raise DataError(NOT_FETCHABLE[name])
        raise UnknownName("dataset to fetch", name, sources)
    source = sources[name]
    if not hasattr(tarfile, "data_filter") and any(file.unpack_to for file in source.files):
        raise DownloadError(f"This Python cannot unpack {name} safely; use Python 3.11.4 or newer.")
    try:
        return [downloader.get(file, source.folder) for file in source.files]
    except OSError as error:
        raise DownloadError(
            f"Cannot store {name} under {root}: {cause_of(error)}. "
            "Make room there or choose another --root, then run it again."
        ) from error


@dataclass(frozen=True)
class Downloader:
    """Downloads files into a root folder, and unpacks archives.

    Parameters
    ----------
    root : path
        The folder.
    mirror : str or None
        Address of a folder to use instead of the official ones.
    retry : RetryPolicy
        Timeout and number of attempts.
    on_progress : DownloadProgress, optional
        Called as bytes arrive.
    """

    root: Path
    mirror: str | None
    retry: RetryPolicy
    on_progress: DownloadProgress | None = None

    def get(self, file: RemoteFile, folder: str) -> Path:
        """Return the path of a file (or of the folder it unpacks to), downloading it if needed."""
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
        if target.is_file() and md5_of(target) == file.md5:
            return target
        url = file.url if self.mirror is None else f"{self.mirror.rstrip('/')}/{file.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if not web_scheme(url):
                raise DownloadError(
                    f"Cannot download {one_line(url)}: not a complete http:// or https:// address. {TRY_MIRROR}"
                )
            url = quote(url, safe=string.punctuation)
            Transfer(url, file, target, self.retry, self.on_progress).run()
        except DownloadError:
            with suppress(OSError):  # an empty folder would be mistaken for the dataset
                target.parent.rmdir()
            raise
        return target


class _Member(tarfile.TarInfo):
    """Member of an archive; long names and other extended headers, which are read into memory, are bounded."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header; raise if the one that follows is too long."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in _EXTENDED and member.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"it has a header of {member.size:,} bytes")
        return member


def _limited(tar: tarfile.TarFile, limit: int) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive, and raise when they get larger than a limit in all."""
    n_bytes = 0
    for member in tar:
        n_bytes += member.size + _BLOCK
        if n_bytes > limit:
            raise tarfile.TarError(f"it holds more than {limit:,} bytes")
        yield member


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that contains `folder`, completely or not at all.

    The archive is removed afterwards, unless the disk was the problem.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            try:
                with tarfile.open(archive, tarinfo=_Member) as tar:
                    limit = max(_MIN_UNPACKED_BYTES, _MAX_RATIO * archive.stat().st_size)
                    tar.extractall(scratch, _limited(tar, limit), filter="data")
            except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:  # NUL in a name
                raise DownloadError(f"{archive.name} cannot be unpacked ({cause_of(error)}). {TRY_MIRROR}") from error
            content = Path(scratch, folder.name)
            if content.is_symlink() or not content.is_dir():
                raise DownloadError(f"{archive.name} does not hold the folder {folder.name}. {TRY_MIRROR}")
            content.replace(folder)
    except DownloadError:
        archive.unlink()
        raise
    archive.unlink()
