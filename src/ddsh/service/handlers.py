"""Endpoints of the API and of the pages.

Blocking work runs in the thread pools of :class:`ServiceState`, which limit how much of it runs at a time.
"""

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path, PurePath
from threading import Lock
from types import MappingProxyType
from typing import Annotated, Any

import orjson
from fastapi import Depends, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from ddsh.errors import BrokenImage, DdshError, InvalidInput, UnknownName
from ddsh.images import Image, check_file, extension_of
from ddsh.search import Entry, ImageSearch, LabelChange, LabelReport, QueryCode, SearchInfo
from ddsh.service.decoder import Decoder
from ddsh.service.limits import BoundedPool, Bytes
from ddsh.service.middleware import Metrics
from ddsh.service.removed_items import RemovedItems
from ddsh.service.response_cache import ExpiringValue, cache_bytes
from ddsh.service.schemas import (
    MAX_OFFSET,
    AddResponse,
    HealthResponse,
    ImageId,
    ImageIds,
    InfoResponse,
    ItemResponse,
    LabelChangeSchema,
    LabelledItem,
    LabelsRequest,
    LabelsResponse,
    NewItemParameters,
    PointsResponse,
    ReadyResponse,
    RemoveItemsResponse,
    RemoveResponse,
    RepeatedSearchParameters,
    RestoreItemsResponse,
    SampleParameters,
    SearchParameters,
    ThumbnailParameters,
)
from ddsh.service.settings import Settings
from ddsh.service.uploads import FORM_OVERHEAD, extract_image, read_body, read_json

__all__ = [
    "ServiceState",
    "State",
    "add_item",
    "change_labels",
    "docs_page",
    "get_health",
    "get_image",
    "get_info",
    "get_item",
    "get_metrics",
    "get_points",
    "get_readiness",
    "get_samples",
    "get_state",
    "get_thumbnail",
    "map_page",
    "remove_item",
    "remove_items",
    "restore_items",
    "search_again",
    "search_by_upload",
    "search_page",
    "static_file",
]

logger = logging.getLogger(__name__)

_READ_THREADS = 4
_THUMBNAIL_THREADS = 2  # decoding a large photo takes much memory
_MAX_WAITING_READS = 256
_MAX_WAITING_CHANGES = 16
_THUMBNAIL_CACHE_BYTES = 64_000_000
_MAX_SUGGESTED_LABELS = 50
_IMAGE_HEADERS: Mapping[str, str] = MappingProxyType({"Cache-Control": "private, max-age=300"})
_IMAGE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".bmp": "image/bmp",
        ".gif": "image/gif",
        ".jpg": "image/jpeg",
        ".png": "image/png",
        ".tif": "image/tiff",
        ".webp": "image/webp",
    }
)
_STATIC_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)


class ServiceState:
    """Shared state of the endpoints: index, thread pools, caches and metrics.

    Parameters
    ----------
    search : ImageSearch
        The search index.
    settings : Settings
        Limits and access token.
    removed : RemovedItems, optional
        Images that were removed through another process of the same service.
    """

    def __init__(self, search: ImageSearch, settings: Settings, removed: RemovedItems | None = None) -> None:
        self.search, self.settings = search, settings
        self.metrics = Metrics()
        self.decoder = Decoder(settings, self.metrics.decoding.observe)
        self.encoding = BoundedPool(settings.workers, settings.max_waiting, settings.timeout)
        self.reading = BoundedPool(_READ_THREADS, _MAX_WAITING_READS, settings.timeout)
        # Threads that wait for each other take a sixth of the time of a search.
        search_threads = _READ_THREADS if search.parallel_searches else 1
        self.searching = BoundedPool(search_threads, _MAX_WAITING_READS, settings.timeout)
        self.thumbnails = BoundedPool(_THUMBNAIL_THREADS, _MAX_WAITING_READS, settings.timeout)
        self.changes = BoundedPool(1, _MAX_WAITING_CHANGES, settings.timeout)
        self.bodies = Bytes((settings.workers + settings.max_waiting) * (settings.max_upload_bytes + FORM_OVERHEAD))
        pools = {"encoding": self.encoding, "reading": self.reading, "searching": self.searching}
        pools |= {"thumbnails": self.thumbnails, "changes": self.changes}
        for name, pool in pools.items():
            self.metrics.queue.labels(name).set_function(partial(getattr, pool, "n_requests"))
        self._own_removed = RemovedItems(search)
        self.removed = removed or self._own_removed
        self.info: ExpiringValue[SearchInfo] = ExpiringValue(search.info)

        @cache_bytes(_THUMBNAIL_CACHE_BYTES, key=lambda entry, side: (entry.sha256, side))
        def thumbnail(entry: Entry, side: int) -> bytes:
            """Return a thumbnail of an image."""
            return self.decoder.thumbnail(entry.path, side)

        self.thumbnail = thumbnail
        self._points: tuple[int, PointsResponse] | None = None
        self._points_lock = Lock()

    def points(self) -> PointsResponse:
        """Return the map; it is computed once for each state of the index."""
        with self._points_lock:
            generation = self.info.get().generation
            if self._points is None or self._points[0] != generation:
                self._points = generation, PointsResponse.create(self.search.layout())
            return self._points[1]

    def close(self) -> None:
        """Stop the thread pools and the decoder; other running calls finish in the background."""
        self.decoder.close()
        for pool in (self.encoding, self.reading, self.searching, self.thumbnails, self.changes):
            pool.close()
        self._own_removed.close()


