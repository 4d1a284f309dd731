"""Charts drawn with matplotlib: crisp SVG for the page, and files for a paper; the same bytes every time."""

import io
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from ddsh.report.chart import FORMATS, Chart, Kind, Panel, Series
from ddsh.report.looks import GRID, INK, PAPER, Look, Looks

_PANEL_SIZE = (2.8, 2.2)
_PANELS_IN_A_ROW = 4
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.56, 0.08, 0.26, 0.42
_LEGEND_COLUMNS = (2, 5, 6, 7)
_LEGEND_LINE = 0.19
_GROUP_WIDTH = 0.84
_NARROW = 4
_MANY_DECADES = 100
_NO_DATES: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "ddsh",
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
PIXELS_PER_INCH = 200
"""Of PNG files."""


def draw_files(chart: Chart, looks: Looks, kinds: Iterable[str] = FORMATS) -> dict[str, bytes]:
    """Return a chart as files: all panels, and a legend under them.

    Parameters
    ----------
    chart : Chart
        What it shows.
    looks : mapping of str to Look
        How labels look.
    kinds : iterable of {"svg", "png", "pdf"}
        The formats of the files.
    """
    with settings(fonts_as="path"):
        columns = min(len(chart.panels), _PANELS_IN_A_ROW)
        handles = _handles(chart, looks)
        legend_columns = min(len(handles), _LEGEND_COLUMNS[columns - 1])
        rows, legend_rows = -(-len(chart.panels) // columns), -(-len(handles) // legend_columns)
        figure = _figure(columns, rows, legend_rows * _LEGEND_LINE)
        for place, panel in enumerate(chart.panels, start=1):
            _draw_panel(figure.add_subplot(rows, columns, place), panel, looks)
        figure.legend(handles=handles, loc="lower center", ncols=legend_columns, handlelength=2.6)
        return {kind: saved(figure, kind) for kind in kinds}


def draw_panel(panel: Panel, looks: Looks) -> bytes:
    """Return one panel as SVG without a legend, its texts as texts, and named groups for what can be pointed at."""
    with settings(fonts_as="none"):
        figure = _figure(1, 1, 0.0)
        _draw_panel(figure.add_subplot(), panel, looks)
        return saved(figure, "svg", transparent=True)


def group_name(look: Look) -> str:
    """Return what the group of a label's marks is called in SVG."""
    return f"series-{look.number}"


def bar_name(look: Look, place: int) -> str:
    """Return what one bar of a label is called in SVG."""
    return f"series-{look.number}-{place}"


def error_name(look: Look, place: int) -> str:
    """Return what one part of a label's error bars is called in SVG: lower ends, upper ends, lines."""
    return f"series-{look.number}-error-{place}"


@cache
def sample(look: Look, kind: Kind) -> bytes:
    """Return what a label looks like in a kind of panel, as a small SVG."""
    with settings(fonts_as="none"):
        figure = Figure(figsize=(0.36, 0.16))
        if kind == "bars":
            figure.add_artist(Rectangle((0.1, 0.1), 0.8, 0.8, **_bar(look)))
        else:
            figure.add_artist(Line2D([0.05, 0.5, 0.95], [0.5] * 3, markevery=[1], **_line(look, kind)))
        return saved(figure, "svg", transparent=True)


@contextmanager
def settings(fonts_as: str) -> Iterator[None]:
    """Draw by our settings alone; a character that the font lacks is a box in the file, and no reason to warn.

    Parameters
    ----------
    fonts_as : {"path", "none"}
        Whether letters in SVG are drawn or stay text.
    """
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS | {"svg.fonttype": fonts_as})
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _figure(columns: int, rows: int, legend: float) -> Figure:
    """Return a figure with room for so many panels, all of one size, and a legend of this height under them."""
    width, height = _PANEL_SIZE[0] * columns, _PANEL_SIZE[1] * rows + legend
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(
        left=_LEFT / width,
        right=1 - _RIGHT / width,
        bottom=(_BOTTOM + legend) / height,
        top=1 - _TOP / height,
        wspace=(_LEFT + _RIGHT) / (_PANEL_SIZE[0] - _LEFT - _RIGHT),
        hspace=(_TOP + _BOTTOM) / (_PANEL_SIZE[1] - _TOP - _BOTTOM),
    )
    return figure


