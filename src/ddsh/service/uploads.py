"""Uploaded images: request bodies and multipart forms, read within limits."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import HTTPException, Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

from ddsh.service.settings import Settings

__all__ = ["FORM_FIELD", "REQUEST_BODY", "extract_image", "file_from_form", "read_body"]

FORM_FIELD = "image"
"""Name of the form field that contains the image file."""

_FORM_OVERHEAD = 10_000  # bytes of a form besides its file
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


async def read_body(request: Request, settings: Settings) -> bytes:
    """Read the request body within the size limit and the timeout.

    Of a body that is too large, up to twice the limit is read and discarded: most clients read the
    response only after they have sent the whole body.
    """
    limit, body, n_bytes = settings.max_upload_bytes + _FORM_OVERHEAD, bytearray(), 0
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > 2 * limit:
        raise _too_large(settings)
    try:
        async with asyncio.timeout(settings.timeout):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes <= limit:
                    body += chunk
                elif n_bytes > 2 * limit:
                    break
    except TimeoutError:
        message = f"The image did not arrive within {settings.timeout:g} seconds."
        raise HTTPException(408, message, {"Connection": "close"}) from None
    if n_bytes > limit:
        raise _too_large(settings)
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
    fields: list[Field | File] = []
    ends: list[bool] = []
    try:
        parser = FormParser(
            "multipart/form-data",
            on_field=fields.append,
            on_file=fields.append,
            on_end=lambda: ends.append(True),
            boundary=parse_options_header(content_type)[1].get(b"boundary", b""),
            config={"MAX_MEMORY_FILE_SIZE": float("inf")},  # write nothing to the disk
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise _invalid_form("The form cannot be parsed") from error
    if not ends:
        raise _invalid_form("The form is truncated")
    if [field.field_name for field in fields] != [FORM_FIELD.encode()]:
        raise _invalid_form(f"The form must have exactly one field, {FORM_FIELD!r}")
    field = fields[0]
    if isinstance(field, Field):
        return field.value or b""
    field.file_object.seek(0)
    return field.file_object.read()


def _too_large(settings: Settings) -> HTTPException:
    message = f"The image file is larger than the limit of {settings.max_upload_bytes / 1e6:g} MB."
    return HTTPException(413, message, {"Connection": "close"})


def _invalid_form(problem: str) -> HTTPException:
    return HTTPException(
        422, f"{problem}; send one file as the field {FORM_FIELD!r} and parameters in the URL, such as ?k=20."
    )
