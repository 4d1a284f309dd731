"""Training data from a search index: the images that have labels there."""

from pathlib import Path

import numpy as np
from scipy import sparse

from ddsh.datasets import Dataset, Skipped
from ddsh.errors import BrokenImage, DataError
from ddsh.images import FileImages, read_image
from ddsh.labels import as_labels
from ddsh.search.engine import ImageSearch
from ddsh.search.store import Entry

__all__ = ["labelled_entries"]

_PAGE = 10_000


def labelled_entries(search: ImageSearch) -> tuple[Dataset, FileImages]:
    """Return the labelled images of an index as a dataset, and all images.

    Parameters
    ----------
    search : ImageSearch
        An open index.

    Returns
    -------
    dataset : Dataset
        The images that have labels, all of them for training. Files that are missing or cannot be read are left out
        (``skipped``).
    images : FileImages
        All images of the index whose files can be read, labelled or not; look bits learn from them.

    Raises
    ------
    DataError
        If fewer than two labels were given.
    """
    entries, skipped, after = [], [], -1
    while ids := search.ids(after, _PAGE):
        for entry in search.entries(ids):
            problem = _problem(entry)
            if problem is None:
                entries.append(entry)
            else:
                skipped.append(Skipped(entry.path, problem))
        after = ids[-1]
    labelled = [entry for entry in entries if entry.labels]
    names = sorted({label for entry in labelled for label in entry.labels})
    if len(names) < 2:
        given = f"has only the label {names[0]!r}" if names else "has no labels"
        raise DataError(
            f"{search.address} {given}; label images of two kinds or more in the page (ddsh serve) and train again."
            " Search by look works without labels."
        )
    position = {name: number for number, name in enumerate(names)}
    columns = np.array([position[label] for entry in labelled for label in entry.labels], np.int64)
    if len(columns) > len(labelled):
        starts = np.cumsum([0, *(len(entry.labels) for entry in labelled)])
        matrix = sparse.csr_array((np.ones(len(columns), np.int32), columns, starts), (len(labelled), len(names)))
        labels = as_labels(matrix)
    else:
        labels = as_labels(columns)
    rows = np.arange(len(labelled), dtype=np.int64)
    dataset = Dataset(
        search.folder.name,
        FileImages([entry.path for entry in labelled]),
        labels,
        tuple(names),
        {"query": rows[:0], "database": rows, "train": rows},
        "given",
        tuple(skipped),
    )
    return dataset, FileImages([entry.path for entry in entries])


def _problem(entry: Entry) -> str | None:
    """Return why the file of an entry cannot be used, or None; an unchanged file is not read."""
    try:
        status = Path(entry.path).stat()
        if (status.st_size, status.st_mtime_ns) != (entry.n_bytes, entry.mtime_ns):
            read_image(entry.path)
    except (OSError, BrokenImage) as error:
        return getattr(error, "strerror", None) or str(error).removesuffix(".")
    return None
