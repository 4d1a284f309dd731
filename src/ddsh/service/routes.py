"""Routes: paths and methods of the API, and the endpoint of each."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute

from ddsh.service import handlers
from ddsh.service.schemas import (
    AddResponse,
    ErrorResponse,
    ImageIds,
    LabelsRequest,
    RepeatedSearchParameters,
    SearchResponse,
    describe_query,
)
from ddsh.service.security import require_token
from ddsh.service.uploads import REQUEST_BODY, describe_json

__all__ = ["router"]

_ERRORS: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorResponse}, "503": {"model": ErrorResponse}}
_IMAGE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/*": {}}}}
_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "The client has the thumbnail already."}}
_KNOWN: dict[int | str, dict[str, Any]] = {200: {"model": AddResponse, "description": "The image was indexed already."}}
_UPLOAD = {"requestBody": dict(REQUEST_BODY)}
_TOKEN = [Depends(require_token)]


class _RequestRoute(APIRoute):
    """A route whose endpoint takes the request and nothing else; FastAPI resolves no dependencies for it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint itself."""
        return self.endpoint


router = APIRouter(responses=_ERRORS)

router.add_api_route(
    "/search",
    handlers.search_again,
    methods=["GET"],
    tags=["search"],
    response_model=SearchResponse,
    openapi_extra=describe_query(RepeatedSearchParameters),
    route_class_override=_RequestRoute,
)
router.post("/search", tags=["search"], response_model=SearchResponse, openapi_extra=_UPLOAD)(handlers.search_by_upload)
router.get("/info", tags=["search"])(handlers.get_info)
router.get("/samples", tags=["search"])(handlers.get_samples)
router.get("/points", tags=["search"])(handlers.get_points)

router.get("/images/{id}", tags=["images"], response_class=FileResponse, responses=_IMAGE)(handlers.get_image)
router.get("/images/{id}/thumbnail", tags=["images"], response_class=Response, responses={**_IMAGE, **_NOT_MODIFIED})(
    handlers.get_thumbnail
)

router.get("/items/{id}", tags=["items"])(handlers.get_item)
router.post("/items", tags=["items"], status_code=201, responses=_KNOWN, openapi_extra=_UPLOAD, dependencies=_TOKEN)(
    handlers.add_item
)
router.post("/items/labels", tags=["items"], openapi_extra=describe_json(LabelsRequest), dependencies=_TOKEN)(
    handlers.change_labels
)
router.post("/items/remove", tags=["items"], openapi_extra=describe_json(ImageIds), dependencies=_TOKEN)(
    handlers.remove_items
)
router.post("/items/restore", tags=["items"], openapi_extra=describe_json(ImageIds), dependencies=_TOKEN)(
    handlers.restore_items
)
router.delete("/items/{id}", tags=["items"], dependencies=_TOKEN)(handlers.remove_item)

router.get("/health", tags=["operation"])(handlers.get_health)
router.get("/ready", tags=["operation"])(handlers.get_readiness)
router.get("/metrics", tags=["operation"], response_class=Response)(handlers.get_metrics)

router.get("/", include_in_schema=False)(handlers.search_page)
router.get("/map", include_in_schema=False)(handlers.map_page)
router.get("/docs", include_in_schema=False)(handlers.docs_page)
router.get("/static/{name}", include_in_schema=False)(handlers.static_file)
