"""The server: an address, an index, and a process that stops when it is told to, but not before requests have ended."""

import asyncio
import errno
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ddsh.errors import DdshError
from ddsh.search import ImageSearch
from ddsh.search.engine import WAIT_SECONDS
from ddsh.service.app import create_app
from ddsh.service.security import is_loopback, names_of
from ddsh.service.settings import Settings

_BACKLOG = 512


@dataclass(frozen=True)
class Started:
    """A service that is about to answer.

    Parameters
    ----------
    url : str
        Its address.
    is_local : bool
        Whether only this machine can reach it.
    n_images, n_bits : int
        What it searches in.
    read_only : bool
        Whether nobody may change the index.
    """

    url: str
    is_local: bool
    n_images: int
    n_bits: int
    read_only: bool


def serve(
    folder: str | os.PathLike[str],
    host: str,
    port: int,
    settings: Settings,
    *,
    access_log: bool = False,
    on_start: Callable[[Started], None] | None = None,
) -> None:
    """Serve a search index until the process is told to stop; requests under way are answered first.

    Parameters
    ----------
    folder : path
        Folder of the index.
    host : str
        Name or address to listen on.
    port : int
        Port; 0 takes a free one.
    settings : Settings
        The limits, and who may change the index.
    access_log : bool
        Log every request.
    on_start : callable, optional
        Told when requests can come.
    """
    with _ends_when_told(), listening(host, port) as listener:
        address: str = listener.getsockname()[0]
        hosts = names_of(address, settings.allow_hosts)
        with ImageSearch.open(folder, wait=min(WAIT_SECONDS, settings.timeout / 2)) as search:
            server = make_server(create_app(search, settings, hosts), settings, access_log=access_log)
            if on_start:
                on_start(Started(_url(listener), is_loopback(address), len(search), search.n_bits, settings.read_only))
            server.run([listener])


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens, or say in one line why there is none."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not a name"
        raise DdshError(f"The host {host!r} is not known ({reason}); try 127.0.0.1.") from error
    problem: OSError | None = None
    for family, *_, address in places:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(address)
                listener.listen(_BACKLOG)
            except OSError as error:
                problem = error
                continue
            yield listener
            return
    raise DdshError(_why_not(host, port, problem)) from problem


def make_server(app: FastAPI, settings: Settings, *, access_log: bool = False) -> uvicorn.Server:
    """Return a server for the app; ``should_exit`` stops it."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_impatient(settings.timeout),
            loop="asyncio",
            ws="none",
            log_config=None,
            log_level="info" if access_log else "warning",
            access_log=access_log,
            server_header=False,
            timeout_graceful_shutdown=math.ceil(2 * settings.timeout),
        )
    )


def _impatient(seconds: float) -> type[H11Protocol]:
    """Return a protocol that hangs up where a request's headers do not arrive in time."""

    class Impatient(H11Protocol):
        """Looks from time to time whether the headers have come."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin to watch."""
            super().connection_made(transport)
            self._watch(None)

        def _watch(self, before: object) -> None:
            if self.transport.is_closing():
                return
            if before is not None and before is self._waits_for():
                self.transport.close()
            else:
                self.loop.call_later(seconds, self._watch, self._waits_for())

        def _waits_for(self) -> object:
            """Return what has happened so far, if the next thing to happen is the arrival of headers."""
            return (self.cycle or self) if self.conn.their_state is h11.IDLE else None

    return Impatient


@contextmanager
def _ends_when_told() -> Iterator[None]:
    """Make SIGTERM an ordinary end, before and after the server, which handles it by itself while it runs."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(0)


def _url(listener: socket.socket) -> str:
    address, port = listener.getsockname()[:2]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _why_not(host: str, port: int, error: OSError | None) -> str:
    if error is not None and error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken; choose another one with --port."
    reason = (error.strerror or str(error)) if error is not None else "no address"
    return f"Cannot listen on {host}, port {port} ({reason}); choose others with --host and --port."