async def get_state(request: Request) -> ServiceState:
    """Return the shared state (FastAPI dependency)."""
    state: ServiceState = request.app.state.service
    return state


State = Annotated[ServiceState, Depends(get_state)]


async def search_again(request: Request) -> Response:
    """Find the images most similar to an image of the index, which is itself the first, or to an earlier query."""
    state, parameters = await get_state(request), _read_search(request)

    def search() -> Response:
        """Search with the codes of the query."""
        if parameters.id is None:
            return _search(state, QueryCode.from_text(parameters.query or ""), parameters)
        try:
            return _search(state, parameters.id, parameters)
        except InvalidInput:
            if state.search.ids(parameters.id - 1, 1) != [parameters.id]:
                raise _unknown(parameters.id) from None
            raise

    return await state.searching.run_in_slot(search)


async def search_by_upload(
    request: Request, parameters: Annotated[SearchParameters, Query()], state: State
) -> Response:
    """Find the images most similar to an uploaded image, which is not stored."""
    state.encoding.require_slot()  # the client need not send its body
    with state.bodies.reserved() as hold:
        body = await read_body(request, state.settings, hold)

        def search() -> Response:
            """Search with the image of the body."""
            data = extract_image(request, body, state.settings)
            image = state.decoder.decode(data)
            return _search(state, image, parameters, hashlib.sha256(data).hexdigest())

        return await state.encoding.run_in_slot(search)


async def get_info(state: State) -> InfoResponse:
    """Return statistics of the index and limits of the service; they may be some seconds old."""
    return InfoResponse.create(await state.reading.run_in_slot(state.info.get), state.settings)


async def get_samples(parameters: Annotated[SampleParameters, Query()], state: State) -> list[ItemResponse]:
    """Return random images of the index."""

    def draw() -> list[Entry]:
        """Return the entries of a sample."""
        chosen = state.search.sample(
            parameters.n, label=parameters.label, all_labels=parameters.all_labels, text=parameters.text
        )
        return state.search.entries(chosen)

    entries = await state.reading.run_in_slot(draw)
    return [ItemResponse.model_validate(entry) for entry in entries]


async def get_points(state: State) -> PointsResponse:
    """Return the positions of all images on a map, coloured by label; of very many images those of a sample."""
    return await state.reading.run_in_slot(state.points)


async def get_image(id: ImageId, state: State) -> FileResponse:  # noqa: A002 -- the name in the URL
    """Return the file of an image."""

    def find_file() -> tuple[Entry, str | None]:
        """Return the entry and the media type by the file's first bytes."""
        entry = _get_entry(state.search, id)
        try:
            check_file(entry.path)
            with Path(entry.path).open("rb") as file:
                return entry, _IMAGE_TYPES.get(extension_of(file.read(16)))
        except (BrokenImage, OSError):
            return entry, None

    entry, media_type = await state.reading.run_in_slot(find_file)
    if media_type is None:
        raise _unreadable(id)
    return _WholeFile(
        entry.path,
        headers={**_IMAGE_HEADERS, "Accept-Ranges": "none"},
        media_type=media_type,
        filename=entry.name,
        content_disposition_type="inline",
    )


