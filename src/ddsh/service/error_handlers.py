"""Error responses: JSON of the form ``{"error": "one line"}``."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeAlias

from fastapi import Request
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from ddsh.errors import ArtefactError, BrokenImage, Busy, DdshError, NotAnImage, TooManyPixels

__all__ = ["EXCEPTION_HANDLERS", "RETRY_SECONDS", "error_response", "retry_later"]

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2
"""Value of the ``Retry-After`` header of a 503 response."""

_MAX_LENGTH = 400
_CLIENT_CLOSED_REQUEST = 499

_Handler: TypeAlias = Callable[[Request, Any], Coroutine[Any, Any, JSONResponse]]


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error response with a message of one line."""
    line = " ".join(message.split())
    return JSONResponse({"error": _shorten(line, _MAX_LENGTH)}, status, headers)


def retry_later(message: str) -> HTTPException:
    """Return an exception with status 503 and a ``Retry-After`` header."""
    return HTTPException(503, message, {"Retry-After": str(RETRY_SECONDS)})


async def handle_http_exception(request: Request, error: StarletteHTTPException) -> JSONResponse:
    """Handle errors of the endpoints and of the router."""
    message, path = error.detail, request.scope["path"]
    if message == HTTPStatus(error.status_code).phrase:  # raised by the router
        if error.status_code == HTTPStatus.NOT_FOUND:
            message = f"Nothing found at {path}; see /docs."
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            message = f"{path} does not accept {request.method}; see /docs."
    return error_response(error.status_code, message, error.headers)


async def handle_validation_error(_: Request, error: RequestValidationError) -> JSONResponse:
    """Handle invalid path and query parameters; the first three are named."""
    problems = []
    for each in error.errors()[:3]:
        # The number of a repeated parameter says less than its name.
        name = next((part for part in reversed(each["loc"]) if isinstance(part, str)), "request")
        if each["type"] == "extra_forbidden":
            problems.append(f"unknown parameter {name}")
        elif each["type"] == "missing":
            problems.append(f"{name} is missing")
        elif each["type"] == "value_error":  # raised by a schema, which says all
            problems.append(each["msg"].removeprefix("Value error, "))
        else:
            problems.append(f"{name}: {each['msg']}, got {_shorten(repr(each.get('input')), 60)}")
    return error_response(422, "; ".join(problems) + ".")


async def handle_ddsh_error(_: Request, error: DdshError) -> JSONResponse:
    """Handle errors of the library without revealing paths of the server."""
    if isinstance(error, Busy):
        later = retry_later("Another process is changing the index; try again in a moment.")
        return error_response(later.status_code, later.detail, later.headers)
    if isinstance(error, ArtefactError):
        logger.error("%s", error)
        later = retry_later("The index is not available; see the server's log.")
        return error_response(later.status_code, later.detail, later.headers)
    status = 413 if isinstance(error, TooManyPixels) else 415 if isinstance(error, NotAnImage) else 422
    prefix = "The image cannot be used: " if isinstance(error, BrokenImage) else ""
    return error_response(status, f"{prefix}{error}")


async def handle_disconnect(_: Request, __: ClientDisconnect) -> JSONResponse:
    """Handle clients that close the connection; the status appears in the metrics only."""
    return error_response(_CLIENT_CLOSED_REQUEST, "The client closed the connection.")


EXCEPTION_HANDLERS: Mapping[int | type[Exception], _Handler] = MappingProxyType(
    {
        StarletteHTTPException: handle_http_exception,
        RequestValidationError: handle_validation_error,
        DdshError: handle_ddsh_error,
        ClientDisconnect: handle_disconnect,
    }
)
"""Handlers of expected exceptions; all others are bugs and are handled by the middleware."""


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
