"""What the operator of a service decides."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ddsh.errors import DdshError, InvalidInput
from ddsh.images import MAX_PIXELS

TOKEN_VARIABLE = "DDSH_TOKEN"  # noqa: S105 -- a name, not a token
MIN_TOKEN = 16
_MAX_TOKEN = 4096


@dataclass(frozen=True)
class Settings:
    """The limits of a service, and who may change the index.

    Parameters
    ----------
    token : str or None
        Whoever sends it may add and remove images; without one, nobody may.
    allow_hosts : tuple of str
        Names that requests may be for, besides those of this machine itself.
    max_upload_bytes : int
        Size of the largest image file that is taken.
    max_pixels : int
        Size of the largest image that is decoded.
    max_k : int
        How many images may be asked for.
    timeout : float
        Seconds for a request to arrive, and for its answer to be found.
    encodes : int
        How many uploaded images are decoded and coded at the same time.
    waiting : int
        How many more of them may wait; those that come later are turned away.
    """

    token: str | None = field(default=None, repr=False)
    allow_hosts: tuple[str, ...] = ()
    max_upload_bytes: int = 20_000_000
    max_pixels: int = 50_000_000
    max_k: int = 1000
    timeout: float = 30.0
    encodes: int = 2
    waiting: int = 32

    def __post_init__(self) -> None:
        for name in ("max_upload_bytes", "max_pixels", "max_k", "encodes"):
            _check(getattr(self, name) >= 1, name, "1 or more", getattr(self, name))
        _check(self.waiting >= 0, "waiting", "0 or more", self.waiting)
        _check(self.max_pixels <= MAX_PIXELS, "max_pixels", f"{MAX_PIXELS:,} at most", f"{self.max_pixels:,}")
        _check(0 < self.timeout < math.inf, "timeout", "a number of seconds above 0", self.timeout)
        if self.token is not None:
            _check_token(self.token, "The token")

    @property
    def read_only(self) -> bool:
        """Whether nobody may change the index."""
        return self.token is None


def find_token(environment: Mapping[str, str], file: Path | None) -> str | None:
    """Return the token that allows changes: that of the file if one is given, or ``DDSH_TOKEN``, or None.

    Parameters
    ----------
    environment : mapping of str to str
        The environment variables.
    file : path or None
        A file that holds nothing but the token.
    """
    if file is None:
        return environment.get(TOKEN_VARIABLE) or None
    try:
        with file.open(encoding="utf-8") as opened:
            token = opened.read(2 * _MAX_TOKEN).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DdshError(f"The token file {file} cannot be read ({reason}).") from error
    _check_token(token, f"The token in {file}")
    return token


def _check_token(token: str, what: str) -> None:
    """Refuse a token that is easily guessed, or that a header cannot carry."""
    if not MIN_TOKEN <= len(token) <= _MAX_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{what} must have {MIN_TOKEN} or more letters, digits and signs, without spaces; it has {len(token)}"
            " characters. Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )


def _check(holds: bool, name: str, expected: str, given: object) -> None:
    if not holds:
        raise InvalidInput(f"{name} must be {expected}; got {given}.")
