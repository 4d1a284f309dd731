"""Calls in a worker process, with limits on CPU time and memory."""

import contextlib
import json
import math
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import ddsh.errors
from ddsh.errors import DdshError, OverLimit

__all__ = ["Sandbox", "serve"]

_SIZES = struct.Struct("<QQ")
_START_SECONDS = 60.0
_LARGE = 1 << 17  # results above this size are handed over in shared memory, where the system has it


class Sandbox:
    """Worker processes that call one function, each call within limits.

    A hostile file can make a decoder compute for minutes, fill the memory, or crash. In a worker process that ends one
    call with an exception. Workers are kept for the next call, so that a call costs little more than copying its
    arguments and its result. Any number of threads may use a sandbox; there are as many workers as calls at a time.

    Arguments and results are JSON, bytes and plain arrays, never pickles: a worker that was taken over cannot run code
    in this process. It has the rights of the user, though: limits on files and the network are up to the system.

    Parameters
    ----------
    function : str
        ``module:function``. It takes bytes, if any are given, and keyword arguments of JSON; it returns bytes or an
        array.
    cpu_seconds : float
        CPU time of a call.
    timeout : float
        Seconds that a call may take, whatever else the machine has to do; the start of a worker does not count.
    max_bytes : int
        Memory that a worker may allocate; only Linux enforces it.
    """

    def __init__(self, function: str, *, cpu_seconds: float, timeout: float, max_bytes: int) -> None:
        self._function, self._cpu_seconds, self._timeout, self._max_bytes = function, cpu_seconds, timeout, max_bytes
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start a worker ahead of the first call, without waiting for it."""
        self._give_back(self._take())

    def call(self, data: bytes | None = None, **arguments: Any) -> NDArray[Any]:  # noqa: ANN401 -- anything of JSON
        """Call the function in a worker and return its result; bytes are returned as an array of uint8.

        Raises
        ------
        OverLimit
            If the call needs more CPU time, more time or more memory than allowed, or crashes the worker.
        DdshError
            If the function raises one.
        """
        worker = self._take()
        try:
            header, result = worker.call(data, arguments)
        except BaseException as error:
            self._end(worker, 1.0 if isinstance(error, ConnectionError) else 0.0)
            if isinstance(error, OSError):  # the connection is closed or timed out
                raise OverLimit(self._reason(worker, error)) from error
            raise
        self._give_back(worker)
        if "error" not in header:
            return result
        kind = getattr(ddsh.errors, header["error"], None)
        if kind is None:
            raise RuntimeError(f"{self._function} failed in its process:\n{header['message']}")
        # Some classes compose their message from other arguments.
        raised: DdshError = kind.__new__(kind)
        raised.args = (header["message"],)
        raise raised

    def close(self) -> None:
        """Kill all workers; calls in progress end with an exception."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
        for worker in workers:
            self._end(worker)

    def _take(self) -> "_Worker":
        with self._lock:
            if self._closed:
                raise OverLimit("the service is being stopped.")
            if self._idle:
                return self._idle.pop()
            worker = _Worker(self._function, self._cpu_seconds, self._timeout, self._max_bytes)
            self._all.add(worker)
            return worker

    def _give_back(self, worker: "_Worker") -> None:
        with self._lock:
            if worker in self._all:
                self._idle.append(worker)

    def _end(self, worker: "_Worker", wait: float = 0.0) -> None:
        with self._lock:
            self._all.discard(worker)
            if worker in self._idle:
                self._idle.remove(worker)
        worker.kill(wait)

    def _reason(self, worker: "_Worker", error: OSError) -> str:
        if isinstance(error, TimeoutError):
            return f"took longer than {self._timeout:g} seconds."
        if worker.exit_code == -signal.SIGPROF:
            return f"needs more than {self._cpu_seconds:g} seconds of CPU time."
        return f"needs more than {self._max_bytes / 1e6:,.0f} MB of memory, or crashes the decoder."


