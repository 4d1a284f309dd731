"""Pydantic models of query parameters and JSON responses."""

from collections import Counter
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ddsh.calibration import CUT_OFF
from ddsh.codes import MAX_BITS
from ddsh.images import MAX_THUMBNAIL
from ddsh.index.pairs import By, PairDistance
from ddsh.search import SearchInfo
from ddsh.search.indexer import MAX_LABEL, MAX_METADATA_BYTES
from ddsh.search.layout import MapLayout
from ddsh.search.results import Match
from ddsh.service.settings import Settings

__all__ = [
    "MAX_IDS",
    "MAX_LISTED_LABELS",
    "MAX_OFFSET",
    "MAX_QUERY",
    "MAX_TEXT",
    "AddResponse",
    "ErrorResponse",
    "HealthResponse",
    "HitResponse",
    "ImageId",
    "ImageIds",
    "InfoResponse",
    "ItemResponse",
    "Label",
    "LabelChangeSchema",
    "LabelledItem",
    "LabelsRequest",
    "LabelsResponse",
    "NewItemParameters",
    "PointsResponse",
    "ReadyResponse",
    "RemoveItemsResponse",
    "RemoveResponse",
    "RepeatedSearchParameters",
    "RestoreItemsResponse",
    "SampleParameters",
    "SearchParameters",
    "SearchResponse",
    "ThumbnailParameters",
    "describe_query",
]

MAX_LISTED_LABELS = 1000
"""Maximum number of labels in :class:`InfoResponse`."""

MAX_IDS = 1000
"""Maximum number of images that one request changes."""

MAX_OFFSET = 10_000
"""Maximum number of results to page through."""

MAX_TEXT = 200
"""Maximum number of characters of the words to filter by."""

MAX_QUERY = 1000
"""Maximum length of the text of an earlier query."""

_MAX_ID = 2**63 - 1
_MAX_CHANGES = 1000
_MAX_LABELS = 100
_MAX_DISTANCE = 8 * MAX_BITS  # of both codes at their longest

ImageId = Annotated[int, Path(ge=0, le=_MAX_ID, description="Id of an image in the index.")]
_Id = Annotated[int, Field(ge=0, le=_MAX_ID)]
Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]


class FilterParameters(BaseModel):
    """Query parameters that say which images may be returned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: list[Label] = Field([], max_length=_MAX_LABELS, description="Return only images with one of these labels.")
    all_labels: bool = Field(False, description="Return only images with all of these labels.")
    text: str | None = Field(
        None,
        max_length=MAX_TEXT,
        description="Return only images with each of these words in a label, the file name or the metadata.",
    )


class SearchParameters(FilterParameters):
    """Query parameters of a search."""

    k: int = Field(20, ge=1, description="Maximum number of results.")
    by: By = Field("both", description="Order by what images show (label), what they look like (look), or both.")
    radius: int | None = Field(None, ge=0, le=_MAX_DISTANCE, description="Maximum distance of a result, in that order.")
    min_similarity: float | None = Field(None, ge=0, le=100, description="Minimum similarity of a result, in per cent.")
    offset: int = Field(0, ge=0, description="Number of results to leave out at the start.")


class RepeatedSearchParameters(SearchParameters):
    """Query parameters of a search without an upload: with an image of the index, or with an earlier query."""

    id: int | None = Field(None, ge=0, le=_MAX_ID, description="Id of the query image.", examples=[17])
    query: str | None = Field(
        None,
        max_length=MAX_QUERY,
        pattern="^[A-Za-z0-9_-]+$",
        description="The query of an earlier response, instead of an id.",
    )

    @model_validator(mode="after")
    def check_query(self) -> Self:
        """Require one query image."""
        if (self.id is None) == (self.query is None):
            raise ValueError("give id or query, one of them")
        return self


def describe_query(model: type[BaseModel]) -> dict[str, Any]:
    """Return what OpenAPI says of the query parameters of a model."""
    properties = model.model_json_schema()["properties"]
    parameters = [
        {"name": name, "in": "query", "required": False, "description": schema["description"], "schema": schema}
        for name, schema in properties.items()
    ]
    return {"parameters": parameters}


class ThumbnailParameters(BaseModel):
    """Query parameters of a thumbnail."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    side: int = Field(256, ge=1, le=MAX_THUMBNAIL, description="Maximum width and height in pixels.")


class SampleParameters(FilterParameters):
    """Query parameters of a random sample."""

    n: int = Field(12, ge=1, le=100, description="Number of images.")


