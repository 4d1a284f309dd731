"""Limits on concurrent work: threads, queue length and time."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from ddsh.service.error_handlers import retry_later

__all__ = ["BoundedPool", "Bytes"]

P = ParamSpec("P")
T = TypeVar("T")


class BoundedPool:
    """Thread pool with a bounded queue and a timeout, used from one event loop.

    A request that finds the queue full is refused with status 503. A call that times out cannot be
    interrupted: it keeps its thread until it returns, so the number of running calls stays bounded.

    Parameters
    ----------
    n_threads : int
        Number of calls that run at the same time.
    n_waiting : int
        Number of further requests that may wait.
    timeout : float
        Seconds to wait for the result of one call.
    """

    def __init__(self, n_threads: int, n_waiting: int, timeout: float) -> None:
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix="ddsh-service")
        self._n_slots = n_threads + n_waiting
        self._n_used = 0
        self._timeout = timeout

    @property
    def n_requests(self) -> int:
        """Number of requests that are running or waiting."""
        return self._n_used

    def require_slot(self) -> None:
        """Refuse the request with status 503 if there is no free slot."""
        if self._n_used >= self._n_slots:
            raise retry_later("Too many requests are waiting; try again in a moment.")

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Reserve a slot, or refuse the request with status 503."""
        self.require_slot()
        self._n_used += 1
        try:
            yield
        finally:
            self._n_used -= 1

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in a thread and return its result; the caller holds a :meth:`slot`."""
        context = copy_context()  # log lines of the thread have the id of the request
        call = partial(context.run, function, *args, **kwargs)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except TimeoutError:
            raise retry_later(f"The request took longer than {self._timeout:g} seconds; try again later.") from None

    async def run_in_slot(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Reserve a slot, call `function` in a thread and return its result."""
        with self.slot():
            return await self.run(function, *args, **kwargs)

    def close(self) -> None:
        """Cancel waiting calls; running calls finish in the background."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Bytes:
    """Bound on the bytes of request bodies in memory, used from one event loop.

    A body counts as it arrives, so that clients which send slowly, or nothing, leave room for others.

    Parameters
    ----------
    limit : int
        Number of bytes.
    """

    def __init__(self, limit: int) -> None:
        self._n_left = limit

    @contextmanager
    def reserved(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one request until the block ends.

        Yields
        ------
        callable
            Takes a number of bytes, and refuses the request with status 503 if there are too many.
        """
        n_held = 0

        def hold(n_bytes: int) -> None:
            """Count further bytes."""
            nonlocal n_held
            if n_bytes > self._n_left:
                raise retry_later("Too many uploads are arriving; try again in a moment.")
            self._n_left -= n_bytes
            n_held += n_bytes

        try:
            yield hold
        finally:
            self._n_left += n_held
