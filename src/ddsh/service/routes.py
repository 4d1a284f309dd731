"""The API."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse

from ddsh.service.answers import Added, Alive, Answer, Facts, Item, Ready, Refusal, Removed
from ddsh.service.arguments import Asked, AskedById, Described, Id, Sample, Size
from ddsh.service.desk import Desk, desk_of
from ddsh.service.metrics import MEDIA_TYPE
from ddsh.service.problems import Problem
from ddsh.service.security import check_token
from ddsh.service.uploads import REQUEST_BODY, read_upload

_REFUSED: dict[int | str, dict[str, Any]] = {"4XX": {"model": Refusal}, "503": {"model": Refusal}}
_PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/*": {}}}}
_CACHED = {"Cache-Control": "private, max-age=300"}
_UPLOAD = {"requestBody": dict(REQUEST_BODY)}

router = APIRouter(responses=_REFUSED)
TheDesk = Annotated[Desk, Depends(desk_of)]


@router.get("/search", tags=["search"])
async def search_from_an_image_of_the_index(asked: Annotated[AskedById, Query()], desk: TheDesk) -> Answer:
    """Find the images most similar to one of the index, which finds itself, too."""
    return await desk.lookups.do(lambda: desk.find_from(asked.id, asked))


@router.post("/search", tags=["search"], openapi_extra=_UPLOAD)
async def search_by_upload(request: Request, asked: Annotated[Asked, Query()], desk: TheDesk) -> Answer:
    """Find the images most similar to the one in the body, or in the field 'image' of a form; it is not kept."""
    with desk.encodes.place():
        upload = await read_upload(request, desk.settings)
        return await desk.encodes.run(lambda: desk.find_like(upload.image(), asked))


@router.get("/info", tags=["search"])
async def facts_about_the_index(desk: TheDesk) -> Facts:
    """Return facts about the index and the limits of this service; they may be some seconds old."""
    return await desk.lookups.do(desk.facts)


@router.get("/samples", tags=["search"])
async def some_images(asked: Annotated[Sample, Query()], desk: TheDesk) -> list[Item]:
    """Return some images of the index, drawn at random: something to start from."""
    return [Item.of(entry) for entry in await desk.lookups.do(lambda: desk.sample(asked.n))]


@router.get("/images/{id}", tags=["images"], response_class=FileResponse, responses=_PICTURE)
async def the_file_of_an_image(id: Id, desk: TheDesk) -> FileResponse:  # noqa: A002 -- the name in the address
    """Return the file of an image."""
    entry, kind = await desk.lookups.do(lambda: desk.file_of(id))
    name = Item.of(entry).name
    return FileResponse(entry.path, headers=_CACHED, media_type=kind, filename=name, content_disposition_type="inline")


@router.get("/images/{id}/thumbnail", tags=["images"], response_class=Response, responses=_PICTURE)
async def a_small_copy_of_an_image(
    request: Request,
    id: Id,  # noqa: A002
    asked: Annotated[Size, Query()],
    desk: TheDesk,
) -> Response:
    """Return a small JPEG of an image."""
    entry = await desk.lookups.do(lambda: desk.entry(id))
    headers = _CACHED | {"ETag": f'"{entry.sha256[:32]}-{asked.side}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    data = await desk.pictures.do(lambda: desk.thumbnail(entry, asked.side))
    return Response(data, media_type="image/jpeg", headers=headers)


@router.get("/items/{id}", tags=["items"])
async def what_is_known_of_an_image(id: Id, desk: TheDesk) -> Item:  # noqa: A002
    """Return what is known of an image."""
    return Item.of(await desk.lookups.do(lambda: desk.entry(id)))


@router.post("/items", tags=["items"], status_code=201, openapi_extra=_UPLOAD, dependencies=[Depends(check_token)])
async def add_an_image(
    request: Request, response: Response, asked: Annotated[Described, Query()], desk: TheDesk
) -> Added:
    """Add the image in the body, or in the field 'image' of a form; it is kept in the folder of the index."""
    metadata = _metadata(asked.metadata)
    with desk.changes.place():
        upload = await read_upload(request, desk.settings)
        added = await desk.changes.run(lambda: desk.add(upload.image(), asked.label, metadata))
    response.status_code = 201 if added.new else 200
    return added


@router.delete("/items/{id}", tags=["items"], dependencies=[Depends(check_token)])
async def remove_an_image(id: Id, desk: TheDesk) -> Removed:  # noqa: A002
    """Remove an image from the index; a file that the index did not make itself stays."""
    await desk.changes.do(lambda: desk.remove(id))
    return Removed(id)


@router.get("/health", tags=["operation"])
async def whether_the_process_lives() -> Alive:
    """Return at once, whatever the index does."""
    return Alive()


@router.get("/ready", tags=["operation"])
async def whether_requests_can_be_answered(desk: TheDesk) -> Ready:
    """Return how many images there are; 503 while the index cannot be read."""
    return Ready(await desk.lookups.do(desk.n_images))


@router.get("/metrics", tags=["operation"], response_class=Response)
async def numbers_for_prometheus(desk: TheDesk) -> Response:
    """Return requests by route and status, a histogram of their times, and the number of images."""
    n_images = await desk.lookups.do(desk.n_images)
    return Response(desk.metrics.text(n_images), headers={"Content-Type": MEDIA_TYPE})


def _metadata(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise Problem(422, 'metadata must be a JSON object, such as {"taken": 2024}.')
    return metadata
