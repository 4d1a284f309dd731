"""What a client may ask for, as the address says it; anything else is refused by name."""

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from ddsh.codes import MAX_BITS
from ddsh.images import MAX_THUMBNAIL
from ddsh.search.indexer import MAX_LABEL, MAX_METADATA_BYTES

MAX_ID = 2**63 - 1
N_SAMPLES = 100

Id = Annotated[int, Path(ge=0, le=MAX_ID, description="The image's number.")]
Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]


class Asked(BaseModel, frozen=True, extra="forbid"):
    """How to search."""

    k: int = Field(20, ge=1, description="How many images to return at most.")
    radius: int | None = Field(None, ge=0, le=MAX_BITS, description="In how many bits codes may differ at most.")
    label: Label | None = Field(None, description="Return only images that carry this label.")
    rerank: bool = Field(False, description="Put near ties in the order of the model's real outputs.")


class AskedById(Asked, frozen=True, extra="forbid"):
    """How to search from an image of the index."""

    id: int = Field(ge=0, le=MAX_ID, description="The number of an image in the index.")


class Size(BaseModel, frozen=True, extra="forbid"):
    """How large a thumbnail is to be."""

    side: int = Field(256, ge=1, le=MAX_THUMBNAIL, description="Pixels of the longer side at most.")


class Sample(BaseModel, frozen=True, extra="forbid"):
    """How many images to draw."""

    n: int = Field(12, ge=1, le=N_SAMPLES, description="How many images.")


class Described(BaseModel, frozen=True, extra="forbid"):
    """What to keep with an image."""

    label: list[Label] = Field([], max_length=100, description="A label; may be repeated.")
    metadata: str | None = Field(None, max_length=MAX_METADATA_BYTES, description="A JSON object to keep with it.")
