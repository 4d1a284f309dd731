"""Download datasets from their official addresses: resumed when cut, checked, moved into place whole."""

import gzip
import hashlib
import os
import re
import ssl
import string
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import IO, Protocol
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from ddsh.errors import DataError, DownloadError, InvalidInput, UnknownName

_CHUNK_BYTES = 1 << 18
_MAX_BYTES = 1 << 30
"""Where the size of a file is not known in advance, more bytes than this are refused."""
_MIN_BYTES_PER_SECOND = 1024
"""A server slower than this is treated as one that stalls."""
_MAX_CONNECTIONS_PER_ATTEMPT = 100
"""Attempts that bring bytes are not counted as failures; this bounds them all the same."""
_MAX_DOUBLINGS = 5
_DAY = 86_400
_MAX_REDIRECTS = 10
_MAX_CAUSE_LENGTH = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({408, 425, 429})
_NOTHING_BEYOND = 416
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_RESUME = "Run it again to resume, or give another address with --mirror."
_ELSEWHERE = "Give another address with --mirror."


@dataclass(frozen=True)
class RemoteFile:
    """A file at an official address.

    Parameters
    ----------
    url : str
        Its http or https address.
    md5 : str
        The checksum its makers (or those who mirror it) publish, in lower-case hexadecimal.
    n_bytes : int, optional
        Its size, if known.
    unpack_to : str, optional
        The folder that unpacking the archive creates; None for a plain file.
    holds : tuple of str
        The files in it that matter.
    """

    url: str
    md5: str
    n_bytes: int | None = None
    unpack_to: str | None = None
    holds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last component of the address."""
        return PurePosixPath(urlsplit(self.url).path).name


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from.

    Parameters
    ----------
    name : str
        The name to fetch it by.
    homepage : str
        The page of its makers.
    folder : str
        The sub-folder of the root for plain files; empty for archives, which bring their own.
    files : tuple of RemoteFile
        The files.
    """

    name: str
    homepage: str
    folder: str
    files: tuple[RemoteFile, ...]


class Progress(Protocol):
    """Called whenever bytes have arrived, and once when a file is complete."""

    def __call__(self, name: str, done_bytes: int, total_bytes: int | None, /) -> None:
        """Take the file's name, how much of it is there, and its size if known."""


def _cifar10(name: str, archive: str, md5: str, n_bytes: int | None, folder: str, suffix: str) -> Source:
    """Describe one of the three editions of CIFAR-10."""
    home = "https://www.cs.toronto.edu/~kriz/"
    holds = (*(f"data_batch_{number}{suffix}" for number in range(1, 6)), f"test_batch{suffix}")
    return Source(name, f"{home}cifar.html", "", (RemoteFile(home + archive, md5, n_bytes, folder, holds),))