class NewItemParameters(BaseModel):
    """Query parameters of a new image."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: list[Label] = Field([], max_length=100, description="A label; may be repeated.")
    metadata: str | None = Field(None, max_length=MAX_METADATA_BYTES, description="A JSON object to store.")


class ItemResponse(BaseModel):
    """An image of the index. Only the file name is returned, never the path."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: int
    name: str = Field(description="File name.")
    labels: tuple[str, ...]
    width: int = Field(description="Width in pixels.")
    height: int = Field(description="Height in pixels.")
    n_bytes: int = Field(description="File size in bytes.")
    sha256: str = Field(description="Checksum of the file.")
    metadata: dict[str, Any]


class HitResponse(BaseModel):
    """One search result."""

    model_config = ConfigDict(frozen=True)

    id: int
    name: str = Field(description="File name.")
    labels: tuple[str, ...]
    width: int = Field(description="Width in pixels.")
    height: int = Field(description="Height in pixels.")
    distance: int = Field(description="Distance to the query, by which the results are ordered.")
    label_distance: int | None = Field(description="Number of label bits that differ; null without label bits.")
    look_distance: int | None = Field(description="Number of look bits that differ; null without look bits.")
    similarity: float | None = Field(
        description="In per cent: what share of images at this distance is relevant; null if that was not learned."
    )
    match: Match | None = Field(
        description="Whether it is the query itself: its entry (query), a copy of its file (file), or another file with"
        " equal pixels (pixels)."
    )
    is_identical: bool = Field(description="Whether the file is the query's, or a copy of it.")
    bits: str = Field(description="Label bits of the image, or look bits without label bits, as zeros and ones.")
    flipped: tuple[int, ...] = Field(description="Positions of the bits that differ from the query.")


class SearchResponse(BaseModel):
    """Search results, nearest first, and the parameters of the search."""

    model_config = ConfigDict(frozen=True)

    hits: list[HitResponse]
    bits: str = Field(description="Label bits of the query, or look bits without label bits, as zeros and ones.")
    n_bits: int = Field(description="Length of this code.")
    k: int
    by: By = Field(description="What ordered the results.")
    radius: int | None
    min_similarity: float | None
    label: list[str]
    all_labels: bool
    text: str | None
    offset: int
    has_more: bool = Field(description="Whether there are further results: add the number of hits to offset.")
    nothing_similar: bool = Field(
        description="Whether even the first result is less similar than the cut-off of /info."
    )
    query: str = Field(description="The codes of the query; search with it again by GET /search?query=.")
    seconds: float = Field(description="Time for decoding, encoding and searching.")


class InfoResponse(BaseModel):
    """Statistics of the index, its most frequent labels, and the limits of the service."""

    model_config = ConfigDict(frozen=True)

    n_images: int = Field(description="Number of images.")
    n_contents: int = Field(description="Number of images with distinct content.")
    n_codes: int = Field(description="Number of distinct codes.")
    n_bits: int = Field(description="Number of label bits; 0 for an index made without labels.")
    look_bits: int = Field(description="Number of look bits; 0 if the model has none.")
    max_distance: int = Field(description="Largest distance in the order by both.")
    n_bytes: int = Field(description="Size of all codes in bytes.")
    n_labels: int = Field(description="Number of labels.")
    labels: dict[str, int] = Field(description="Number of images with each label, most frequent labels only.")
    method: str = Field(description="Hashing method of the model.")
    read_only: bool = Field(description="Whether the index cannot be changed through the service.")
    similarity: Literal["labels", "copies"] | None = Field(
        description="What similarities mean: the share of images with a common label, or of altered copies; null if"
        " they were not learned."
    )
    cut_off: float = Field(description="Similarity in per cent below which the page sets results apart.")
    max_k: int = Field(description="Maximum number of results of a search.")
    max_offset: int = Field(description="Maximum number of results to page through.")
    max_upload_bytes: int = Field(description="Maximum size of an uploaded file.")
    max_pixels: int = Field(description="Maximum number of pixels of an uploaded image.")

    @classmethod
    def create(cls, info: SearchInfo, settings: Settings) -> Self:
        """Combine the statistics of an index with the limits of the service."""
        frequent = sorted(info.labels, key=lambda name: (-info.labels[name], name))[:MAX_LISTED_LABELS]
        return cls(
            n_images=info.n_images,
            n_contents=info.n_contents,
            n_codes=info.n_codes,
            n_bits=info.n_bits,
            look_bits=info.look_bits,
            max_distance=PairDistance(info.n_bits, info.look_bits).largest,
            n_bytes=info.n_bytes,
            n_labels=len(info.labels),
            labels={name: info.labels[name] for name in sorted(frequent)},
            method=info.method,
            read_only=settings.read_only,
            similarity=info.similarity,
            cut_off=CUT_OFF,
            max_k=settings.max_k,
            max_offset=MAX_OFFSET,
            max_upload_bytes=settings.max_upload_bytes,
            max_pixels=settings.max_pixels,
        )