def saved(figure: Figure, kind: str, *, transparent: bool = False) -> bytes:
    """Return a figure as a file of one of :data:`FORMATS`, without the date."""
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=_NO_DATES[kind], transparent=transparent, dpi=PIXELS_PER_INCH)
    return file.getvalue()


def _draw_panel(axes: Axes, panel: Panel, looks: Looks) -> None:
    axes.set(title=panel.title, xlabel=panel.x_name, ylabel=panel.y_name)
    if panel.kind == "bars":
        _draw_bars(axes, panel, looks)
    else:
        for series in panel.series:
            _draw_line(axes, series, looks[series.label], panel.kind)
    _set_axes(axes, panel)


def _draw_line(axes: Axes, series: Series, look: Look, kind: Kind) -> None:
    if any(series.errors):
        _draw_errors(axes, series, look)
    style = _line(look, kind)
    if kind == "steps":
        axes.plot(series.x, [*series.y, series.y[-1]], drawstyle="steps-post", gid=group_name(look), **style)
    else:
        axes.plot(series.x, series.y, markevery=list(series.marked), gid=group_name(look), **style)


def _draw_errors(axes: Axes, series: Series, look: Look) -> None:
    style: dict[str, Any] = {"fmt": "none", "color": look.colour, "elinewidth": 1, "capsize": 2}
    _, caps, bars = axes.errorbar(series.x, series.y, series.errors, **style)
    for place, part in enumerate((*caps, *bars)):
        part.set_gid(error_name(look, place))


def _draw_bars(axes: Axes, panel: Panel, looks: Looks) -> None:
    width = _GROUP_WIDTH / len(panel.series)
    for number, series in enumerate(panel.series):
        look = looks[series.label]
        shift = (number + 0.5) * width - _GROUP_WIDTH / 2
        bars = axes.bar([x + shift for x in series.x], series.y, width * 0.92, **_bar(look))
        for place, bar in enumerate(bars):
            bar.set_gid(bar_name(look, place))


def _line(look: Look, kind: Kind) -> dict[str, Any]:
    """Return how a label's lines are drawn; points have no line, histograms no markers."""
    return {
        "color": look.colour,
        "marker": "" if kind == "steps" else look.marker,
        "linestyle": "" if kind == "points" else look.dashes,
        "markersize": 6.5 if kind == "points" else 4.2,
        "markeredgewidth": 0,
        "clip_on": False,
    }


def _bar(look: Look) -> dict[str, Any]:
    return {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": PAPER, "linewidth": 0.0}


def _set_axes(axes: Axes, panel: Panel) -> None:
    if panel.x_limits:
        axes.set_xlim(*panel.x_limits)
    if panel.y_limits:
        axes.set_ylim(*panel.y_limits)
    elif panel.kind == "steps":
        axes.set_ylim(bottom=0)
    if panel.x_log and _is_wide(x for series in panel.series for x in series.x):
        axes.set_xscale("log")
        _set_log_ticks(axes.xaxis)
    if panel.y_log and _is_wide(y for series in panel.series for y in series.y):
        axes.set_yscale("log")
        _set_log_ticks(axes.yaxis)
    _set_ticks(axes, panel)


def _is_wide(values: Iterable[float]) -> bool:
    """Say whether values differ so much that a logarithmic axis has ticks to show."""
    known = list(values)
    return max(known) / min(known) > _NARROW


def _set_log_ticks(axis: Axis) -> None:
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _MANY_DECADES else (1,)))
    axis.set_major_formatter(FuncFormatter(_short))
    axis.set_minor_formatter(NullFormatter())


def _set_ticks(axes: Axes, panel: Panel) -> None:
    if panel.kind == "bars":
        axes.grid(visible=False, axis="x")
    if panel.ticks:
        places = range(len(panel.ticks)) if panel.kind == "bars" else panel.ticks
        axes.set_xticks(list(places), [str(tick) for tick in panel.ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    elif not panel.x_log and not panel.x_limits:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _short(value: float, _place: float | None = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _handles(chart: Chart, looks: Looks) -> list[Line2D | Patch]:
    return [_handle(look, chart.panels[0].kind) for label, look in looks.items() if label in chart.labels]


def _handle(look: Look, kind: Kind) -> Line2D | Patch:
    if kind == "bars":
        return Patch(label=look.name, **_bar(look))
    return Line2D([], [], label=look.name, **_line(look, kind))
