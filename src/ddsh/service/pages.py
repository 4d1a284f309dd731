"""The pages for a browser, which need nothing from elsewhere."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType

from fastapi import APIRouter, Request, Response

from ddsh.service.problems import Problem

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class _File:
    """A file of the pages."""

    content: bytes
    kind: str
    mark: str


@cache
def _static() -> Mapping[str, _File]:
    """Return all files by name, as they are when the first is asked for."""
    contents = {file.name: file.read_bytes() for file in files("ddsh.service").joinpath("static").iterdir()}
    return {
        name: _File(content, _KINDS[PurePath(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
        if PurePath(name).suffix in _KINDS  # an editor may leave others
    }


@router.get("/")
async def search_page(request: Request) -> Response:
    """Return the search page."""
    return _send(request, "index.html")


@router.get("/docs")
async def page_about_the_api(request: Request) -> Response:
    """Return the page about the API."""
    return _send(request, "docs.html")


@router.get("/static/{name}")
async def file_of_a_page(request: Request, name: str) -> Response:
    """Return a file that the pages need."""
    if name not in _static():
        raise Problem(404, f"There is nothing at {request.url.path}; see /docs.")
    return _send(request, name)


def _send(request: Request, name: str) -> Response:
    """Return a file, which browsers ask for again, so that a new version of ddsh shows at once."""
    file = _static()[name]
    headers = {"ETag": file.mark, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.mark:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)
