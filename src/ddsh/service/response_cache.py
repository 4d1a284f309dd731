"""In-memory caches, safe to use from several threads."""

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

from cachetools import LRUCache, cached

__all__ = ["MIN_SECONDS", "ExpiringValue", "cache_bytes"]

P = ParamSpec("P")
T = TypeVar("T")

MIN_SECONDS = 2.0
"""Shortest lifetime of an :class:`ExpiringValue`."""

_LIFETIME_PER_COST = 20


class ExpiringValue(Generic[T]):
    """A cached value that is recomputed after a while.

    The lifetime is 20 times the duration of the computation, so that recomputing a slow value costs
    at most 5 % of the time. A cache with a fixed lifetime cannot do that.

    Parameters
    ----------
    compute : callable
        Returns the value. It is never called by two threads at the same time.
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute
        self._lock = Lock()
        self._cached: tuple[T, float] | None = None

    def get(self) -> T:
        """Return the value, recomputed if it has expired."""
        with self._lock:
            started = time.monotonic()
            if self._cached is None or started > self._cached[1]:
                value = self._compute()
                lifetime = max(MIN_SECONDS, _LIFETIME_PER_COST * (time.monotonic() - started))
                self._cached = value, started + lifetime
            return self._cached[0]

    def clear(self) -> None:
        """Discard the value, so that the next :meth:`get` recomputes it."""
        with self._lock:
            self._cached = None


def cache_bytes(max_bytes: int, key: Callable[P, Hashable]) -> Callable[[Callable[P, bytes]], Callable[P, bytes]]:
    """Return a decorator that caches the most recently used results within a byte limit.

    Parameters
    ----------
    max_bytes : int
        Maximum total size of the cached results. Larger results are not cached.
    key : callable
        Computes the cache key from the arguments.
    """
    return cached(LRUCache[Hashable, bytes](max_bytes, getsizeof=len), key=key, lock=Lock())
