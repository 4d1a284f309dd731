"""Every problem of a request is one line of JSON: ``{"error": "..."}``."""

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ddsh.errors import ArtefactError, BrokenImage, DdshError, NotAnImage, TooManyPixels
from ddsh.search import Busy

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2
_MAX_LINE = 400
_GONE_AWAY = 499
_STATUS: tuple[tuple[type[DdshError], int], ...] = (
    (TooManyPixels, 413),
    (NotAnImage, 415),
    (DdshError, 422),
)


class Problem(Exception):
    """A request that is refused.

    Parameters
    ----------
    status : int
        The HTTP status.
    line : str
        What is wrong, and what to do.
    headers : mapping of str to str, optional
        Headers of the answer.
    """

    def __init__(self, status: int, line: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(line)
        self.status, self.line, self.headers = status, line, dict(headers or {})

    @classmethod
    def later(cls, line: str) -> "Problem":
        """Return the problem of a request that may be sent again in a moment."""
        return cls(503, line, {"Retry-After": str(RETRY_SECONDS)})

    def response(self) -> JSONResponse:
        """Return the answer."""
        line = " ".join(self.line.split())
        return JSONResponse({"error": _shortened(line)}, self.status, self.headers)


def install(app: FastAPI) -> None:
    """Make the app answer every problem in this way; what is no problem of a request is left to the edge."""
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(DdshError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(ClientDisconnect, _answer_nobody)


def problem_of(error: DdshError) -> Problem:
    """Return what to tell the client; the folders of the server are none of its business."""
    if isinstance(error, Busy):
        return Problem.later("Somebody else is changing the index; try again in a moment.")
    if isinstance(error, ArtefactError):
        logger.error("%s", error)
        return Problem.later("The index cannot be used now; the server's log says why.")
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    start = "The image cannot be used: " if isinstance(error, BrokenImage) else ""
    return Problem(status, f"{start}{error}")


async def _answer_problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem), "the handler of problems"
    return error.response()


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DdshError), "the handler of errors of ddsh"
    return problem_of(error).response()


async def _answer_invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "the handler of invalid arguments"
    return Problem(422, "; ".join(_complaint(each) for each in error.errors()[:3]) + ".").response()


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException), "the handler of errors of HTTP"
    lines = {
        404: f"There is nothing at {request.url.path}; see /docs.",
        405: f"{request.url.path} does not take {request.method}; see /docs.",
    }
    return Problem(error.status_code, lines.get(error.status_code, str(error.detail)), error.headers).response()


async def _answer_nobody(_: Request, __: Exception) -> JSONResponse:
    return Problem(_GONE_AWAY, "The client went away.").response()


def _complaint(error: Mapping[str, object]) -> str:
    """Return what is wrong with one argument."""
    place = error["loc"]
    name = place[-1] if isinstance(place, tuple | list) and place else "request"
    if error["type"] == "extra_forbidden":
        return f"{name} is no argument here"
    if error["type"] == "missing":
        return f"{name} is missing"
    return f"{name}: {error['msg']}, got {_shortened(repr(error.get('input')), 60)}"


def _shortened(text: str, length: int = _MAX_LINE) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
