"""Resumable download of one file over HTTP, with retries and checksum."""

import hashlib
import os
import re
import ssl
import string
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from ddsh.errors import DownloadError, InvalidInput

__all__ = [
    "TRY_MIRROR",
    "DownloadProgress",
    "RemoteFile",
    "RetryPolicy",
    "Transfer",
    "cause_of",
    "md5_of",
    "one_line",
    "web_scheme",
]

TRY_MIRROR = "Give another address with --mirror."

_CHUNK_BYTES = 1 << 18
_MAX_BYTES = 1 << 30
"""Limit for files whose size is not known in advance."""
_MIN_BYTES_PER_SECOND = 1024
"""A slower connection counts as stalled."""
_MAX_CONNECTIONS_PER_ATTEMPT = 100
"""Limits the attempts that bring some bytes, which do not count as failures."""
_MAX_DOUBLINGS = 5
_DAY = 86_400
_MAX_REDIRECTS = 10
_MAX_CAUSE_LENGTH = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEMPORARY = frozenset({408, 425, 429})
_RANGE_NOT_SATISFIABLE = 416
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_RESUME = "Run it again to resume, or give another address with --mirror."


class DownloadProgress(Protocol):
    """Callback for the bytes of a file, called as they arrive and once at the end."""

    def __call__(self, name: str, done_bytes: int, total_bytes: int | None, /) -> None:
        """Take the name of the file, its bytes so far, and its size if known."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at an official address.

    Parameters
    ----------
    url : str
        Its http or https address.
    md5 : str
        Its published checksum, in lower-case hexadecimal.
    n_bytes : int, optional
        Its size, if known.
    unpack_to : str, optional
        Folder that the archive contains; None for a plain file.
    holds : tuple of str
        Files that the folder must contain.
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
class RetryPolicy:
    """Timeout, number of attempts, and pauses between them.

    Parameters
    ----------
    timeout : float
        Seconds to wait for a server that does not respond.
    attempts : int
        Number of consecutive attempts that may bring no new bytes.
    pause : float
        Seconds to wait after the first failure; doubled after every further one.
    """

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


class _TemporaryError(Exception):
    """An attempt failed, but another one may succeed."""


@dataclass(frozen=True)
class Transfer:
    """Download of one file to its target.

    Parameters
    ----------
    url : str
        Address to download from.
    file : RemoteFile
        Expected size and checksum.
    target : path
        Where the file goes.
    retry : RetryPolicy
        Timeout and number of attempts.
    on_progress : DownloadProgress or None
        Called as bytes arrive.
    """

    url: str
    file: RemoteFile
    target: Path
    retry: RetryPolicy
    on_progress: DownloadProgress | None

    def run(self) -> None:
        """Download the file; after a wrong checksum it is downloaded once more."""
        for _ in range(2):
            found = self._download()
            if found == self.file.md5:
                size = self._size()
                with self._part.open("rb+") as file:
                    os.fsync(file.fileno())
                self._part.replace(self.target)
                self._report(size, size)
                return
            self._part.unlink()
        raise self._error(f"wrong content twice, MD5 {found}, expected {self.file.md5}", TRY_MIRROR)

    @property
    def _part(self) -> Path:
        """The file that collects the bytes until they are complete."""
        return self.target.with_name(f"{self.target.name}.part")

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _report(self, done: int, total: int | None) -> None:
        if self.on_progress:
            self.on_progress(self.file.name, done, total)

    def _error(self, cause: str, advice: str) -> DownloadError:
        return DownloadError(f"Cannot download {self.url}: {one_line(cause)}. {advice}")

    def _download(self) -> str:
        """Connect until the part file is complete, and return its checksum."""
        failures, furthest = 0, self._size()
        for _ in range(self.retry.attempts * _MAX_CONNECTIONS_PER_ATTEMPT):
            try:
                offset = self._size()
                if not (offset and self.file.n_bytes is not None and offset >= self.file.n_bytes):
                    with self._request(offset) as response:
                        if not (offset and response.status == _RANGE_NOT_SATISFIABLE):
                            self._receive(response, *self._check_response(response, offset))
                return md5_of(self._part)
            except _TemporaryError as error:
                cause = str(error)
            failures = 0 if self._size() > furthest else failures + 1
            furthest = max(furthest, self._size())
            if failures >= self.retry.attempts:
                break
            self.retry.wait(failures)
        raise self._error(cause, _RESUME)

    def _request(self, offset: int) -> HTTPResponse:
        """Request the bytes from `offset` on and follow redirects, but never from https to http."""
        headers = {"User-Agent": "ddsh"} | ({"Range": f"bytes={offset}-"} if offset else {})
        opener = OpenerDirector()  # without handlers for errors and redirects: every status is returned
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            opener.add_handler(handler)
        url = self.url
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                response = opener.open(Request(url, headers=headers), timeout=self.retry.timeout)  # noqa: S310
            except (OSError, HTTPException, ValueError) as error:
                reason = error.reason if isinstance(error, URLError) else error
                if isinstance(reason, ValueError | InvalidURL | ssl.SSLCertVerificationError):
                    raise self._error(cause_of(error), TRY_MIRROR) from error
                raise _TemporaryError(cause_of(error)) from error
            assert isinstance(response, HTTPResponse)
            if response.status not in _REDIRECTS:
                return response
            response.close()
            location = quote(response.headers.get("Location", ""), safe=string.punctuation, encoding="iso-8859-1")
            with suppress(ValueError):
                location = urljoin(url, location)
            if web_scheme(location) not in ("https", web_scheme(url)):
                raise self._error(f"it redirects to {location}, which is not safe to follow", TRY_MIRROR)
            url = location
        raise self._error(f"more than {_MAX_REDIRECTS} redirects", TRY_MIRROR)

    def _check_response(self, response: HTTPResponse, offset: int) -> tuple[int, int | None]:
        """Return the first byte of the response, and the size of the whole file if known."""
        if response.status not in (200, 206):
            cause = f"HTTP {response.status} {response.reason}"
            if response.status >= 500 or response.status in _TEMPORARY:
                raise _TemporaryError(cause)
            raise self._error(cause, TRY_MIRROR)
        start, announced = 0, response.length
        if response.status == 206:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if match is None or int(match[1]) != offset:
                self._part.unlink(missing_ok=True)
                raise _TemporaryError("the server sent another part of the file than asked for")
            start, announced = offset, None if match[2] == "*" else int(match[2])
        expected = self.file.n_bytes
        if announced is None or announced == expected:
            return start, expected
        if expected is not None or announced > _MAX_BYTES:
            wanted = f"at most {_MAX_BYTES:,}" if expected is None else f"{expected:,}"
            raise self._error(f"the server announces {announced:,} bytes, expected {wanted}", TRY_MIRROR)
        return start, announced

    def _receive(self, response: HTTPResponse, start: int, total: int | None) -> None:
        """Append a response to the part file; a response that is too long removes the file."""
        done, limit = start, _MAX_BYTES if total is None else total
        with self._part.open("ab" if start else "wb") as file:
            for chunk in _chunks(response, self.retry.timeout):
                done += len(chunk)
                if done > limit:
                    self._part.unlink()
                    raise self._error(f"the server sends more than {limit:,} bytes", TRY_MIRROR)
                file.write(chunk)
                self._report(done, total)
        if total is not None and done < total:
            raise _TemporaryError(f"the connection ended after {done:,} of {total:,} bytes")


def _chunks(response: HTTPResponse, timeout: float) -> Iterator[bytes]:
    """Yield the body as it arrives; a connection that is too slow is an error."""
    since, received = time.monotonic(), 0
    try:
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk
            received += len(chunk)
            elapsed = time.monotonic() - since
            if elapsed >= timeout:
                if received < _MIN_BYTES_PER_SECOND * elapsed:
                    raise _TemporaryError(f"the server sends less than {_MIN_BYTES_PER_SECOND:,} bytes per second")
                since, received = time.monotonic(), 0
    except (OSError, HTTPException) as error:
        raise _TemporaryError(cause_of(error)) from error


def web_scheme(url: str) -> str:
    """Return ``http`` or ``https``, or the empty string for any other, incomplete or malformed address."""
    try:
        parts = urlsplit(url)
        complete = parts.hostname and parts.port != 0
    except ValueError:
        return ""
    return parts.scheme if complete and parts.scheme in ("http", "https") else ""


def cause_of(error: BaseException) -> str:
    """Describe an error in a few words."""
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        return cause_of(error.reason)
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    strerror = error.strerror if isinstance(error, OSError) else None
    return one_line(str(strerror or error) or type(error).__name__)


def one_line(text: str) -> str:
    """Make foreign text printable, short, and one line."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 2 * _MAX_CAUSE_LENGTH])
    return " ".join(printable.split())[:_MAX_CAUSE_LENGTH].rstrip(".")


def md5_of(path: Path) -> str:
    """Return the MD5 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
