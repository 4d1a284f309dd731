"""Example queries of a result with the images they retrieve."""

import io
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from pydantic import BaseModel, PrivateAttr

from ddsh.codes import BinaryCodes
from ddsh.datasets import Dataset, Split
from ddsh.errors import ArtefactError
from ddsh.index.rerank import Outputs, similarity_to
from ddsh.labels import MultiLabels
from ddsh.storage import Manifest, atomic_write

__all__ = ["Example", "Examples", "draw_examples"]

TILE = 32
N_HITS = 20
MAX_QUERIES = 20
_QUALITY = 85


class Example(BaseModel):
    """A query and its nearest images.

    Attributes
    ----------
    row : int
        Row of the query in the dataset.
    label : str
        Classes of the query.
    hits : list of int
        Rows of the nearest images.
    distances : list of int
        Hamming distances of the hits.
    labels : list of str
        Classes of the hits.
    relevant : list of bool
        Whether each hit shares a class with the query.
    """

    row: int
    label: str
    hits: list[int]
    distances: list[int]
    labels: list[str]
    relevant: list[bool]


class Examples(Manifest):
    """Example queries with a sheet of tiles, one row per query.

    A row has the query and its hits. Written as a JSON file and a JPEG of the same name.

    Attributes
    ----------
    tile : int
        Side of a tile in pixels.
    columns : int
        Tiles in a row.
    queries : list of Example
        The rows of the sheet.
    """

    tile: int
    columns: int
    queries: list[Example]
    _jpeg: bytes = PrivateAttr(b"")

    @property
    def jpeg(self) -> bytes:
        """The sheet of tiles, encoded as JPEG."""
        return self._jpeg

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the JPEG next to `path`, then `path` itself."""
        with atomic_write(Path(path).with_suffix(".jpg")) as file:
            file.write(self._jpeg)
        super().write(path)

    @classmethod
    def read(cls, path: str | os.PathLike[str], **options: Any) -> Self:  # noqa: ANN401 -- see Manifest.read
        """Read the examples and their sheet."""
        examples = super().read(path, **options)
        sheet = Path(path).with_suffix(".jpg")
        try:
            examples._jpeg = sheet.read_bytes()
        except OSError as error:
            raise ArtefactError(f"{sheet} cannot be read ({error.strerror or error}).") from error
        return examples


def draw_examples(dataset: Dataset, split: Split, query: Outputs, database: Outputs) -> Examples | None:
    """Return the first query of each class with its nearest images.

    Codes decide the order, and real outputs that of images at equal distance: in the order of the database all methods
    with good codes would show the same images.

    Parameters
    ----------
    dataset : Dataset
        The images.
    split : Split
        Its query and database rows.
    query, database : ndarray, shape (n, n_bits)
        Real outputs of the query and of the database.

    Returns
    -------
    Examples or None
        At most `MAX_QUERIES` queries; None if no query has a class.
    """
    labels = dataset.labels.take(split.query)
    firsts = [int(np.flatnonzero(labels.having(label))[0]) for label in labels.classes()[:MAX_QUERIES].tolist()]
    query_codes, database_codes = BinaryCodes.from_outputs(query), BinaryCodes.from_outputs(database)
    queries = []
    for place in dict.fromkeys(firsts):
        distances = query_codes[[place]].hamming(database_codes)[0]
        nearest = np.lexsort((-similarity_to(query[place], database), distances))[:N_HITS]
        row, hits = split.query[[place]], split.database[nearest]
        queries.append(
            Example(
                row=int(row[0]),
                label=_class_names(dataset, row)[0],
                hits=hits.tolist(),
                distances=distances[nearest].tolist(),
                labels=_class_names(dataset, hits),
                relevant=dataset.labels.take(row).similar(dataset.labels.take(hits))[0].tolist(),
            )
        )
    if not queries:
        return None
    rows = [[example.row, *example.hits] for example in queries]
    sheet = Pillow.new("RGB", (TILE * len(rows[0]), TILE * len(rows)))
    for y, numbers in enumerate(rows):
        for x, number in enumerate(numbers):
            image = dataset.images[number]
            picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image).convert("RGB")
            if picture.size != (TILE, TILE):
                picture = picture.resize((TILE, TILE), Pillow.Resampling.BICUBIC)
            sheet.paste(picture, (TILE * x, TILE * y))
    file = io.BytesIO()
    sheet.save(file, "JPEG", quality=_QUALITY)
    examples = Examples(tile=TILE, columns=len(rows[0]), queries=queries)
    examples._jpeg = file.getvalue()
    return examples


def _class_names(dataset: Dataset, rows: NDArray[np.int64]) -> list[str]:
    """Return the classes of the given rows as text."""
    labels = dataset.labels.take(rows)
    if isinstance(labels, MultiLabels):
        return [", ".join(dataset.class_names[column] for column in np.flatnonzero(row)) for row in labels.to_array()]
    return [dataset.class_names[label] for label in labels.to_array().tolist()]
