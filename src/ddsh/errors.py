"""The exception tree: everything ddsh raises on purpose is a :class:`DdshError`."""

import difflib
from collections.abc import Iterable


class DdshError(Exception):
    """Base of every error that is the input's fault; its message is one line that says what to do."""


class InvalidInput(DdshError, ValueError):
    """An argument has the wrong shape, type or value."""


class UnknownName(InvalidInput):
    """A name is not in a registry; the message offers the nearest one that is.

    Parameters
    ----------
    kind : str
        What was looked for, such as ``"method"``.
    given : str
        The name that is not known.
    known : iterable of str
        The names that are.
    """

    def __init__(self, kind: str, given: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(given, names, n=1)
        advice = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
        super().__init__(f"Unknown {kind} {given!r}. {advice}")


class Diverged(InvalidInput):
    """Training left the range of finite numbers."""


class DataError(DdshError):
    """A dataset's files are missing, broken or not what they claim to be."""


class BrokenImage(DataError):
    """One image file cannot be decoded."""


class NotAnImage(BrokenImage):
    """The content is of no kind of image that is read here."""


class TooManyPixels(BrokenImage):
    """An image has more pixels than the limit; nothing was decoded."""


class DownloadError(DdshError):
    """A file could not be fetched, or arrived with the wrong content."""


class ArtefactError(DdshError):
    """A file that ddsh should have written is missing, truncated, foreign or of another version."""
