"""Exceptions: everything ddsh raises on purpose is a :class:`DdshError`."""

import difflib
from collections.abc import Iterable

__all__ = [
    "ArtefactError",
    "BrokenImage",
    "Busy",
    "DataError",
    "DdshError",
    "Diverged",
    "DownloadError",
    "InvalidInput",
    "InvalidType",
    "MissingExtra",
    "NotAnImage",
    "OverLimit",
    "TooManyPixels",
    "Unavailable",
    "UnknownName",
]


class DdshError(Exception):
    """Base class of errors caused by the input; the message is one line that says what to do."""


class InvalidInput(DdshError, ValueError):
    """An argument has the wrong shape, type or value."""


class InvalidType(InvalidInput, TypeError):
    """An argument has the wrong type."""


class UnknownName(InvalidInput):
    """A name is not in a registry; the message offers the nearest one that is.

    Parameters
    ----------
    kind : str
        What was looked for, such as ``"method"``.
    given : str
        The unknown name.
    known : iterable of str
        The known names.
    """

    def __init__(self, kind: str, given: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(given, names, n=1)
        advice = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names) or 'none'}."
        super().__init__(f"Unknown {kind} {given!r}. {advice}")


class Diverged(InvalidInput):
    """The training loss is no longer finite."""


class MissingExtra(DdshError, ImportError):
    """A feature needs a package that is not installed.

    Parameters
    ----------
    what : str
        The feature, such as ``"ddsh.DDSH"``.
    packages : str
        What it needs, such as ``"PyTorch"``.
    extra : str
        The extra of ddsh that installs it.
    """

    def __init__(self, what: str, packages: str, extra: str) -> None:
        super().__init__(f"{what} needs {packages}. Run: pip install 'ddsh[{extra}]'")


class DataError(DdshError):
    """Files of a dataset are missing, broken or not what they claim to be."""


class BrokenImage(DataError):
    """An image file cannot be decoded."""


class NotAnImage(BrokenImage):
    """The content is not an image in a supported format."""


class TooManyPixels(BrokenImage):
    """An image exceeds the pixel limit; it was not decoded."""


class OverLimit(DataError):
    """Reading a file takes more CPU time or memory than allowed, or crashes the reader."""


class DownloadError(DdshError):
    """A file could not be downloaded, or arrived with the wrong content."""


class ArtefactError(DdshError):
    """A file written by ddsh is missing, truncated, foreign or of another version, or cannot be written."""


class Unavailable(ArtefactError):
    """A database cannot be reached, or does not answer in time; the same request may succeed later."""


class Busy(DdshError):
    """Another process holds the lock."""