class _Worker:
    """A worker process and the connection to it; one thread at a time may use it."""

    def __init__(self, function: str, cpu_seconds: float, timeout: float, max_bytes: int) -> None:
        self._here, there = socket.socketpair()
        self._timeout, self._ready = timeout, False
        self.exit_code: int | None = None
        arguments = [str(there.fileno()), function, str(cpu_seconds), str(max_bytes)]
        # One thread per library: more would only take memory away from the call.
        own = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with there:
            self._process = subprocess.Popen(  # noqa: S603 -- this program, with numbers and names of its own
                [sys.executable, "-P", "-m", "ddsh.sandbox", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # C libraries print what they think of a damaged file
                pass_fds=[there.fileno()],
                env={**os.environ, **own},
            )

    def call(self, data: bytes | None, arguments: dict[str, Any]) -> tuple[dict[str, Any], NDArray[Any]]:
        """Send a call and wait for its reply."""
        if not self._ready:
            self._here.settimeout(_START_SECONDS)
            _receive(self._here)
            self._ready = True
        self._here.settimeout(self._timeout)
        _send(self._here, {"arguments": arguments, "has_data": data is not None}, data or b"")
        return _receive(self._here)

    def kill(self, wait: float = 0.0) -> None:
        """End the process; one that is ending by itself has some seconds for it, so that its exit code is its own."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait)
        self._process.kill()
        self.exit_code = self._process.wait()
        self._here.close()


def serve(connection: socket.socket, function: Callable[..., Any], cpu_seconds: float) -> None:
    """Answer calls until the connection is closed."""
    _send(connection, {}, b"")  # ready
    while True:
        try:
            call, data = _receive(connection)
        except OSError:
            return
        given = [data.tobytes()] if call["has_data"] else []
        header: dict[str, Any] = {}
        result: Any = b""
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)  # at zero, SIGPROF ends the process
        try:
            result = function(*given, **call["arguments"])
        except DdshError as error:
            header = {"error": type(error).__name__, "message": str(error)}
        except MemoryError:
            header = {"error": OverLimit.__name__, "message": "needs more memory than allowed."}
        except Exception:
            header = {"error": "", "message": traceback.format_exc()}
        signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(result, np.ndarray):
            header |= {"dtype": result.dtype.str, "shape": result.shape}
            result = np.ascontiguousarray(result).reshape(-1).view(np.uint8).data
        _send(connection, header, result)
        del data, given, result


def _send(connection: socket.socket, header: dict[str, Any], data: Any) -> None:  # noqa: ANN401 -- any buffer
    shared = len(data) > _LARGE and hasattr(os, "memfd_create")
    text = json.dumps(header | {"shared": shared}).encode()
    connection.sendall(_SIZES.pack(len(text), len(data)) + text)
    if not shared:
        connection.sendall(data)
        return
    handle = os.memfd_create("ddsh-sandbox")
    try:
        rest = memoryview(data)
        while len(rest):
            rest = rest[os.write(handle, rest) :]
        socket.send_fds(connection, [b"."], [handle])
    finally:
        os.close(handle)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], NDArray[Any]]:
    n_text, n_bytes = _SIZES.unpack(_receive_exactly(connection, _SIZES.size).data)
    header = json.loads(_receive_exactly(connection, n_text).tobytes())
    if header.pop("shared"):
        _, handles, _, _ = socket.recv_fds(connection, 1, 1)
        if not handles:
            raise ConnectionError("the other process is gone")
        try:
            data = np.frombuffer(mmap.mmap(handles[0], n_bytes), np.uint8)
        finally:
            os.close(handles[0])
    else:
        data = _receive_exactly(connection, n_bytes)
    return header, data.view(header["dtype"]).reshape(header["shape"]) if "dtype" in header else data


def _receive_exactly(connection: socket.socket, n_bytes: int) -> NDArray[np.uint8]:
    data = np.empty(n_bytes, np.uint8)
    rest = data.data
    while len(rest):
        n_read = connection.recv_into(rest)
        if not n_read:
            raise ConnectionError("the other process is gone")
        rest = rest[n_read:]
    return data


def _limit_memory(max_bytes: int) -> None:
    """Limit what this process may allocate in addition to what it has now."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = n_pages * resource.getpagesize() + max_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _main() -> None:
    handle, function, cpu_seconds, max_bytes = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C reaches all processes; the parent ends this one
        signal.signal(number, signal.SIG_IGN)
    module, _, name = function.partition(":")
    called = getattr(import_module(module), name)
    _limit_memory(math.floor(float(max_bytes)))
    with socket.socket(fileno=int(handle)) as connection:
        serve(connection, called, float(cpu_seconds))


if __name__ == "__main__":
    _main()
