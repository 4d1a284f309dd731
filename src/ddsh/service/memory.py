"""What is remembered between requests, within bounds."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

MIN_SECONDS = 2.0
_TIMES_AS_LONG = 20


class Remembered(Generic[T]):
    """The answer to a question that is asked again only after a while: the longer it took, the later.

    Parameters
    ----------
    ask : callable
        Answers the question; never called twice at the same time.
    """

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._answer: tuple[T, float] | None = None

    def get(self) -> T:
        """Return the answer."""
        with self._lock:
            began = time.monotonic()
            if self._answer is None or began > self._answer[1]:
                answer = self._ask()
                self._answer = answer, began + max(MIN_SECONDS, _TIMES_AS_LONG * (time.monotonic() - began))
            return self._answer[0]

    def forget(self) -> None:
        """Ask anew the next time."""
        with self._lock:
            self._answer = None


class BytesCache:
    """The values that were used last, as many as fit.

    Parameters
    ----------
    max_bytes : int
        How many bytes all values may take together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._lock = Lock()
        self._values: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the value of a key, and make it if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        self._put(key, value)
        return value

    def _put(self, key: str, value: bytes) -> None:
        with self._lock:
            self._n_bytes += len(value) - len(self._values.pop(key, b""))
            self._values[key] = value
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= len(self._values.popitem(last=False)[1])
