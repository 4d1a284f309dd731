"""HTTP service: an image search API and a search page for the browser."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.service.app import create_app
    from ddsh.service.security import find_token
    from ddsh.service.server import ServerInfo, serve
    from ddsh.service.settings import Settings
else:
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "app": ["create_app"],
            "server": ["ServerInfo", "serve"],
            "security": ["find_token"],
            "settings": ["Settings"],
        },
    )

__all__ = ["ServerInfo", "Settings", "create_app", "find_token", "serve"]
