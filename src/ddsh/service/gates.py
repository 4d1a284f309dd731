"""Gates: blocking work in a few threads, a bounded number of requests that wait for it, and a limit of time."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from ddsh.service.problems import Problem

T = TypeVar("T")


class Gate:
    """Lets a few requests work at the same time and some more wait; the others are told to come back later.

    Used from one event loop. Work that takes too long cannot be stopped: it keeps its thread until it ends, so that no
    more of it runs than is allowed, whoever has given up waiting.

    Parameters
    ----------
    running : int
        How many work at the same time.
    waiting : int
        How many more may be inside.
    seconds : float
        How long to wait for the work of one.
    """

    def __init__(self, running: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(running, thread_name_prefix="ddsh-service")
        self._n_places = running + waiting
        self._n_taken = 0
        self._seconds = seconds

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place; without a free one, the request is refused."""
        if self._n_taken >= self._n_places:
            raise Problem.later("Too many requests are waiting; try again in a moment.")
        self._n_taken += 1
        try:
            yield
        finally:
            self._n_taken -= 1

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; call it from within a place."""
        job = self._pool.submit(work)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), self._seconds)
        except TimeoutError:
            raise Problem.later(f"The answer was not found in {self._seconds:g} seconds; try again later.") from None

    async def do(self, work: Callable[[], T]) -> T:
        """Take a place and return what `work` returns."""
        with self.place():
            return await self.run(work)

    def close(self) -> None:
        """Let the work under way end, and begin no other."""
        self._pool.shutdown(wait=False, cancel_futures=True)