def _four_parts(name: str, homepage: str, base: str, sums: tuple[tuple[str, int], ...]) -> Source:
    """Describe a set in the four files of MNIST."""
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
    _four_parts(
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
    _four_parts(
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
"""The datasets that can be fetched, by name."""

_NOT_FETCHABLE = MappingProxyType(
    {
        "nuswide": "The images of nuswide cannot be downloaded from an official address any more; "
        "get them from the makers "
        "(https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html) "
        "and put the files into ImageList/, Groundtruth/AllLabels/ and Flickr/ or images/ under the root.",
    }
)


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
    errand = _Errand(Path(root), mirror, _Patience(timeout, attempts, pause), on_progress or _ignore)
    source = _find(name, sources)
    if not hasattr(tarfile, "data_filter") and any(file.unpack_to for file in source.files):
        raise DownloadError(f"This Python cannot unpack {name} safely; use Python 3.11.4 or newer.")
    try:
        return [errand.bring(file, source.folder) for file in source.files]
    except OSError as error:
        raise DownloadError(
            f"Cannot store {name} under {root}: {_cause(error)}. "
            "Make room there or choose another --root, then run it again."
        ) from error


def _find(name: str, sources: Mapping[str, Source]) -> Source:
    """Look a source up, or say why there is none."""
    if name in sources:
        return sources[name]
    if name in _NOT_FETCHABLE:
        raise DataError(_NOT_FETCHABLE[name])
    raise UnknownName("dataset to fetch", name, sources)


def _ignore(name: str, done_bytes: int, total_bytes: int | None, /) -> None:
    """Take progress reports that nobody asked for."""


@dataclass(frozen=True)
class _Patience:
    """How long to wait and how often to try again."""

    timeout: float
    attempts: int
    pause: float

    def __post_init__(self) -> None:
        if not 0 < self.timeout <= _DAY:
            raise InvalidInput(f"timeout must be above 0 and at most {_DAY} seconds, got {self.timeout}.")
        if self.attempts < 1:
            raise InvalidInput(f"attempts must be at least 1, got {self.attempts}.")
        if not 0 <= self.pause <= _DAY:
            raise InvalidInput(f"pause must be from 0 to {_DAY} seconds, got {self.pause}.")

    def wait(self, failures: int) -> None:
        """Sleep before the next attempt."""
        time.sleep(self.pause * 2 ** min(failures, _MAX_DOUBLINGS))


@dataclass(frozen=True)
class _Errand:
    """What the files of one call of :func:`fetch` have in common."""

    root: Path
    mirror: str | None
    patience: _Patience
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
        if not (target.is_file() and _md5(target) == file.md5):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                _Transfer(self._address(file), file, target, self.patience, self.on_progress).run()
            except DownloadError:
                with suppress(OSError):  # a folder in which nothing arrived would look like the dataset
                    target.parent.rmdir()
                raise
        return target

    def _address(self, file: RemoteFile) -> str:
        url = file.url if self.mirror is None else f"{self.mirror.rstrip('/')}/{file.name}"
        if not _web_scheme(url):
            raise DownloadError(
                f"Cannot download {_one_line(url)}: not a complete http:// or https:// address. {_ELSEWHERE}"
            )
        return quote(url, safe=string.punctuation)


class _PassingError(Exception):
    """An attempt failed in a way that the next one may not."""


@dataclass(frozen=True)
class _Transfer:
    """One file on its way from an address to its place."""

    url: str
    file: RemoteFile
    target: Path
    patience: _Patience
    on_progress: Progress

    @property
    def part(self) -> Path:
        """Where the bytes wait until they are complete."""
        return self.target.with_name(f"{self.target.name}.part")

    def run(self) -> None:
        """Bring the file to its place; content with a wrong checksum is given one more chance."""
        for _ in range(2):
            found = self._arrives()
            if found == self.file.md5:
                return self._settle()
            self.part.unlink()
        raise self._error(f"wrong content twice, MD5 {found}, expected {self.file.md5}", _ELSEWHERE)

    def _settle(self) -> None:
        """Give the complete file its final name, after its bytes have reached the disk."""
        size = self._size()
        with self.part.open("rb+") as file:
            os.fsync(file.fileno())
        self.part.replace(self.target)
        self.on_progress(self.file.name, size, size)

    def _arrives(self) -> str:
        """Receive until the part file is complete; return its checksum."""
        failures, furthest = 0, self._size()
        for _ in range(self.patience.attempts * _MAX_CONNECTIONS_PER_ATTEMPT):
            try:
                self._receive()
                return _md5(self.part)
            except _PassingError as error:
                cause = str(error)
            failures = 0 if self._size() > furthest else failures + 1
            furthest = max(furthest, self._size())
            if failures >= self.patience.attempts:
                break
            self.patience.wait(failures)
        raise self._error(cause, _RESUME)

    def _receive(self) -> None:
        """Receive what is missing over one connection; whether it is the right content, the checksum tells."""
        offset = self._size()
        if offset and self.file.n_bytes is not None and offset >= self.file.n_bytes:
            return
        with self._answer(offset) as response:
            if offset and response.status == _NOTHING_BEYOND:
                return
            start, total = self._plan(response, offset)
            self._store(response, start, total)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _answer(self, offset: int) -> HTTPResponse:
        """Ask for the bytes from `offset` on, through redirects."""
        url = self.url
        for _ in range(_MAX_REDIRECTS + 1):
            response = self._ask(url, offset)
            if response.status not in _REDIRECTS:
                return response
            response.close()
            url = self._redirected(url, response.headers.get("Location", ""))
        raise self._error(f"more than {_MAX_REDIRECTS} redirects", _ELSEWHERE)

    def _ask(self, url: str, offset: int) -> HTTPResponse:
        headers = {"User-Agent": "ddsh"} | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            response = _opener().open(Request(url, headers=headers), timeout=self.patience.timeout)  # noqa: S310
        except (OSError, HTTPException, ValueError) as error:
            if _is_final(error):
                raise self._error(_cause(error), _ELSEWHERE) from error
            raise _PassingError(_cause(error)) from error
        assert isinstance(response, HTTPResponse)
        return response

    def _redirected(self, url: str, location: str) -> str:
        """Return where a redirect leads; only the web is followed, and never from https down to http."""
        there = quote(location, safe=string.punctuation, encoding="iso-8859-1")
        with suppress(ValueError):
            there = urljoin(url, there)
        if _web_scheme(there) not in ("https", _web_scheme(url)):
            raise self._error(f"it redirects to {there}, which is not safe to follow", _ELSEWHERE)
        return there

    def _plan(self, response: HTTPResponse, offset: int) -> tuple[int, int | None]:
        """Return the byte the answer starts at, and the size of the whole file if known."""
        if response.status == 200:
            return 0, self._agreed(response.length)
        if response.status == 206:
            start, total = _range(response)
            if start == offset:
                return start, self._agreed(total)
            self.part.unlink(missing_ok=True)
            raise _PassingError("the server sent another part of the file than asked for")
        cause = f"HTTP {response.status} {response.reason}"
        if response.status >= 500 or response.status in _PASSING:
            raise _PassingError(cause)
        raise self._error(cause, _ELSEWHERE)

    def _agreed(self, announced: int | None) -> int | None:
        """Return the size of the whole file if known; a server that announces a wrong one is refused."""
        expected = self.file.n_bytes
        if announced is None or announced == expected:
            return expected
        if expected is not None or announced > _MAX_BYTES:
            wanted = f"at most {_MAX_BYTES:,}" if expected is None else f"{expected:,}"
            raise self._error(f"the server announces {announced:,} bytes, expected {wanted}", _ELSEWHERE)
        return announced

    def _store(self, response: HTTPResponse, start: int, total: int | None) -> None:
        """Append an answer to the part file; one that brings too much loses it."""
        try:
            with self.part.open("ab" if start else "wb") as file:
                done = self._copy(response, file, start, total)
        except DownloadError:
            self.part.unlink()
            raise
        if total is not None and done < total:
            raise _PassingError(f"the connection ended after {done:,} of {total:,} bytes")

    def _copy(self, response: HTTPResponse, file: IO[bytes], start: int, total: int | None) -> int:
        done, limit = start, _MAX_BYTES if total is None else total
        for chunk in _chunks(response, self.patience.timeout):
            done += len(chunk)
            if done > limit:
                raise self._error(f"the server sends more than {limit:,} bytes", _ELSEWHERE)
            file.write(chunk)
            self.on_progress(self.file.name, done, total)
        return done

    def _error(self, cause: str, advice: str) -> DownloadError:
        return DownloadError(f"Cannot download {self.url}: {_one_line(cause)}. {advice}")


def _opener() -> OpenerDirector:
    """Return an opener that knows http, https and the user's proxies, and leaves every status to us."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    return opener


def _web_scheme(url: str) -> str:
    """Return ``http`` or ``https``; the empty string for any other, incomplete or malformed address."""
    try:
        parts = urlsplit(url)
        complete = parts.hostname and parts.port != 0
    except ValueError:
        return ""
    return parts.scheme if complete and parts.scheme in ("http", "https") else ""


def _is_final(error: Exception) -> bool:
    """Tell whether asking again is in vain: the address is unusable or the server is not who it claims."""
    reason = error.reason if isinstance(error, URLError) else error
    return isinstance(reason, ValueError | InvalidURL | ssl.SSLCertVerificationError)


def _range(response: HTTPResponse) -> tuple[int | None, int | None]:
    """Return the first byte and the size of the whole file from a partial answer."""
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is None:
        return None, None
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _chunks(response: HTTPResponse, timeout: float) -> Iterator[bytes]:
    """Yield the body as it arrives, as long as it does so at a useful speed."""
    since, received = time.monotonic(), 0
    try:
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk
            received += len(chunk)
            elapsed = time.monotonic() - since
            if elapsed >= timeout:
                if received < _MIN_BYTES_PER_SECOND * elapsed:
                    raise _PassingError(f"the server sends less than {_MIN_BYTES_PER_SECOND:,} bytes per second")
                since, received = time.monotonic(), 0
    except (OSError, HTTPException) as error:
        raise _PassingError(_cause(error)) from error


def _cause(error: BaseException) -> str:
    """Say in a few words what went wrong."""
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        return _cause(error.reason)
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    strerror = error.strerror if isinstance(error, OSError) else None
    return _one_line(str(strerror or error) or type(error).__name__)


def _one_line(text: str) -> str:
    """Make text from outside fit to be shown: printable, on one line, not too long."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 2 * _MAX_CAUSE_LENGTH])
    return " ".join(printable.split())[:_MAX_CAUSE_LENGTH].rstrip(".")


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that creates `folder`, all or nothing, and remove it unless the disk was at fault."""
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            _extract(archive, Path(scratch))
            made = Path(scratch, folder.name)
            if made.is_symlink() or not made.is_dir():
                raise DownloadError(f"{archive.name} does not hold the folder {folder.name}. {_ELSEWHERE}")
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
        raise DownloadError(f"{archive.name} cannot be unpacked ({_cause(error)}). {_ELSEWHERE}") from error
