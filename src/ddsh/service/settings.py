"""Settings of the service: limits and access token."""

import math
from dataclasses import dataclass, field

from ddsh.errors import InvalidInput
from ddsh.images import MAX_PIXELS

__all__ = ["MAX_TOKEN_LENGTH", "MIN_TOKEN_LENGTH", "Settings", "check_token_strength"]

MIN_TOKEN_LENGTH = 16
MAX_TOKEN_LENGTH = 4096


@dataclass(frozen=True)
class Settings:
    """Limits and access token.

    Parameters
    ----------
    token : str or None
        Token that allows adding and removing images. Without one, the service is read-only.
    allowed_hosts : tuple of str
        Accepted names in the ``Host`` header besides those of this machine.
    max_upload_bytes : int
        Maximum size of an uploaded image file.
    max_pixels : int
        Maximum number of pixels of an uploaded image.
    max_decode_seconds : float
        Maximum CPU time to decode an image.
    max_k : int
        Maximum number of results of a search.
    timeout : float
        Seconds to receive a request, and seconds to process it.
    workers : int
        Number of threads that decode and encode uploads.
    max_waiting : int
        Number of further uploads that may wait for a thread.
    max_connections, max_connections_per_client : int
        Maximum number of open connections, in all and from one address.
    """

    token: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    max_upload_bytes: int = 20_000_000
    max_pixels: int = 50_000_000
    max_decode_seconds: float = 5.0
    max_k: int = 1000
    timeout: float = 30.0
    workers: int = 2
    max_waiting: int = 32
    max_connections: int = 512
    max_connections_per_client: int = 128

    def __post_init__(self) -> None:
        for name, least in (
            ("max_upload_bytes", 1),
            ("max_pixels", 1),
            ("max_k", 1),
            ("workers", 1),
            ("max_waiting", 0),
            ("max_connections", 1),
            ("max_connections_per_client", 1),
        ):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} must be {least} or more; got {getattr(self, name)}.")
        if self.max_pixels > MAX_PIXELS:
            raise InvalidInput(f"max_pixels must be {MAX_PIXELS:,} at most; got {self.max_pixels:,}.")
        for name in ("timeout", "max_decode_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(f"{name} must be a positive number of seconds; got {getattr(self, name)}.")
        if self.token is not None:
            check_token_strength(self.token, "The token")

    @property
    def read_only(self) -> bool:
        """Whether the index cannot be changed through the service."""
        return self.token is None


def check_token_strength(token: str, name: str) -> None:
    """Reject a token that is easy to guess or cannot be sent in a header.

    Parameters
    ----------
    token : str
        The token; the message does not show it.
    name : str
        How the message calls the token.
    """
    is_valid = MIN_TOKEN_LENGTH <= len(token) <= MAX_TOKEN_LENGTH and token.isascii() and token.isprintable()
    if not is_valid or " " in token:
        raise InvalidInput(
            f"{name} must have {MIN_TOKEN_LENGTH} or more ASCII characters without spaces; it has {len(token)}"
            " characters. Create one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
