"""Function calls in separate processes, a few at a time."""

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
from ddsh.memory import reuse_freed_memory

__all__ = ["call_in_processes"]

_SECONDS_TO_STOP = 10.0
_THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class _Call:
    """A running call."""

    place: int
    process: SpawnProcess
    receiver: Connection

    def outcome(self) -> str | None:
        """Wait for the call; return its error message, or None."""
        self.process.join()
        try:
            message: str | None = self.receiver.recv()
        except EOFError:  # the process ended without a message
            code = self.process.exitcode or 0
            if code < 0:
                return f"its process was killed by signal {-code}; perhaps memory ran out, try fewer jobs."
            return f"its process ended with code {code}."
        finally:
            self.receiver.close()
        return message

    def stop(self) -> None:
        """Terminate the process, and kill it if it does not end."""
        self.process.terminate()
        self.process.join(_SECONDS_TO_STOP)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.receiver.close()


def call_in_processes(
    function: Callable[..., None], calls: Sequence[tuple[Any, ...]], n_jobs: int, n_threads: int
) -> Generator[tuple[int, str | None]]:
    """Call a function in new processes, `n_jobs` at a time.

    Closing the generator terminates the running calls.

    Parameters
    ----------
    function : callable
        The function; it and all arguments must be picklable.
    calls : sequence of tuple
        The arguments of each call.
    n_jobs : int
        Number of processes at a time.
    n_threads : int
        Threads of each process, unless ``OMP_NUM_THREADS`` is set.

    Yields
    ------
    place : int
        Position of a finished call.
    message : str or None
        Its error message, if it failed.
    """
    context = multiprocessing.get_context("spawn")
    waiting = deque(enumerate(calls))
    running: dict[int, _Call] = {}
    try:
        while waiting or running:
            with _threads_of_children(n_threads):
                while waiting and len(running) < n_jobs:
                    place, arguments = waiting.popleft()
                    receiver, sender = context.Pipe(duplex=False)
                    process = context.Process(target=_answer, args=(sender, function, arguments))
                    process.start()
                    sender.close()  # the receiver then gets an EOF when the process ends
                    running[process.sentinel] = _Call(place, process, receiver)
            ended = wait(list(running))
            for sentinel in [sentinel for sentinel in running if sentinel in ended]:
                call = running.pop(sentinel)
                yield call.place, call.outcome()
    finally:
        for call in running.values():
            call.stop()


def _answer(sender: Connection, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Run a call in its process, and send its error message or None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception, so that temporary files are removed
    parent = multiprocessing.parent_process()
    assert parent is not None, "called only in child processes"

    def end_with_parent() -> None:
        """End this process when its parent ends, since nobody waits for the result."""
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    reuse_freed_memory()
    try:
        function(*arguments)
    except DdshError as error:
        sender.send(str(error))
    else:
        sender.send(None)


@contextmanager
def _threads_of_children(n_threads: int) -> Iterator[None]:
    """Set the number of threads of processes started in the block, through the environment."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = str(n_threads)
    try:
        yield
    finally:
        del os.environ[_THREADS]
