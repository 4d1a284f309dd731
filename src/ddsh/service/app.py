"""The FastAPI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import ddsh
from ddsh.search import ImageSearch
from ddsh.service.error_handlers import EXCEPTION_HANDLERS
from ddsh.service.handlers import ServiceState
from ddsh.service.middleware import ServiceMiddleware
from ddsh.service.removed_items import RemovedItems
from ddsh.service.routes import router
from ddsh.service.settings import Settings

__all__ = ["create_app"]


def create_app(
    search: ImageSearch,
    settings: Settings,
    hosts: frozenset[str] | None = None,
    removed: RemovedItems | None = None,
) -> FastAPI:
    """Create the FastAPI application.

    Parameters
    ----------
    search : ImageSearch
        An open search index. The caller closes it when the application has stopped.
    settings : Settings
        Limits and access token.
    hosts : frozenset of str, optional
        Accepted names in the ``Host`` header, see :func:`ddsh.service.middleware.allowed_hosts`.
        All are accepted by default.
    removed : RemovedItems, optional
        Removed images that can be restored; by default those that this application removes.

    Returns
    -------
    FastAPI
        The application.
    """
    state = ServiceState(search, settings, removed)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        """Stop the workers when the server stops."""
        state.decoder.start()
        yield
        state.close()

    app = FastAPI(
        title="ddsh",
        version=ddsh.__version__,
        description="Content-based image search with short binary codes.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=dict(EXCEPTION_HANDLERS),
    )
    app.state.service = state
    app.include_router(router)
    app.add_middleware(ServiceMiddleware, metrics=state.metrics, hosts=hosts)
    return app
