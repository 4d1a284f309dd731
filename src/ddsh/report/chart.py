"""What a figure is before it is drawn: panels of series of numbers, with what to say of each."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Numbers: TypeAlias = tuple[float, ...]
Kind: TypeAlias = Literal["curve", "points", "bars", "steps"]

ABOUT_RANKING = (
    "map",
    "precision-recall-by-rank",
    "precision-recall-by-radius",
    "precision-at-k",
    "success-rate",
)
ABOUT_LEARNING = ("bit-balance", "outputs", "training-loss", "training-objective", "cost")
CASE_STUDY = "case-study"
FORMATS = ("svg", "png", "pdf")
"""Kinds of files that a figure is written as."""

FIGURES = (*ABOUT_RANKING, CASE_STUDY, *ABOUT_LEARNING)
"""What figures are called, in the page's order; a file is called ``<experiment>-<figure>``."""


@dataclass(frozen=True)
class Series:
    """What a panel shows of a label.

    Parameters
    ----------
    label : str
        Whose it is.
    x, y : tuple of float
        Its points; a histogram has one x more, the edges.
    tip : str
        What to say of it as a whole, after its name.
    marked : tuple of int
        The points that get a marker.
    tips : tuple of str
        What to say of each of those.
    errors : tuple of float
        Standard deviation of each y; empty where there is none.
    """

    label: str
    x: Numbers
    y: Numbers
    tip: str = ""
    marked: tuple[int, ...] = ()
    tips: tuple[str, ...] = ()
    errors: Numbers = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Parameters
    ----------
    title : str
        Above it.
    x_name, y_name : str
        Along the axes.
    series : tuple of Series
        What is in it.
    kind : {"curve", "points", "bars", "steps"}
        How that is drawn.
    x_log, y_log : bool
        Whether an axis is logarithmic.
    x_limits, y_limits : tuple of float, optional
        Ends of the axes.
    ticks : tuple of int, optional
        The marks on the x axis; for bars, what their groups are called.
    """

    title: str
    x_name: str
    y_name: str
    series: tuple[Series, ...]
    kind: Kind = "curve"
    x_log: bool = False
    y_log: bool = False
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    ticks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Chart:
    """A figure.

    Parameters
    ----------
    name : str
        Part of its file's name.
    title : str
        Its heading.
    text : str
        What it shows and how to read it.
    panels : tuple of Panel
        Its parts, side by side.
    """

    name: str
    title: str
    text: str
    panels: tuple[Panel, ...]

    @property
    def labels(self) -> frozenset[str]:
        """All that appear in it."""
        return frozenset(series.label for panel in self.panels for series in panel.series)
