"""What a search answers with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.search.catalogue import Entry


@dataclass(frozen=True)
class Hit:
    """An image that was found.

    Parameters
    ----------
    entry : Entry
        The image.
    distance : int
        In how many bits its code differs from the query's.
    bits : str
        Its code, as zeros and ones.
    flipped : tuple of int
        Which bits differ, counted from 0.
    """

    entry: Entry
    distance: int
    bits: str
    flipped: tuple[int, ...]

    @property
    def id(self) -> int:
        """The image's number."""
        return self.entry.id

    @property
    def path(self) -> str:
        """The image's file."""
        return self.entry.path

    @property
    def labels(self) -> tuple[str, ...]:
        """The image's labels."""
        return self.entry.labels


def hits_of(
    entries: Sequence[Entry], distances: NDArray[np.int64], codes: BinaryCodes, query: BinaryCodes
) -> list[Hit]:
    """Return what was found, with the bits in which each code differs from the query's."""
    bits, asked = codes.bits(), query.bits()[0]
    return [
        Hit(entry, int(distance), "".join(map(str, code)), tuple(np.flatnonzero(code != asked).tolist()))
        for entry, distance, code in zip(entries, distances, bits.astype(np.int64), strict=False)
    ]
