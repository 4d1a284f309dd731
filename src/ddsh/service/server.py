"""The server: listening socket, index, uvicorn, and a graceful shutdown."""

import errno
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI

from ddsh.errors import DdshError
from ddsh.index import load_kernels
from ddsh.memory import reuse_freed_memory
from ddsh.search import ImageSearch
from ddsh.service.app import create_app
from ddsh.service.connections import limited_protocol
from ddsh.service.middleware import ACCESS_LOGGER, allowed_hosts, is_loopback
from ddsh.service.processes import further_processes, share_removed_items, stop_with_parent
from ddsh.service.removed_items import RemovedItems
from ddsh.service.settings import Settings

__all__ = ["ServerInfo", "create_server", "listen", "serve"]

_BACKLOG = 512
_MAX_LOCK_SECONDS = 5.0
_MANY_IMAGES = 20_000


@dataclass(frozen=True)
class ServerInfo:
    """Description of a server that is about to accept requests.

    Parameters
    ----------
    url : str
        Its URL.
    is_local : bool
        Whether it can be reached from this machine only.
    n_images : int
        Number of images in the index.
    n_bits : int
        Number of label bits and look bits together.
    read_only : bool
        Whether the index cannot be changed through the service.
    """

    url: str
    is_local: bool
    n_images: int
    n_bits: int
    read_only: bool


def serve(
    index: str | os.PathLike[str],
    host: str,
    port: int,
    settings: Settings,
    *,
    processes: int = 1,
    access_log: bool = False,
    on_start: Callable[[ServerInfo], None] | None = None,
    configure_process: Callable[[], None] | None = None,
) -> None:
    """Serve a search index until SIGTERM or Ctrl-C; requests in progress are completed.

    Parameters
    ----------
    index : path or str
        Folder of the index, or the address of its database.
    host : str
        Name or address to listen on.
    port : int
        Port to listen on; 0 chooses a free port.
    settings : Settings
        Limits and access token.
    processes : int
        Number of processes that answer requests; each has a copy of the index in memory, and what one of them changes
        the others see at their next search.
    access_log : bool
        Log every request.
    on_start : callable, optional
        Called when the socket listens and the index is open.
    configure_process : callable, optional
        A function of a module that is called first in every further process, such as to configure logging.
    """
    # uvicorn handles SIGTERM while it runs; before and after that, it is a normal exit.
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with listen(host, port) as listener, _open(index, settings) as search, ExitStack() as stack:
            address, actual_port = listener.getsockname()[:2]
            hosts, removed = allowed_hosts(address, settings.allowed_hosts), RemovedItems(search)
            server = create_server(create_app(search, settings, hosts, removed), settings, access_log=access_log)
            stack.callback(removed.close)
            if processes > 1:
                access = stack.enter_context(share_removed_items(removed))
                facts = listener, index, settings, hosts, access, access_log, configure_process
                stack.enter_context(further_processes(processes - 1, _serve_further, *facts))
            if on_start:
                url = f"http://[{address}]:{actual_port}" if ":" in address else f"http://{address}:{actual_port}"
                on_start(
                    ServerInfo(
                        url,
                        is_loopback(address),
                        len(search),
                        search.n_bits + search.look_bits,
                        read_only=settings.read_only,
                    )
                )
            server.run([listener])
    finally:
        signal.signal(signal.SIGTERM, previous)


def _serve_further(
    listener: socket.socket,
    index: str | os.PathLike[str],
    settings: Settings,
    hosts: frozenset[str] | None,
    access: Callable[[], Any],
    access_log: bool,
    configure: Callable[[], None] | None,
) -> None:
    """Serve in a spawned process; the first one has the socket and the removed images."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    stop_with_parent()
    reuse_freed_memory()
    if configure is not None:
        configure()
    with _open(index, settings) as search:
        create_server(create_app(search, settings, hosts, access()), settings, access_log=access_log).run([listener])


def _open(index: str | os.PathLike[str], settings: Settings) -> ImageSearch:
    """Open an index with its model and, if it is large, load the compiled kernels in the background."""
    # An answer must not be late because a writer held the lock for too long.
    search = ImageSearch.open(index, wait=min(_MAX_LOCK_SECONDS, settings.timeout / 2))
    try:
        search.load_model()  # the first upload need not wait for it
        if len(search) >= _MANY_IMAGES:
            Thread(target=load_kernels, name="ddsh-kernels", daemon=True).start()
    except BaseException:
        search.close()
        raise
    return search


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Open a listening socket.

    Parameters
    ----------
    host : str
        Name or address to listen on.
    port : int
        Port to listen on; 0 chooses a free port.

    Raises
    ------
    DdshError
        If the host is unknown, or the port is taken or not permitted.
    """
    try:
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise DdshError(f"The host {host!r} is unknown ({reason}); try 127.0.0.1.") from error
    failure: OSError | None = None
    for family, kind, protocol, _, address in candidates:
        # asyncio turns off Nagle's algorithm only for sockets that name TCP as their protocol; with it, the second
        # part of every response would wait 40 ms for the first one to be acknowledged.
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(address)
                listener.listen(_BACKLOG)
            except OSError as error:
                failure = error
                continue
            yield listener
            return
    if failure is not None and failure.errno == errno.EADDRINUSE:
        raise DdshError(f"Port {port} on {host} is already in use; choose another one with --port.") from failure
    reason = "no address" if failure is None else failure.strerror or str(failure)
    raise DdshError(f"Cannot listen on {host}, port {port} ({reason}); change --host or --port.") from failure


def create_server(app: FastAPI, settings: Settings, *, access_log: bool = False) -> uvicorn.Server:
    """Create a uvicorn server; set its ``should_exit`` to stop it.

    Parameters
    ----------
    app : FastAPI
        The application.
    settings : Settings
        Limits on connections.
    access_log : bool
        Log every request.
    """
    logging.getLogger(ACCESS_LOGGER).setLevel(logging.INFO if access_log else logging.WARNING)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=limited_protocol(settings),
            loop="asyncio",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,  # the middleware logs requests, with their ids
            server_header=False,
            timeout_graceful_shutdown=math.ceil(2 * settings.timeout),
        )
    )
