"""The case study drawn with matplotlib: tiles as they are, wrong ones in a red box with a cross."""

from collections.abc import Iterable
from itertools import accumulate

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from ddsh.report.drawing import PIXELS_PER_INCH, saved, settings
from ddsh.report.gallery import Block, Gallery
from ddsh.report.looks import PAPER, WRONG

# Lengths are in pixels of the PNG, where the usual tile of 32 pixels becomes one of 64.
_SIDE, _GAP, _AFTER_QUERY = 64, 6, 18
_MARGIN, _TITLE, _BELOW_TITLE, _BELOW_BLOCK = 8, 34, 10, 14
_BOX, _CORNER, _CROSS, _STROKE = 4, 18, (5, 13), 3
_POINT = 72 / PIXELS_PER_INCH


def draw_gallery(gallery: Gallery, kinds: Iterable[str]) -> dict[str, bytes]:
    """Return a case study as files.

    Parameters
    ----------
    gallery : Gallery
        What it shows.
    kinds : iterable of {"svg", "png", "pdf"}
        The formats of the files.
    """
    sizes = [_size(block) for block in gallery.blocks]
    *tops, end = accumulate((_TITLE + height + _BELOW_BLOCK for height, _ in sizes), initial=_MARGIN)
    with settings(fonts_as="path"):
        figure = Figure()
        axes = _canvas(figure, max(width for _, width in sizes) + 2 * _MARGIN, end - _BELOW_BLOCK + _MARGIN)
        for number, (block, top) in enumerate(zip(gallery.blocks, tops, strict=True)):
            axes.text(_MARGIN, top + _TITLE - _BELOW_TITLE, block.title, va="baseline", fontweight="bold")
            _draw_tiles(axes, block, top + _TITLE)
            _mark_wrong(axes, block, top + _TITLE, f"wrong-{number}")
        return {kind: saved(figure, kind) for kind in kinds}


def _size(block: Block) -> tuple[int, int]:
    """Return height and width of a block without its title."""
    ends = [_corner(row, len(strip.right)) for row, strip in enumerate(block.strips)]
    return max(y for y, _ in ends) + _SIDE, max(x for _, x in ends) + _SIDE


def _corner(row: int, column: int) -> tuple[int, int]:
    """Return y and x of a tile in its block; what was found stands apart from the query."""
    return row * (_SIDE + _GAP), column * (_SIDE + _GAP) + (_AFTER_QUERY - _GAP if column else 0)


def _canvas(figure: Figure, width: int, height: int) -> Axes:
    """Return axes that fill a figure, in pixels from its upper left corner."""
    figure.set_size_inches(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    return axes


def _draw_tiles(axes: Axes, block: Block, top: int) -> None:
    """Draw all tiles of a block as one image that is no larger than they are: fewer bytes than many small ones."""
    height, width = _size(block)
    picture = _picture(block)
    extent = (_MARGIN, _MARGIN + width, top + height, top)
    axes.imshow(picture, extent=extent, aspect="auto", interpolation="none", clip_on=False)


def _picture(block: Block) -> NDArray[np.uint8]:
    """Return the tiles on white paper, as few pixels as hold them and the gaps between them."""
    side = block.side
    height, width = (length * side // _SIDE for length in _size(block))
    paper = np.full((height, width, 3), 255, np.uint8)
    for row, strip in enumerate(block.strips):
        for column, tile in enumerate(strip.tiles):
            y, x = (length * side // _SIDE for length in _corner(row, column))
            paper[y : y + side, x : x + side] = tile
    return paper


def _mark_wrong(axes: Axes, block: Block, top: int, name: str) -> None:
    for row, strip in enumerate(block.strips):
        for place, is_right in enumerate(strip.right):
            if not is_right:
                y, x = _corner(row, 1 + place)
                _cross_out(axes, _MARGIN + x, top + y, f"{name}-{row}-{place}")


def _cross_out(axes: Axes, x: int, y: int, name: str) -> None:
    """Draw a red box around a tile, and a cross in its corner for those who do not see red."""
    axes.add_patch(Rectangle((x, y), _SIDE, _SIDE, fill=False, edgecolor=WRONG, linewidth=_BOX * _POINT, gid=name))
    left, (near, far) = x + _SIDE - _CORNER, _CROSS
    axes.add_patch(Rectangle((left, y), _CORNER, _CORNER, facecolor=WRONG, linewidth=0))
    strokes = [(near, near), (far, far), (np.nan, np.nan), (near, far), (far, near)]
    x_ends, y_ends = zip(*((left + along, y + down) for along, down in strokes), strict=True)
    axes.add_line(Line2D(x_ends, y_ends, color=PAPER, linewidth=_STROKE * _POINT))
