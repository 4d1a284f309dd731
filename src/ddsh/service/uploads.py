"""Images that come with a request: as its body, or as a file of a form. No path or address is ever followed."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fastapi import Request

from ddsh.service.forms import BadForm, file_of_form
from ddsh.service.problems import Problem
from ddsh.service.settings import Settings

FIELD = "image"
_FORM_BYTES = 10_000
"""What a form may take besides the file."""

_HANG_UP = MappingProxyType({"Connection": "close"})

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FORM = {
    "schema": {
        "type": "object",
        "required": [FIELD],
        "properties": {FIELD: {"type": "string", "format": "binary"}},
    }
}
REQUEST_BODY: Mapping[str, Any] = MappingProxyType(
    {"required": True, "content": {"image/*": _BINARY, "multipart/form-data": _FORM}}
)
"""How OpenAPI describes it."""


@dataclass(frozen=True, eq=False)
class Upload:
    """The body of a request that carries an image.

    Parameters
    ----------
    content_type : str
        What the client says it is.
    body : bytes
        The body.
    max_bytes : int
        How large the image file may be.
    """

    content_type: str
    body: bytes
    max_bytes: int

    def image(self) -> bytes:
        """Return the content of the image file; a form takes some time to read."""
        data = self._file() if self.content_type.lower().startswith("multipart/form-data") else self.body
        if not data:
            raise Problem(422, f"There is no image; send one as the body, or as the field {FIELD!r} of a form.")
        if len(data) > self.max_bytes:
            raise _too_large(self.max_bytes)
        return data

    def _file(self) -> bytes:
        try:
            return file_of_form(self.content_type, self.body, FIELD)
        except BadForm as error:
            advice = f"send one file as the field {FIELD!r}, and all else in the address, such as ?k=20"
            raise Problem(422, f"{error}; {advice}.") from error


async def read_upload(request: Request, settings: Settings) -> Upload:
    """Read the body of a request that carries an image."""
    try:
        async with asyncio.timeout(settings.timeout):
            body = await _read_body(request, settings.max_upload_bytes + _FORM_BYTES)
    except TimeoutError:
        line = f"The image did not arrive in {settings.timeout:g} seconds."
        raise Problem(408, line, _HANG_UP) from None
    return Upload(request.headers.get("content-type", ""), body, settings.max_upload_bytes)


async def _read_body(request: Request, limit: int) -> bytes:
    """Return the body; of one that is too large, some is thrown away, so that its sender lives to read the answer."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > 2 * limit:
        raise _too_large(limit - _FORM_BYTES)
    body, n_bytes = bytearray(), 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes <= limit:
            body += chunk
        elif n_bytes > 2 * limit:
            break
    if n_bytes > limit:
        raise _too_large(limit - _FORM_BYTES)
    return bytes(body)


def _too_large(limit: int) -> Problem:
    return Problem(413, f"The image file is larger than {limit / 1e6:g} MB, the limit here.", _HANG_UP)
