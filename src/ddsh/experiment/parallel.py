"""Function calls in separate processes, some at a time."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from ddsh.errors import DdshError

__all__ = ["call_in_processes"]

_SECONDS_TO_STOP = 10.0
_THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class _Call:
    """A call that is under way."""

    place: int
    process: SpawnProcess
    receiver: Connection

    def outcome(self) -> str | None:
        """Wait for the end; return what went wrong, or None."""
        self.process.join()
        try:
            message: str | None = self.receiver.recv()
        except EOFError:
            return self._why_silent()
        finally:
            self.receiver.close()
        return message

    def _why_silent(self) -> str:
        code = self.process.exitcode or 0
        if code < 0:
            return f"its process was killed by signal {-code}; perhaps memory ran out, try fewer jobs."
        return f"its process ended with code {code}."

    def stop(self) -> None:
        """End the call, gently at first."""
        self.process.terminate()
        self.process.join(_SECONDS_TO_STOP)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.receiver.close()


def call_in_processes(
    function: Callable[..., None], calls: Sequence[tuple[Any, ...]], n_jobs: int, n_threads: int
) -> Generator[tuple[int, str | None]]:
    """Call a function in new processes, `n_jobs` at a time; when the generator is closed, those under way are ended.

    Parameters
    ----------
    function : callable
        It and all arguments must be picklable.
    calls : sequence of tuple
        The arguments of each call.
    n_jobs : int
        How many processes at a time.
    n_threads : int
        Threads that each process may use, unless the environment says otherwise.

    Yields
    ------
    place : int
        Of a call that ended.
    message : str or None
        What went wrong.
    """
    waiting = deque(enumerate(calls))
    running: dict[int, _Call] = {}
    try:
        while waiting or running:
            with _threads_of_children(n_threads):
                while waiting and len(running) < n_jobs:
                    call = _begin(function, *waiting.popleft())
                    running[call.process.sentinel] = call
            ended = wait(list(running))
            for sentinel in [sentinel for sentinel in running if sentinel in ended]:
                call = running.pop(sentinel)
                yield call.place, call.outcome()
    finally:
        for call in running.values():
            call.stop()


def _begin(function: Callable[..., None], place: int, arguments: tuple[Any, ...]) -> _Call:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments))
    process.start()
    sender.close()  # so that the receiver sees the end when the process ends
    return _Call(place, process, receiver)


def _answer(sender: Connection, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Do a call inside its process, and tell how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one decides
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # half-written files are removed on the way out
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function(*arguments)
    except DdshError as error:
        sender.send(str(error))
    else:
        sender.send(None)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended: nobody waits for the result."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in processes that were started here"
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _threads_of_children(n_threads: int) -> Iterator[None]:
    """Tell processes that are started meanwhile how many threads to use; libraries only look when they are loaded."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = str(n_threads)
    try:
        yield
    finally:
        del os.environ[_THREADS]
