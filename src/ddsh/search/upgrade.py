"""Encoding the files of an index anew with another model."""

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

from ddsh.errors import BrokenImage, InvalidInput
from ddsh.images import Image, decode_image
from ddsh.model import Model
from ddsh.search.indexer import BATCH, Progress, map_in_threads, pack_codes, read_file
from ddsh.search.store import StagedCodes, StoredFile

__all__ = ["stage_codes"]

_ReadContent: TypeAlias = tuple[bytes, Image | None]


def stage_codes(
    files: Iterable[StoredFile], model: Model, staged: StagedCodes, on_progress: Progress | None = None
) -> tuple[int, list[StoredFile]]:
    """Encode the contents of files that have no staged code yet.

    Parameters
    ----------
    files : iterable of StoredFile
        The files of an index; one file of each content suffices.
    model : Model
        The new model.
    staged : StagedCodes
        Where the codes are kept, a batch at a time, so that an interruption loses little.
    on_progress : callable, optional
        Called with the number of contents done and their total.

    Returns
    -------
    n_encoded : int
        Number of contents that were encoded.
    unreadable : list of StoredFile
        The files of contents without a code: they are missing, changed or damaged.
    """
    by_content: dict[bytes, list[StoredFile]] = {}
    for file in files:
        by_content.setdefault(file.sha256, []).append(file)
    waiting = [sha256 for sha256 in by_content if sha256 not in staged]
    done = len(by_content) - len(waiting)

    def read(sha256: bytes) -> _ReadContent:
        """Return the prepared image of the first file that still has the content."""
        for file in by_content[sha256]:
            try:
                data, _ = read_file(file.path)
                if hashlib.sha256(data).digest() == sha256:
                    return sha256, model.prepare(decode_image(data))
            except (BrokenImage, InvalidInput):
                continue
        return sha256, None

    batch: dict[bytes, Image] = {}
    for number, (sha256, image) in enumerate(map_in_threads(read, waiting), 1):
        if image is not None:
            batch[sha256] = image
        if batch and (len(batch) >= BATCH or number == len(waiting)):
            packed = pack_codes(model.encode_pair(list(batch.values())))
            staged.put({key: code.tobytes() for key, code in zip(batch, packed, strict=True)})
            batch = {}
        if on_progress:
            on_progress(done + number, len(by_content))
    unreadable = [file for sha256 in waiting if sha256 not in staged for file in by_content[sha256]]
    return len(waiting) - len({file.sha256 for file in unreadable}), unreadable