class PointsResponse(BaseModel):
    """Positions of images on a map. The lists have one entry for each image."""

    model_config = ConfigDict(frozen=True)

    n_images: int = Field(description="Number of images in the index; of more than 10,000 a sample is returned.")
    labels: list[str] = Field(description="Labels of these images, most frequent first.")
    ids: list[int]
    x: list[float] = Field(description="Position to the right, 0 to 1.")
    y: list[float] = Field(description="Position upwards, 0 to 1.")
    label: list[int] = Field(description="Position of the image's most frequent label in labels; -1 without labels.")

    @classmethod
    def create(cls, layout: MapLayout) -> Self:
        """Return the positions of a layout, with labels numbered by frequency."""
        counts = Counter(label for labels in layout.labels for label in labels)
        names = sorted(counts, key=lambda name: (-counts[name], name))
        place = {name: number for number, name in enumerate(names)}
        return cls(
            n_images=layout.n_images,
            labels=names,
            ids=layout.ids,
            x=layout.positions[:, 0].round(4).tolist(),
            y=layout.positions[:, 1].round(4).tolist(),
            label=[min((place[label] for label in labels), default=-1) for labels in layout.labels],
        )


class AddResponse(BaseModel):
    """Result of adding an image."""

    id: int
    new: bool = Field(description="False if the image was in the index already.")


class RemoveResponse(BaseModel):
    """Result of removing an image."""

    id: int


class ImageIds(BaseModel):
    """Images to change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra={"examples": [{"ids": [17, 18]}]}
    )

    ids: tuple[_Id, ...] = Field(max_length=MAX_IDS, description="Ids of the images.")


class LabelChangeSchema(ImageIds):
    """Labels to give to images and labels to take from them."""

    add: tuple[Label, ...] = Field((), max_length=_MAX_LABELS, description="Labels to give.")
    remove: tuple[Label, ...] = Field((), max_length=_MAX_LABELS, description="Labels to take.")


class LabelsRequest(BaseModel):
    """Changes of labels, applied all at once. An empty list checks the token and changes nothing."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"changes": [{"ids": [17, 18], "add": ["dog"], "remove": ["cat"]}]}]},
    )

    changes: list[LabelChangeSchema] = Field(max_length=_MAX_CHANGES)

    @model_validator(mode="after")
    def check_total(self) -> Self:
        """Refuse more ids than one request may change."""
        if (total := sum(len(change.ids) for change in self.changes)) > MAX_IDS:
            raise ValueError(f"{total:,} ids, the limit is {MAX_IDS:,} in one request")
        return self


class LabelledItem(BaseModel):
    """The labels of an image."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: int
    labels: tuple[str, ...]


class LabelsResponse(BaseModel):
    """Result of changing labels."""

    changes: list[LabelChangeSchema] = Field(
        description="What really changed. To undo it, send the changes in reverse order, with add and remove swapped."
    )
    items: list[LabelledItem] = Field(description="The labels that the images have now.")
    missing: tuple[int, ...] = Field(description="Ids that are not in the index; others may have removed them.")


class RemoveItemsResponse(BaseModel):
    """Result of removing images."""

    removed: list[int] = Field(description="Ids of the images; /items/restore brings them back for some minutes.")
    missing: list[int] = Field(description="Ids that are not in the index; others may have removed them.")


class RestoreItemsResponse(BaseModel):
    """Result of restoring images."""

    items: list[ItemResponse] = Field(description="The images, which have their ids and labels again.")
    missing: list[int] = Field(description="Ids of images that cannot be restored any more.")


class HealthResponse(BaseModel):
    """The process is running."""

    status: Literal["ok"] = "ok"


class ReadyResponse(BaseModel):
    """The index can be read."""

    n_images: int = Field(description="Number of images.")
    status: Literal["ready"] = "ready"


class ErrorResponse(BaseModel):
    """An error."""

    error: str = Field(description="One line: what is wrong and what to do.")
