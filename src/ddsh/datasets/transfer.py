"""One file from an address to its place: resumed when cut, checked, moved there whole."""

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
from pathlib import Path
from typing import IO, Protocol
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from ddsh.datasets.sources import RemoteFile
from ddsh.errors import DownloadError, InvalidInput

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
ELSEWHERE = "Give another address with --mirror."


class Progress(Protocol):
    """Called whenever bytes have arrived, and once when a file is complete."""

    def __call__(self, name: str, done_bytes: int, total_bytes: int | None, /) -> None:
        """Take the file's name, how much of it is there, and its size if known."""


@dataclass(frozen=True)
class Patience:
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


class _PassingError(Exception):
    """An attempt failed in a way that the next one may not."""


@dataclass(frozen=True)
class Transfer:
    """One file on its way from an address to its place."""

    url: str
    file: RemoteFile
    target: Path
    patience: Patience
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
        raise self._error(f"wrong content twice, MD5 {found}, expected {self.file.md5}", ELSEWHERE)

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
                return md5_of(self.part)
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
        raise self._error(f"more than {_MAX_REDIRECTS} redirects", ELSEWHERE)

    def _ask(self, url: str, offset: int) -> HTTPResponse:
        headers = {"User-Agent": "ddsh"} | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            response = _opener().open(Request(url, headers=headers), timeout=self.patience.timeout)  # noqa: S310
        except (OSError, HTTPException, ValueError) as error:
            if _is_final(error):
                raise self._error(cause_of(error), ELSEWHERE) from error
            raise _PassingError(cause_of(error)) from error
        assert isinstance(response, HTTPResponse)
        return response

    def _redirected(self, url: str, location: str) -> str:
        """Return where a redirect leads; only the web is followed, and never from https down to http."""
        there = quote(location, safe=string.punctuation, encoding="iso-8859-1")
        with suppress(ValueError):
            there = urljoin(url, there)
        if web_scheme(there) not in ("https", web_scheme(url)):
            raise self._error(f"it redirects to {there}, which is not safe to follow", ELSEWHERE)
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
        raise self._error(cause, ELSEWHERE)

    def _agreed(self, announced: int | None) -> int | None:
        """Return the size of the whole file if known; a server that announces a wrong one is refused."""
        expected = self.file.n_bytes
        if announced is None or announced == expected:
            return expected
        if expected is not None or announced > _MAX_BYTES:
            wanted = f"at most {_MAX_BYTES:,}" if expected is None else f"{expected:,}"
            raise self._error(f"the server announces {announced:,} bytes, expected {wanted}", ELSEWHERE)
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
                raise self._error(f"the server sends more than {limit:,} bytes", ELSEWHERE)
            file.write(chunk)
            self.on_progress(self.file.name, done, total)
        return done

    def _error(self, cause: str, advice: str) -> DownloadError:
        return DownloadError(f"Cannot download {self.url}: {one_line(cause)}. {advice}")


def _opener() -> OpenerDirector:
    """Return an opener that knows http, https and the user's proxies, and leaves every status to us."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    return opener


def web_scheme(url: str) -> str:
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
        raise _PassingError(cause_of(error)) from error


def cause_of(error: BaseException) -> str:
    """Say in a few words what went wrong."""
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        return cause_of(error.reason)
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    strerror = error.strerror if isinstance(error, OSError) else None
    return one_line(str(strerror or error) or type(error).__name__)


def one_line(text: str) -> str:
    """Make text from outside fit to be shown: printable, on one line, not too long."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 2 * _MAX_CAUSE_LENGTH])
    return " ".join(printable.split())[:_MAX_CAUSE_LENGTH].rstrip(".")


def md5_of(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
