"""What a search shows: one query of each class beside its nearest images, on one sheet."""

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from ddsh.codes import BinaryCodes
from ddsh.datasets.base import Dataset
from ddsh.datasets.protocols import Split
from ddsh.images import Image
from ddsh.labels import MultiLabels

TILE = 32
N_HITS = 20
MAX_QUERIES = 20
_QUALITY = 85


@dataclass(frozen=True)
class Example:
    """A query and its nearest images, ties in the order of the database.

    Parameters
    ----------
    row : int
        The query's row in the dataset.
    label : str
        Its classes.
    hits : list of int
        Rows of the nearest images.
    distances : list of int
        Their Hamming distances.
    labels : list of str
        Their classes.
    relevant : list of bool
        Whether they share a class with the query.
    """

    row: int
    label: str
    hits: list[int]
    distances: list[int]
    labels: list[str]
    relevant: list[bool]


@dataclass(frozen=True)
class Examples:
    """A few queries, and a sheet of tiles with one row for each: the query, then its hits.

    Parameters
    ----------
    tile : int
        Side of a tile in pixels.
    columns : int
        Tiles in a row.
    sheet : str
        The sheet as a ``data:`` address of a JPEG.
    queries : list of Example
        What the rows show.
    """

    tile: int
    columns: int
    sheet: str
    queries: list[Example]


def draw_examples(dataset: Dataset, split: Split, query: BinaryCodes, database: BinaryCodes) -> Examples | None:
    """Return the first query of each class (of up to `MAX_QUERIES` classes) with its nearest images.

    Parameters
    ----------
    dataset : Dataset
        The images.
    split : Split
        Which of them are query and database.
    query, database : BinaryCodes
        Their codes.

    Returns
    -------
    Examples or None
        None where no query has a class.
    """
    places = _one_per_class(dataset, split.query)
    queries = [_example(dataset, split, place, query[[place]], database) for place in places]
    rows = [[example.row, *example.hits] for example in queries]
    return Examples(TILE, len(rows[0]), _sheet(dataset, rows), queries) if rows else None


def _one_per_class(dataset: Dataset, query: NDArray[np.int64]) -> list[int]:
    """Return the place of the first query of each class, none twice."""
    labels = dataset.labels.take(query)
    firsts = [int(np.flatnonzero(labels.having(label))[0]) for label in labels.classes()[:MAX_QUERIES].tolist()]
    return list(dict.fromkeys(firsts))


def _example(dataset: Dataset, split: Split, place: int, code: BinaryCodes, database: BinaryCodes) -> Example:
    distances = code.hamming(database)[0]
    nearest = np.argsort(distances, kind="stable")[:N_HITS]
    row, hits = split.query[[place]], split.database[nearest]
    return Example(
        row=int(row[0]),
        label=_class_names(dataset, row)[0],
        hits=hits.tolist(),
        distances=distances[nearest].tolist(),
        labels=_class_names(dataset, hits),
        relevant=dataset.labels.take(row).similar(dataset.labels.take(hits))[0].tolist(),
    )


def _class_names(dataset: Dataset, rows: NDArray[np.int64]) -> list[str]:
    """Return the classes of some images as text."""
    labels = dataset.labels.take(rows)
    if isinstance(labels, MultiLabels):
        return [", ".join(dataset.class_names[column] for column in np.flatnonzero(row)) for row in labels.to_array()]
    return [dataset.class_names[label] for label in labels.to_array().tolist()]


def _sheet(dataset: Dataset, rows: list[list[int]]) -> str:
    """Return a JPEG with one row of tiles for each row of row numbers, as a ``data:`` address."""
    sheet = Pillow.new("RGB", (TILE * len(rows[0]), TILE * len(rows)))
    for y, numbers in enumerate(rows):
        for x, number in enumerate(numbers):
            sheet.paste(_tile(dataset.images[number]), (TILE * x, TILE * y))
    file = io.BytesIO()
    sheet.save(file, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _tile(image: Image) -> Pillow.Image:
    picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image).convert("RGB")
    return picture if picture.size == (TILE, TILE) else picture.resize((TILE, TILE), Pillow.Resampling.BICUBIC)
