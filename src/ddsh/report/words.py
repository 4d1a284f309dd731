"""Amounts in words."""


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def memory(n_bytes: int | None) -> str:
    """Return an amount of memory in words; nothing for None."""
    return "" if n_bytes is None else f"{n_bytes / 2**30:.1f} GiB"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
