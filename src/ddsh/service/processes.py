"""Several processes that serve one index on one socket."""

import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from multiprocessing.context import SpawnProcess
from multiprocessing.managers import BaseManager
from threading import Event, Lock, Thread
from typing import Any

from ddsh.service.removed_items import RemovedItems

__all__ = ["further_processes", "share_removed_items", "stop_with_parent"]

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


class _RemovedItemsManager(BaseManager):
    """Gives other processes access to the :class:`RemovedItems` of the first one."""


@contextmanager
def share_removed_items(removed: RemovedItems) -> Iterator[Callable[[], Any]]:
    """Let other processes remove and restore images through this one, so that any of them can undo what another did.

    Yields a function that a spawned process calls to get access.
    """

    class Manager(_RemovedItemsManager):
        """The side that has the object; a class of its own, because functions are registered with classes."""

    Manager.register("removed", lambda: removed)
    key = secrets.token_bytes(32)
    server = Manager(authkey=key).get_server()
    Thread(target=server.serve_forever, name="ddsh-removed-items", daemon=True).start()
    yield _Access(server.address, key)


class _Access:
    """Connects to the process that remembers removed images."""

    def __init__(self, address: Any, key: bytes) -> None:  # noqa: ANN401 -- an address of multiprocessing
        self._address, self._key = address, key

    def __call__(self) -> Any:  # noqa: ANN401 -- a proxy with the methods of RemovedItems
        """Return a proxy of the :class:`RemovedItems`."""
        _RemovedItemsManager.register("removed")
        manager = _RemovedItemsManager(self._address, authkey=self._key)
        manager.connect()
        return manager.removed()  # type: ignore[attr-defined]


@contextmanager
def further_processes(count: int, target: Callable[..., None], *args: object) -> Iterator[None]:
    """Run a function in further processes during the block; a process that ends is replaced.

    Parameters
    ----------
    count : int
        Number of processes.
    target : callable
        A function of a module; it returns after SIGTERM.
    *args
        Its arguments.
    """
    spawn = get_context("spawn")  # the threads of this process may hold locks, which a fork would copy
    running: dict[int, SpawnProcess] = {}
    stopping, lock = Event(), Lock()

    def keep_running(place: int) -> None:
        while True:
            with lock:
                if stopping.is_set():
                    return
                running[place] = process = spawn.Process(target=target, args=args, name=f"ddsh-service-{place + 2}")
                process.start()
            process.join()
            if not stopping.is_set():
                _LOG.error("A process of the service ended with code %s; it is started again.", process.exitcode)
                time.sleep(_PAUSE_SECONDS)

    threads = [Thread(target=keep_running, args=(place,), daemon=True) for place in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        with lock:
            stopping.set()
            for process in running.values():
                process.terminate()
        for thread in threads:
            thread.join()


def stop_with_parent() -> None:
    """Send SIGTERM to this process when the process that started it has ended, whatever ended it."""
    parent = parent_process()
    assert parent is not None, "called in a spawned process"

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="ddsh-parent", daemon=True).start()
