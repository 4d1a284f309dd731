"""The sheets of tiles that results carry, checked and cut."""

import base64

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import BrokenImage
from ddsh.evaluation.examples import Examples
from ddsh.images import decode_image

MAX_PIXELS = 10_000_000
"""Larger sheets are refused before they are decoded."""


def cut_sheet(examples: Examples) -> NDArray[np.uint8]:
    """Return the tiles of a sheet, shape (queries, columns, side, side, 3).

    Parameters
    ----------
    examples : Examples
        Queries with what they find, and the sheet that shows them.

    Raises
    ------
    BrokenImage
        If the sheet cannot be decoded or has not as many tiles of that size as it should.
    """
    n_rows, n_columns, side = len(examples.queries), examples.columns, examples.tile
    height, width = n_rows * side, n_columns * side
    if side < 1 or height * width > MAX_PIXELS:
        raise BrokenImage(f"A sheet has 1 to {MAX_PIXELS:,} pixels; got {width} x {height}.")
    sheet = decode_image(base64.b64decode(examples.sheet.partition(",")[2]), height * width)
    if sheet.shape != (height, width, 3):
        raise BrokenImage(
            f"A sheet of {width} x {height} pixels was expected; got {sheet.shape[1]} x {sheet.shape[0]}."
        )
    return sheet.reshape(n_rows, side, n_columns, side, 3).swapaxes(1, 2)
