"""The HTTP service: search as an API and as a page in the browser."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.lazy import lazy

if TYPE_CHECKING:
    from ddsh.service.app import create_app
    from ddsh.service.server import Started, serve
    from ddsh.service.settings import Settings, find_token

__all__ = ["Settings", "Started", "create_app", "find_token", "serve"]

_HOMES: Mapping[str, str] = {
    "Settings": "ddsh.service.settings",
    "Started": "ddsh.service.server",
    "create_app": "ddsh.service.app",
    "find_token": "ddsh.service.settings",
    "serve": "ddsh.service.server",
}
__getattr__ = lazy(__name__, _HOMES)
