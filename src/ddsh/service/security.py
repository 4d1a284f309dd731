"""Who may change the index, and which names the service answers to."""

import hmac
import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ddsh.errors import InvalidInput
from ddsh.service.desk import Desk, desk_of
from ddsh.service.problems import Problem
from ddsh.service.settings import TOKEN_VARIABLE

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::[0-9]*)?", re.IGNORECASE)
_Sent = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


async def check_token(desk: Annotated[Desk, Depends(desk_of)], sent: _Sent) -> None:
    """Refuse a change by somebody who does not have the token."""
    token = desk.settings.token
    if token is None:
        raise Problem(403, f"This service is read-only: it has no token ({TOKEN_VARIABLE} or --token-file).")
    if sent is None:
        raise _unauthorised("A change needs the header 'Authorization: Bearer TOKEN'.")
    if not hmac.compare_digest(sent.credentials.encode(), token.encode()):
        raise _unauthorised("The token is not the right one.")


def names_of(address: str, allowed: Iterable[str]) -> frozenset[str] | None:
    """Return the names that requests may be for, or None if they may be for any.

    A page of somebody else's can make its own name point to this machine and so reach what listens on it alone
    (DNS rebinding); the name it asks for gives it away.

    Parameters
    ----------
    address : str
        The IP address that the service listens on.
    allowed : iterable of str
        Names that the operator allows.
    """
    named = frozenset(_checked(name) for name in allowed)
    if not named and not is_loopback(address):
        return None
    return named | {*_LOOPBACK_NAMES, f"[{address}]" if ":" in address else address}


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an IP address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def name_in(host: str) -> str | None:
    """Return the name in a Host header, in lower case and without the port, or None if there is none."""
    match = _HOST.fullmatch(host)
    return match[1].lower().removesuffix(".") if match else None


def _checked(name: str) -> str:
    found = name_in(name)
    if found is None or found != name.lower().removesuffix("."):
        raise InvalidInput(f"A host is a name or an address without a port, such as photos.example.org; got {name!r}.")
    return found


def _unauthorised(line: str) -> Problem:
    return Problem(401, line, {"WWW-Authenticate": "Bearer"})
