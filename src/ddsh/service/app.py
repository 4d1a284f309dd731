"""The service as an ASGI app."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import ddsh
from ddsh.search import ImageSearch
from ddsh.service import pages, problems, routes
from ddsh.service.desk import Desk
from ddsh.service.edge import Edge
from ddsh.service.settings import Settings

_ABOUT = "Find images by what they show, with very short binary codes."


def create_app(search: ImageSearch, settings: Settings, hosts: frozenset[str] | None = None) -> FastAPI:
    """Return the service.

    Parameters
    ----------
    search : ImageSearch
        Where to search; it stays open for as long as the service is used, and is closed by the caller.
    settings : Settings
        The limits, and who may change the index.
    hosts : frozenset of str, optional
        Names that requests may be for; see :func:`ddsh.service.security.names_of`. By default any.
    """
    desk = Desk(search, settings)
    app = FastAPI(
        title="ddsh", version=ddsh.__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=_lifespan
    )
    app.state.desk = desk
    app.include_router(routes.router)
    app.include_router(pages.router)
    problems.install(app)
    app.add_middleware(Edge, metrics=desk.metrics, hosts=hosts)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.desk.close()
