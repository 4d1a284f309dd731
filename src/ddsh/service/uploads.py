"""Request bodies: images, multipart forms and JSON, within limits."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header

from ddsh.service.settings import Settings

__all__ = [
    "FORM_FIELD",
    "FORM_OVERHEAD",
    "MAX_JSON_BYTES",
    "REQUEST_BODY",
    "describe_json",
    "extract_image",
    "file_from_form",
    "read_body",
    "read_json",
]

FORM_FIELD = "image"
"""Name of the form field that contains the image file."""

MAX_JSON_BYTES = 200_000
"""Maximum size of a request body of JSON."""

FORM_OVERHEAD = 10_000
"""Maximum number of bytes of a form besides its file."""

M = TypeVar("M", bound=BaseModel)
_BINARY = {"type": "string", "format": "binary"}

REQUEST_BODY: Mapping[str, Any] = MappingProxyType(
    {
        "required": True,
        "content": {
            "image/*": {"schema": _BINARY},
            "multipart/form-data": {
                "schema": {"type": "object", "required": [FORM_FIELD], "properties": {FORM_FIELD: _BINARY}}
            },
        },
    }
)
"""OpenAPI description of the request body."""


async def read_body(request: Request, settings: Settings, hold: Callable[[int], None] = lambda _: None) -> bytes:
    """Read the request body within the size limit and the timeout.

    Of a body that is too large, up to twice the limit is read and discarded: most clients read the
    response only after they have sent the whole body.

    Parameters
    ----------
    request : Request
        The request.
    settings : Settings
        Limits of the service.
    hold : callable
        Called with the number of bytes that are about to be kept; see :class:`ddsh.service.limits.Bytes`.
    """
    limit = settings.max_upload_bytes + FORM_OVERHEAD
    return await _read(request, limit, settings.timeout, _too_large(settings), hold)


async def read_json(request: Request, model: type[M], settings: Settings) -> M:
    """Read a request body of JSON within the size limit and the timeout, and validate it.

    Parameters
    ----------
    request : Request
        The request.
    model : type of BaseModel
        What the body must be.
    settings : Settings
        Limits of the service.
    """
    message = f"The request body is larger than the limit of {MAX_JSON_BYTES / 1e3:g} kB; send several requests."
    too_large = HTTPException(413, message, {"Connection": "close"})
    body = await _read(request, MAX_JSON_BYTES, settings.timeout, too_large)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problems = ({**each, "loc": (".".join(map(str, each["loc"])) or "body",)} for each in error.errors())
        raise RequestValidationError(list(problems)) from error


def describe_json(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a request body of JSON; nested models must be part of a response, too."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def _read(
    request: Request, limit: int, timeout: float, too_large: HTTPException, hold: Callable[[int], None] = lambda _: None
) -> bytes:
    body, n_bytes = bytearray(), 0
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > 2 * limit:
        raise too_large
    try:
        async with asyncio.timeout(timeout):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes <= limit:
                    hold(len(chunk))
                    body += chunk
                elif n_bytes > 2 * limit:
                    break
    except TimeoutError:
        message = f"The request body did not arrive within {timeout:g} seconds."
        raise HTTPException(408, message, {"Connection": "close"}) from None
    if n_bytes > limit:
        raise too_large
    return bytes(body)


def extract_image(request: Request, body: bytes, settings: Settings) -> bytes:
    """Return the image file in a request body.

    Parameters
    ----------
    request : Request
        The request, for its ``Content-Type`` header.
    body : bytes
        The image file itself, or a multipart form with one file.
    settings : Settings
        Limits of the service.
    """
    content_type = request.headers.get("content-type", "")
    is_form = content_type.lower().startswith("multipart/form-data")
    data = file_from_form(content_type, body) if is_form else body
    if not data:
        raise HTTPException(422, f"The request has no image; send it as the body or as the form field {FORM_FIELD!r}.")
    if len(data) > settings.max_upload_bytes:
        raise _too_large(settings)
    return data


def file_from_form(content_type: str, body: bytes) -> bytes:
    """Return the file in a multipart form whose only field is ``image``.

    Parameters
    ----------
    content_type : str
        The ``Content-Type`` header, which contains the boundary.
    body : bytes
        The form.
    """
    # By hand, and for one field only: a parser of all forms takes a minute for one of a hundred thousand fields.
    mark = b"--" + parse_options_header(content_type)[1].get(b"boundary", b"")
    head_end = body.find(b"\r\n\r\n", 0, FORM_OVERHEAD)
    if mark == b"--" or not body.startswith(mark + b"\r\n") or head_end < 0:
        raise _invalid_form("The form cannot be parsed")
    headers = {}
    for line in body[len(mark) + 2 : head_end].split(b"\r\n"):
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    end = body.find(b"\r\n" + mark, head_end + 4)
    rest = body[end + 2 + len(mark) :].rstrip()
    if end < 0 or rest in (b"", b"-"):
        raise _invalid_form("The form is truncated")
    options = parse_options_header(headers.get(b"content-disposition", b""))[1]
    if options.get(b"name") != FORM_FIELD.encode() or rest != b"--":
        raise _invalid_form(f"The form must have exactly one field, {FORM_FIELD!r}")
    if headers.get(b"content-transfer-encoding", b"binary").lower() not in (b"7bit", b"8bit", b"binary"):
        raise _invalid_form("The form cannot be parsed")
    return body[head_end + 4 : end]


def _too_large(settings: Settings) -> HTTPException:
    message = f"The image file is larger than the limit of {settings.max_upload_bytes / 1e6:g} MB."
    return HTTPException(413, message, {"Connection": "close"})


def _invalid_form(problem: str) -> HTTPException:
    return HTTPException(
        422, f"{problem}; send one file as the field {FORM_FIELD!r} and parameters in the URL, such as ?k=20."
    )
