"""HTTP service: an image search API and a search page for the browser."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.lazy import lazy

if TYPE_CHECKING:
    from ddsh.service.app import create_app
    from ddsh.service.security import find_token
    from ddsh.service.server import ServerInfo, serve
    from ddsh.service.settings import Settings

__all__ = ["ServerInfo", "Settings", "create_app", "find_token", "serve"]

_HOMES: Mapping[str, str] = {
    "ServerInfo": "ddsh.service.server",
    "Settings": "ddsh.service.settings",
    "create_app": "ddsh.service.app",
    "find_token": "ddsh.service.security",
    "serve": "ddsh.service.server",
}
__getattr__ = lazy(__name__, _HOMES)