class _WholeFile(FileResponse):
    """A file that is sent whole: a request may ask for thousands of ranges, and those it cannot have are no JSON."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, whatever part of it is asked for."""
        headers = [each for each in scope["headers"] if each[0] != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


async def get_thumbnail(
    request: Request,
    id: ImageId,  # noqa: A002
    parameters: Annotated[ThumbnailParameters, Query()],
    state: State,
) -> Response:
    """Return a JPEG thumbnail of an image."""
    entry = await state.reading.run_in_slot(_get_entry, state.search, id)
    headers = {**_IMAGE_HEADERS, "ETag": f'"{entry.sha256[:32]}-{parameters.side}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    try:
        data = await state.thumbnails.run_in_slot(state.thumbnail, entry, parameters.side)
    except BrokenImage:
        raise _unreadable(id) from None
    return Response(data, media_type="image/jpeg", headers=headers)


async def get_item(id: ImageId, state: State) -> ItemResponse:  # noqa: A002
    """Return name, size, labels, metadata and checksum of an image."""
    return ItemResponse.model_validate(await state.reading.run_in_slot(_get_entry, state.search, id))


async def add_item(
    request: Request, response: Response, parameters: Annotated[NewItemParameters, Query()], state: State
) -> AddResponse:
    """Add an uploaded image, which is stored in the folder of the index."""
    metadata: Any = None
    if parameters.metadata is not None:
        try:
            metadata = json.loads(parameters.metadata)
        except (ValueError, RecursionError):
            metadata = None
        if not isinstance(metadata, dict):
            raise HTTPException(422, 'metadata must be a JSON object, such as {"taken": 2024}.')

    def add() -> AddResponse:
        """Check the image, then add it."""
        data = extract_image(request, body, state.settings)
        pixels = state.decoder.decode(data)
        report = state.search.add(
            [data], labels=[parameters.label or None], metadata=[metadata], decode=lambda _: pixels
        )
        if report.broken:
            raise InvalidInput(f"{report.broken[0].reason}.")
        state.info.clear()
        ids = (*report.added, *report.moved, *report.changed, *report.known)
        return AddResponse(id=ids[0], new=bool(report.added))

    state.changes.require_slot()
    with state.bodies.reserved() as hold:
        body = await read_body(request, state.settings, hold)
        added = await state.changes.run_in_slot(add)
    response.status_code = 201 if added.new else 200
    return added


async def remove_item(id: ImageId, state: State) -> RemoveResponse:  # noqa: A002
    """Remove an image from the index. A file outside the index's folder is kept."""

    def remove() -> None:
        """Remove the image if it exists."""
        _get_entry(state.search, id)
        state.search.remove([id])
        state.info.clear()

    await state.changes.run_in_slot(remove)
    return RemoveResponse(id=id)


async def change_labels(request: Request, state: State) -> LabelsResponse:
    """Give labels to images and take labels from them, all at once.

    Only the labels that are named change, so two people can label the same images. Repeating a request changes
    nothing.
    """

    def change() -> LabelsResponse:
        """Change the labels and return those that the images have now."""
        asked = [LabelChange(each.ids, each.add, each.remove) for each in body.changes]
        report = state.search.change_labels(asked) if asked else LabelReport()
        state.info.clear()
        entries = state.search.entries(sorted({number for each in asked for number in each.ids}))
        return LabelsResponse(
            changes=[LabelChangeSchema(ids=each.ids, add=each.add, remove=each.remove) for each in report.changes],
            items=[LabelledItem.model_validate(entry) for entry in entries],
            missing=report.missing,
        )

    with state.changes.slot():
        body = await read_json(request, LabelsRequest, state.settings)
        return await state.changes.run(change)


async def remove_items(request: Request, state: State) -> RemoveItemsResponse:
    """Remove images from the index, so that they can be restored for some minutes."""
    with state.changes.slot():
        body = await read_json(request, ImageIds, state.settings)
        removed, missing = await state.changes.run(state.removed.remove, body.ids)
    state.info.clear()
    return RemoveItemsResponse(removed=removed, missing=missing)


async def restore_items(request: Request, state: State) -> RestoreItemsResponse:
    """Restore images that /items/remove removed, with their ids, labels and metadata."""
    with state.changes.slot():
        body = await read_json(request, ImageIds, state.settings)
        restored, missing = await state.changes.run(state.removed.restore, body.ids)
    state.info.clear()
    entries = await state.reading.run_in_slot(state.search.entries, restored)
    return RestoreItemsResponse(items=[ItemResponse.model_validate(entry) for entry in entries], missing=missing)


async def get_health() -> HealthResponse:
    """Return at once: the process is running."""
    return HealthResponse()


async def get_readiness(state: State) -> ReadyResponse:
    """Return the number of images, after a search; 503 while the index cannot be searched."""
    return ReadyResponse(n_images=await state.reading.run_in_slot(state.search.check))


async def get_metrics(state: State) -> Response:
    """Return metrics for Prometheus: requests, latencies, queues, decoding, size and state of the index."""

    def measure() -> None:
        """Search once, and note the size of the index."""
        metrics = state.metrics
        try:
            metrics.images.set(state.search.check())
            info = state.info.get()
        except DdshError as error:
            logger.error("%s", error)
            metrics.ready.set(0)
        else:
            metrics.ready.set(1)
            metrics.code_bytes.set(info.n_bytes)
            metrics.generation.set(info.generation)

    await state.reading.run_in_slot(measure)
    return Response(generate_latest(state.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def search_page(request: Request) -> Response:
    """Return the search page."""
    return await static_file(request, "index.html")


async def map_page(request: Request) -> Response:
    """Return the map of all images."""
    return await static_file(request, "map.html")


async def docs_page(request: Request) -> Response:
    """Return the documentation of the API."""
    return await static_file(request, "docs.html")


async def static_file(request: Request, name: str) -> Response:
    """Return a file of the pages; browsers revalidate it, so that an upgrade takes effect at once."""
    if name not in _static_files():
        raise HTTPException(404)
    content, media_type, etag = _static_files()[name]
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


@cache
def _static_files() -> Mapping[str, tuple[bytes, str, str]]:
    """Return content, media type and ETag of every file of the pages.

    The ETag is a hash of the content: files of an installed package may keep their time over an upgrade.
    """
    contents = {file.name: file.read_bytes() for file in files("ddsh.service").joinpath("static").iterdir()}
    return {
        name: (content, _STATIC_TYPES[PurePath(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
        if PurePath(name).suffix in _STATIC_TYPES
    }


def _read_search(request: Request) -> RepeatedSearchParameters:
    """Read the query parameters of a search, all at once; FastAPI reads them one by one, which takes longer."""
    given = request.query_params
    values = {name: given.getlist(name) if name == "label" else given[name] for name in given}
    try:
        return RepeatedSearchParameters.model_validate(values)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


def _search(
    state: ServiceState, query: Image | int | QueryCode, parameters: SearchParameters, sha256: str | None = None
) -> Response:
    """Search with an image, with the id of an indexed one, or with an earlier query.

    The response is a :class:`~ddsh.service.schemas.SearchResponse`. It is written without building one: for 100
    hits, validating what this function has just made takes as long as all else that FastAPI does.
    """
    started, settings = time.perf_counter(), state.settings
    if parameters.k > settings.max_k:
        raise HTTPException(422, f"k must be {settings.max_k:,} at most; got {parameters.k:,}.")
    if parameters.offset + parameters.k > MAX_OFFSET:
        raise HTTPException(422, f"offset and k must be {MAX_OFFSET:,} together at most; filter the results instead.")
    labels = state.info.get().labels if parameters.label else {}
    if any(label not in labels for label in parameters.label):  # perhaps it was given a moment ago
        labels = state.search.label_counts()
    for label in parameters.label:
        if label not in labels:
            if len(labels) <= _MAX_SUGGESTED_LABELS:  # finding a similar name among very many is slow
                raise UnknownName("label", label, labels)
            raise HTTPException(422, f"Unknown label {label!r}; /info lists the most frequent labels.")
    result = state.search.query(
        query,
        parameters.k,
        offset=parameters.offset,
        by=parameters.by,
        radius=parameters.radius,
        min_similarity=parameters.min_similarity,
        label=parameters.label,
        all_labels=parameters.all_labels,
        text=parameters.text,
        sha256=sha256,
    )
    hits = [
        {
            "id": hit.entry.id,
            "name": hit.entry.name,
            "labels": hit.entry.labels,
            "width": hit.entry.width,
            "height": hit.entry.height,
            "distance": hit.distance,
            "label_distance": hit.label_distance,
            "look_distance": hit.look_distance,
            "similarity": hit.similarity,
            "match": hit.match,
            "is_identical": hit.is_identical,
            "bits": hit.bits,
            "flipped": hit.flipped,
        }
        for hit in result
    ]
    content = {
        "hits": hits,
        "bits": result.code,
        "n_bits": result.n_bits,
        "k": parameters.k,
        "by": result.by,
        "radius": parameters.radius,
        "min_similarity": parameters.min_similarity,
        "label": parameters.label,
        "all_labels": parameters.all_labels,
        "text": parameters.text,
        "offset": parameters.offset,
        "has_more": result.has_more and parameters.offset + 2 * parameters.k <= MAX_OFFSET,
        "nothing_similar": result.nothing_similar,
        "query": "" if result.query is None else result.query.to_text(),
        "seconds": round(time.perf_counter() - started, 6),
    }
    return Response(orjson.dumps(content), media_type="application/json")


def _get_entry(search: ImageSearch, image: int) -> Entry:
    """Return an image of the index, or status 404."""
    entries = search.entries([image])
    if not entries:
        raise _unknown(image)
    return entries[0]


def _unknown(image: int) -> HTTPException:
    return HTTPException(404, f"No image has the id {image}.")


def _unreadable(image: int) -> HTTPException:
    return HTTPException(404, f"The file of image {image} cannot be read; the operator can run: ddsh index refresh")
