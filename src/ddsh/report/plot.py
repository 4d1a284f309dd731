"""Figures drawn with matplotlib; the same data give the same bytes."""

import gc
import io
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ddsh.report.case_study import CaseFigure, FigureStrip
from ddsh.report.charts import Chart, Kind, Panel, Series
from ddsh.report.style import GRID, INK, PAPER, WRONG, Style, Styles

__all__ = ["PIXELS_PER_INCH", "draw_case_figure", "draw_chart", "draw_sample", "panel_boxes", "series_id"]

PIXELS_PER_INCH = 200
"""Resolution of PNG files."""

_PANEL_SIZES = ((4.6, 2.5), (4.2, 2.4), (3.4, 2.3), (2.8, 2.2))
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.56, 0.1, 0.26, 0.42
_LEGEND_LINE, _LEGEND_COLUMN = 0.19, 1.5
_GROUP_WIDTH = 0.84
_NARROW = 4
_MANY_DECADES = 100
_LONG_TICKS = 24
_LONGEST_TICK = 14
_SLANTED: dict[str, Any] = {"rotation": 14, "ha": "right", "rotation_mode": "anchor", "fontsize": 6.5}
_NO_DATES: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "ddsh",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "image.composite_image": False,
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": GRID,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
}


def draw_chart(chart: Chart, styles: Styles, formats: Iterable[str]) -> dict[str, bytes]:
    """Draw a chart once, and return it in each format.

    Text stays text in SVG. Series have ids (see `series_id`), so that the page can attach tooltips.

    Parameters
    ----------
    chart : Chart
        Panels to draw, with a legend under them, or beside a single one.
    styles : mapping of str to Style
        Style of each label.
    formats : iterable of {"svg", "png", "pdf"}
        File formats.
    """
    shown = [style for label, style in styles.items() if label in chart.labels]
    kind = chart.panels[0].kind
    columns, rows, (width, height) = _grid(chart)
    if columns == 1:
        legend_columns = -(-len(shown) // 12)
        below, beside = 0.0, legend_columns * _LEGEND_COLUMN
    else:
        legend_columns = min(len(shown), int(columns * width / _LEGEND_COLUMN))
        below, beside = -(-len(shown) // legend_columns) * _LEGEND_LINE, 0.0
    total_width, total_height = width * columns + beside, height * rows + below
    with _settings():
        figure = Figure(figsize=(total_width, total_height))
        for number, (panel, (left, top, _, _)) in enumerate(zip(chart.panels, panel_boxes(chart), strict=True)):
            box = (left / 72 + _LEFT, total_height - top / 72 - height + _BOTTOM)
            inner = (width - _LEFT - _RIGHT, height - _TOP - _BOTTOM)
            axes = figure.add_axes(
                (box[0] / total_width, box[1] / total_height, inner[0] / total_width, inner[1] / total_height)
            )
            _draw_panel(axes, panel, styles, number)
        handles = [
            Patch(label=style.name, **_bar_style(style))
            if kind == "bars"
            else Line2D([], [], label=style.name, **_line_style(style, kind))
            for style in shown
        ]
        layout: dict[str, Any] = {"loc": "center right" if columns == 1 else "lower center", "ncols": legend_columns}
        figure.legend(handles=handles, handlelength=2.6, **layout)
        return {name: _save(figure, name) for name in formats}


def panel_boxes(chart: Chart) -> list[tuple[float, float, float, float]]:
    """Return left, top, width and height of each panel in points, from the upper left corner."""
    columns, _, (width, height) = _grid(chart)
    return [
        (place % columns * width * 72, place // columns * height * 72, width * 72, height * 72)
        for place in range(len(chart.panels))
    ]


def _grid(chart: Chart) -> tuple[int, int, tuple[float, float]]:
    """Return columns, rows, and the size of a panel in inches."""
    columns = min(len(chart.panels), len(_PANEL_SIZES))
    return columns, -(-len(chart.panels) // columns), _PANEL_SIZES[columns - 1]


def series_id(panel: int, style: Style, part: str = "") -> str:
    """Return the id of a series in SVG, or of one of its bars or error bars."""
    return f"panel-{panel}-series-{style.number}{part}"


@cache
def draw_sample(style: Style, kind: Kind) -> bytes:
    """Return the legend entry of a style as a small SVG."""
    with _settings():
        figure = Figure(figsize=(0.36, 0.16), facecolor="none")
        if kind == "bars":
            figure.add_artist(Rectangle((0.1, 0.1), 0.8, 0.8, **_bar_style(style)))
        else:
            figure.add_artist(Line2D([0.05, 0.5, 0.95], [0.5] * 3, markevery=[1], **_line_style(style, kind)))
        return _save(figure, "svg")


@contextmanager
def _settings() -> Iterator[None]:
    """Draw with our settings alone, and without warnings about characters that the font lacks.

    Garbage is collected after each figure: the objects of one are many and refer to each other, and looking at them
    again and again would take a fifth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with mpl.rc_context(), warnings.catch_warnings():
            mpl.rcdefaults()
            mpl.rcParams.update(_SETTINGS)
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            yield
    finally:
        if collects:
            gc.enable()


def _save(figure: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=_NO_DATES[kind], dpi=PIXELS_PER_INCH)
    return file.getvalue()


def _draw_panel(axes: Axes, panel: Panel, styles: Styles, number: int) -> None:
    axes.set_title(panel.title, y=1)  # a given y saves matplotlib a search for a free place
    axes.set(xlabel=panel.x_name, ylabel=panel.y_name)
    for place, series in enumerate(panel.series):
        style = styles[series.label]
        if panel.kind == "bars":
            width = _GROUP_WIDTH / len(panel.series)
            shift = (place + 0.5) * width - _GROUP_WIDTH / 2
            bars = axes.bar([x + shift for x in series.x], series.y, width * 0.92, **_bar_style(style))
            for bar_number, bar in enumerate(bars):
                bar.set_gid(series_id(number, style, f"-bar-{bar_number}"))
        else:
            _draw_line(axes, series, style, panel.kind, number)
    if panel.kind == "bars":
        axes.grid(visible=False, axis="x")
    _set_x_axis(axes, panel)
    if panel.y_limits:
        axes.set_ylim(*panel.y_limits)
    elif panel.kind == "steps":
        axes.set_ylim(bottom=0)
    elif panel.y_log and _is_wide(y for series in panel.series for y in series.y):
        axes.set_yscale("log")
        _set_log_ticks(axes.yaxis)


def _set_x_axis(axes: Axes, panel: Panel) -> None:
    values = [x for series in panel.series for x in series.x]
    if panel.x_limits:
        axes.set_xlim(*panel.x_limits)
    elif panel.x_log and _is_wide(values):
        axes.set_xscale("log")
        _set_log_ticks(axes.xaxis)
    elif not panel.ticks:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=all(float(x).is_integer() for x in values)))
    if panel.ticks:
        names = [tick if isinstance(tick, str) else f"{tick:g}" for tick in panel.ticks]
        names = [name if len(name) <= _LONGEST_TICK else f"…{name[1 - _LONGEST_TICK :]}" for name in names]
        by_value = panel.kind != "bars" and not isinstance(panel.ticks[0], str)
        positions = [float(tick) for tick in panel.ticks] if by_value else [float(i) for i in range(len(names))]
        axes.set_xticks(positions, names, **_SLANTED if sum(map(len, names)) > _LONG_TICKS else {})
        axes.xaxis.set_minor_locator(NullLocator())
        if isinstance(panel.ticks[0], str):
            axes.set_xlim(-0.5, len(names) - 0.5)


def _draw_line(axes: Axes, series: Series, style: Style, kind: Kind, number: int) -> None:
    if any(series.errors):
        errors: dict[str, Any] = {"fmt": "none", "color": style.colour, "elinewidth": 1, "capsize": 2}
        _, caps, bars = axes.errorbar(series.x, series.y, series.errors, **errors)
        for place, part in enumerate((*caps, *bars)):
            part.set_gid(series_id(number, style, f"-error-{place}"))
    look = _line_style(style, kind) | {"gid": series_id(number, style)}
    if kind == "steps":
        axes.plot(series.x, [*series.y, series.y[-1]], drawstyle="steps-post", **look)
    else:
        axes.plot(series.x, series.y, markevery=list(series.marked), **look)


def _line_style(style: Style, kind: Kind) -> dict[str, Any]:
    """Return how a label's line is drawn: points have no line, histograms no markers."""
    return {
        "color": style.colour,
        "marker": "" if kind == "steps" else style.marker,
        "linestyle": "" if kind == "points" else style.dashes,
        "markersize": 6 if kind == "points" else 4.2,
        "markeredgewidth": 0,
        "clip_on": False,
    }


def _bar_style(style: Style) -> dict[str, Any]:
    return {"facecolor": style.colour, "hatch": style.hatch, "edgecolor": PAPER, "linewidth": 0.0}


def _is_wide(values: Iterable[float]) -> bool:
    """Return whether values differ enough for a logarithmic axis to have ticks."""
    known = list(values)
    return max(known) / min(known) > _NARROW


def _set_log_ticks(axis: Axis) -> None:
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _MANY_DECADES else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_locator(NullLocator())


# Lengths of a case study, in pixels of the PNG; the usual tile of 32 pixels becomes one of 64.
_SIDE, _GAP, _AFTER_QUERY = 64, 6, 18
_MARGIN, _TITLE, _BELOW_TITLE, _BELOW_BLOCK = 8, 34, 10, 14
_BOX, _CORNER, _CROSS, _STROKE = 4, 18, (5, 13), 3
_POINT = 72 / PIXELS_PER_INCH


def draw_case_figure(content: CaseFigure, formats: Iterable[str]) -> dict[str, bytes]:
    """Draw a case study once, and return it in each format.

    Wrong images have a red box with a cross.

    Parameters
    ----------
    content : CaseFigure
        Strips of tiles.
    formats : iterable of {"svg", "png", "pdf"}
        File formats.
    """
    sizes = [_block_size(strips) for _, strips in content.blocks]
    *tops, end = accumulate((_TITLE + height + _BELOW_BLOCK for height, _ in sizes), initial=_MARGIN)
    width, height = max(width for _, width in sizes) + 2 * _MARGIN, end - _BELOW_BLOCK + _MARGIN
    with _settings():
        figure = Figure(figsize=(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        axes.set_axis_off()
        for number, ((title, strips), size, top) in enumerate(zip(content.blocks, sizes, tops, strict=True)):
            axes.text(_MARGIN, top + _TITLE - _BELOW_TITLE, title, va="baseline", fontweight="bold")
            _draw_block(axes, strips, size, top + _TITLE, f"wrong-{number}")
        return {kind: _save(figure, kind) for kind in formats}


def _block_size(strips: Sequence[FigureStrip]) -> tuple[int, int]:
    """Return height and width of a block of strips."""
    ends = [_corner(row, len(strip.relevant)) for row, strip in enumerate(strips)]
    return max(y for y, _ in ends) + _SIDE, max(x for _, x in ends) + _SIDE


def _corner(row: int, column: int) -> tuple[int, int]:
    """Return y and x of a tile in its block, with a wider gap after the query."""
    return row * (_SIDE + _GAP), column * (_SIDE + _GAP) + (_AFTER_QUERY - _GAP if column else 0)


def _draw_block(axes: Axes, strips: Sequence[FigureStrip], size: tuple[int, int], top: int, name: str) -> None:
    """Draw a block as one image at the tiles' own resolution, and mark wrong tiles."""
    side = strips[0].tiles.shape[1]
    height, width = size
    image = np.full((height * side // _SIDE, width * side // _SIDE, 3), 255, np.uint8)
    for row, strip in enumerate(strips):
        for column, tile in enumerate(strip.tiles):
            y, x = (length * side // _SIDE for length in _corner(row, column))
            image[y : y + side, x : x + side] = tile
    extent = (_MARGIN, _MARGIN + width, top + height, top)
    axes.imshow(image, extent=extent, aspect="auto", interpolation="none", clip_on=False)
    for row, strip in enumerate(strips):
        for hit, is_relevant in enumerate(strip.relevant):
            if not is_relevant:
                y, x = _corner(row, 1 + hit)
                _mark_wrong(axes, _MARGIN + x, top + y, f"{name}-{row}-{hit}")


def _mark_wrong(axes: Axes, x: int, y: int, name: str) -> None:
    """Draw a red box around a tile, with a cross in its corner."""
    axes.add_patch(Rectangle((x, y), _SIDE, _SIDE, fill=False, edgecolor=WRONG, linewidth=_BOX * _POINT, gid=name))
    left, (near, far) = x + _SIDE - _CORNER, _CROSS
    axes.add_patch(Rectangle((left, y), _CORNER, _CORNER, facecolor=WRONG, linewidth=0))
    strokes = [(near, near), (far, far), (np.nan, np.nan), (near, far), (far, near)]
    x_ends, y_ends = zip(*((left + along, y + down) for along, down in strokes), strict=True)
    axes.add_line(Line2D(x_ends, y_ends, color=PAPER, linewidth=_STROKE * _POINT))
