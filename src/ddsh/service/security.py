"""Access token: which requests may change the index."""

import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ddsh.errors import DdshError
from ddsh.service.settings import MAX_TOKEN_LENGTH, check_token_strength

__all__ = ["TOKEN_VARIABLE", "find_token", "require_token"]

TOKEN_VARIABLE = "DDSH_TOKEN"  # noqa: S105 -- the name of a variable, not a token
"""Environment variable that holds the token."""

_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


async def require_token(request: Request, credentials: _Credentials) -> None:
    """Reject a request that does not carry the token (FastAPI dependency)."""
    token: str | None = request.app.state.service.settings.token
    if token is None:
        raise HTTPException(403, f"The service is read-only; to allow changes, set {TOKEN_VARIABLE} or --token-file.")
    if credentials is None:
        message = "Changes need the header 'Authorization: Bearer TOKEN'."
    elif not hmac.compare_digest(credentials.credentials.encode(), token.encode()):
        message = "The token is wrong."
    else:
        return
    raise HTTPException(401, message, {"WWW-Authenticate": "Bearer"})


def find_token(environment: Mapping[str, str], file: str | os.PathLike[str] | None = None) -> str | None:
    """Read the access token from a file or from the variable ``DDSH_TOKEN``.

    Parameters
    ----------
    environment : mapping of str to str
        Environment variables.
    file : path, optional
        File that contains only the token. It takes precedence over the variable.

    Returns
    -------
    str or None
        The token, or None if there is none.
    """
    if file is None:
        return environment.get(TOKEN_VARIABLE) or None
    try:
        with Path(file).open(encoding="utf-8") as opened:
            token = opened.read(2 * MAX_TOKEN_LENGTH).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DdshError(f"The token file {file} cannot be read ({reason}).") from error
    check_token_strength(token, f"The token in {file}")
    return token
