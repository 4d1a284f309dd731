"""Memory allocation of the process."""

import ctypes
import sys

__all__ = ["reuse_freed_memory"]

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST = (1 << 31) - 1


def reuse_freed_memory() -> bool:
    """Let the process keep freed memory for its next large array.

    The C library of Linux (glibc) returns every block above 32 MB to the system when it is freed, and the system clears
    each page that it hands out again. A network on the CPU allocates such blocks in every layer: encoding images takes
    1.5 to 2.4 times the CPU time. The command line calls this function; call it in your own program before the
    first model is used. The process then keeps its peak of memory until it ends.

    Returns
    -------
    bool
        Whether it has an effect: False on other systems and with other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has no mallopt
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 1 << 30) and mallopt(_M_TRIM_THRESHOLD, _LARGEST))
