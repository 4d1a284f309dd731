"""Data of figures: charts with panels of series, computed from a section."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Literal, TypeAlias

from ddsh.evaluation.result import EpochRecord
from ddsh.evaluation.scores import RADII
from ddsh.report.runs import PrecisionRecallCurve, ReportedRun
from ddsh.report.sections import Cell, Section

__all__ = [
    "CHARTS",
    "FIGURES",
    "FORMATS",
    "Chart",
    "Panel",
    "Series",
    "balance_chart",
    "cost_chart",
    "make_charts",
    "map_chart",
    "outputs_chart",
    "precision_at_k_chart",
    "precision_recall_chart",
    "success_rate_chart",
    "training_chart",
]

Numbers: TypeAlias = tuple[float, ...]
Kind: TypeAlias = Literal["curve", "points", "bars", "steps"]

FORMATS = ("svg", "png", "pdf")
"""File formats of figures."""

MAX_RANK = 1000
_RECALLS = tuple(step / 10 for step in range(11))
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_NEAR_THE_ENDS = 0.9
_N_MARKS = 12


@dataclass(frozen=True)
class Series:
    """Points of one label in a panel.

    Parameters
    ----------
    label : str
        Key of its style.
    x, y : tuple of float
        Its points; a histogram has one x more, the edges.
    tip : str
        Tooltip of the whole series, after its name.
    marked : tuple of int
        Indices of the points that get a marker.
    tips : tuple of str
        Tooltip of each marker or bar.
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
        Title above it.
    x_name, y_name : str
        Labels of the axes.
    series : tuple of Series
        Its contents.
    kind : {"curve", "points", "bars", "steps"}
        Type of plot.
    x_log, y_log : bool
        Whether an axis is logarithmic, where its values differ enough.
    x_limits, y_limits : tuple of float, optional
        Ends of the axes.
    ticks : tuple of float or str, optional
        Ticks of the x axis. Those of bars, and strings, name the positions 0, 1, 2, ...
    """

    title: str
    x_name: str
    y_name: str
    series: tuple[Series, ...] = ()
    kind: Kind = "curve"
    x_log: bool = False
    y_log: bool = False
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    ticks: tuple[float, ...] | tuple[str, ...] | None = None


@dataclass(frozen=True)
class Chart:
    """A figure: panels side by side, with a title and an explanation.

    Parameters
    ----------
    name : str
        Part of its file name.
    title : str
        Heading.
    text : str
        What it shows and how to read it.
    panels : tuple of Panel
        Its panels; empty if nothing is known.
    """

    name: str
    title: str
    text: str
    panels: tuple[Panel, ...]

    @property
    def labels(self) -> frozenset[str]:
        """All labels that occur in it."""
        return frozenset(series.label for panel in self.panels for series in panel.series)


def make_charts(section: Section) -> list[Chart]:
    """Return the charts of a section; those without any data are left out."""
    charts = (make(section) for make in CHARTS.values())
    return [chart for chart in charts if chart.panels]


def map_chart(section: Section) -> Chart:
    """Return mean average precision by code length, ours and the paper's."""
    ours, theirs = [], []
    for label in section.labels:
        cells = [cell for cell in section.in_order() if cell.label == label]
        ours.append(
            Series(
                label,
                x=tuple(float(cell.n_bits) for cell in cells),
                y=tuple(cell.map.mean for cell in cells),
                marked=tuple(range(len(cells))),
                tips=tuple(f"{cell.n_bits} bits: MAP {cell.map.text(4)}" for cell in cells),
                errors=tuple(cell.map.deviation or 0.0 for cell in cells),
            )
        )
        if printed := [(float(cell.n_bits), cell.paper) for cell in cells if cell.paper is not None]:
            x, y = zip(*printed, strict=True)
            tips = tuple(f"{n_bits:.0f} bits: MAP {score:.3f} in the paper" for n_bits, score in printed)
            theirs.append(Series(label, x, y, marked=tuple(range(len(x))), tips=tips))
    panel = Panel("ours", "bits", "MAP", tuple(ours), y_limits=(0.0, 1.0), ticks=section.bits)
    panels = [panel] if len(section.bits) > 1 else []
    if panels and theirs and section.is_papers:
        panels.append(replace(panel, title="paper", series=tuple(theirs)))
    text = "Mean average precision at each code length; bars show the standard deviation over seeds."
    return Chart("map", "MAP by code length", text, tuple(panels))


def precision_recall_chart(section: Section, at: Literal["rank", "radius"]) -> Chart:
    """Return precision-recall curves by rank or by Hamming radius, pooled over queries where all runs have that."""
    runs = [run for cell in section.in_order() for run in cell.runs]
    pooled = all(run.by_radius_pooled is not None for run in runs)
    name = "by_rank" if at == "rank" else "by_radius_pooled" if pooled else "by_radius"

    def series(cell: Cell) -> Series | None:
        """Return the curve of a cell, if it has one."""
        curve = _mean_curve(getattr(run, name) for run in cell.runs)
        if curve is None:
            return None
        marked = _nearest(curve.recall, _RECALLS)
        tips = tuple(
            f"{at} {curve.at[i]:,.0f}: precision {curve.precision[i]:.3f}, recall {curve.recall[i]:.3f}" for i in marked
        )
        return Series(cell.label, curve.recall, curve.precision, marked=marked, tips=tips)

    text = {
        "rank": "Precision and recall among the first 1, 2, … items of the ranking, averaged over queries and seeds.",
        "radius": "Precision and recall within Hamming radius 0, 1, 2, …; "
        + ("pooled over all queries, as in the paper." if pooled else "an empty lookup counts as precision 0."),
    }[at]
    panel = Panel("", "recall", "precision", x_limits=(0.0, 1.0), y_limits=(0.0, 1.0))
    return Chart(
        f"precision-recall-by-{at}", f"Precision and recall by {at}", text, _panels_by_bits(section, series, panel)
    )


def precision_at_k_chart(section: Section) -> Chart:
    """Return precision among the first k items, up to k = 1000."""

    def series(cell: Cell) -> Series | None:
        """Return the curve of a cell, if it has one."""
        curve = _mean_curve(run.by_rank for run in cell.runs)
        first = [] if curve is None else [i for i, rank in enumerate(curve.at) if 1 <= rank <= MAX_RANK]
        if curve is None or not first:
            return None
        x, y = tuple(curve.at[i] for i in first), tuple(curve.precision[i] for i in first)
        marked = _nearest(x, _RANKS)
        tips = tuple(f"first {x[i]:,.0f}: precision {y[i]:.3f}" for i in marked)
        return Series(cell.label, x, y, marked=marked, tips=tips)

    panel = Panel("", "k", "precision among the first k", x_log=True, y_limits=(0.0, 1.0))
    text = "Precision among the first k items of the ranking, averaged over ties."
    return Chart("precision-at-k", "Precision at k", text, _panels_by_bits(section, series, panel))


def success_rate_chart(section: Section) -> Chart:
    """Return the success rate of lookups, a panel for each Hamming radius."""
    panels = []
    for radius in RADII:
        series = []
        for label in section.labels:
            rates = [
                (cell.n_bits, rate)
                for cell in section.in_order()
                if cell.label == label and (rate := cell.spread(partial(_success_rate, radius=radius)))
            ]
            if rates:
                series.append(
                    Series(
                        label,
                        x=tuple(float(section.bits.index(n_bits)) for n_bits, _ in rates),
                        y=tuple(rate.mean for _, rate in rates),
                        tips=tuple(f"{n_bits} bits: success rate {rate.text(3)}" for n_bits, rate in rates),
                    )
                )
        if series:
            panel = Panel(f"radius {radius}", "bits", "success rate", tuple(series), "bars", y_limits=(0.0, 1.0))
            panels.append(replace(panel, ticks=section.bits))
    text = "Share of queries that find at least one relevant item within a Hamming radius."
    return Chart("success-rate", "Success rate of lookups", text, tuple(panels))


def balance_chart(section: Section) -> Chart:
    """Return how often each bit is one, bits in ascending order."""

    def series(cell: Cell) -> Series | None:
        """Return the sorted shares of a cell, if it has them."""
        health = next((run.bits for run in cell.runs if run.bits), None)
        if health is None:
            return None
        shares = tuple(sorted(health.share))
        x = tuple(float(i + 1) for i in range(len(shares)))
        marked = _spaced(x)
        tips = tuple(f"bit {i + 1} of {len(shares)}: one in {shares[i]:.1%} of the codes" for i in marked)
        return Series(cell.label, x, shares, marked=marked, tips=tips)

    panel = Panel("", "bits, by share of ones", "share of ones", y_limits=(0.0, 1.0))
    text = "Share of ones of each bit in the database, in ascending order; 0.5 is best, 0 and 1 are dead bits."
    return Chart("bit-balance", "Balance of bits", text, _panels_by_bits(section, series, panel))


def outputs_chart(section: Section) -> Chart:
    """Return histograms of the networks' outputs after tanh."""

    def series(cell: Cell) -> Series | None:
        """Return the histogram of a cell, if it has one."""
        histogram = next((run.outputs for run in cell.runs if run.outputs), None)
        if histogram is None:
            return None
        shares = tuple(count / sum(histogram.counts) for count in histogram.counts)
        centres = ((low + high) / 2 for low, high in pairwise(histogram.edges))
        ends = sum(share for share, x in zip(shares, centres, strict=True) if abs(x) > _NEAR_THE_ENDS)
        tip = f"{ends:.0%} of the outputs are beyond ±{_NEAR_THE_ENDS}"
        return Series(cell.label, tuple(histogram.edges), shares, tip=tip)

    panel = Panel("", "tanh(output)", "share of outputs", kind="steps", x_limits=(-1.0, 1.0))
    text = "Outputs of the trained networks for the queries, after tanh: the nearer to -1 and 1, the safer the bits."
    return Chart("outputs", "Distribution of tanh outputs", text, _panels_by_bits(section, series, panel))


def training_chart(section: Section, measure: Literal["loss", "objective", "map"]) -> Chart:
    """Return loss, objective or mean average precision by epoch."""
    name = "MAP" if measure == "map" else measure

    def value(epoch: EpochRecord) -> float | None:
        """Return the measure of an epoch."""
        found: float | None = getattr(epoch, measure)
        return found

    def series(cell: Cell) -> Series | None:
        """Return the training curve of a cell, if it has one."""
        history = next((run.history for run in cell.runs if run.history), ())
        steps = [(float(epoch.epoch), found) for epoch in history if (found := value(epoch)) is not None and found > 0]
        if not steps:
            return None
        x, y = zip(*steps, strict=True)
        marked = _spaced(x)
        tips = tuple(f"epoch {x[i]:.0f}: {name} {y[i]:.4g}" for i in marked)
        return Series(cell.label, x, y, marked=marked, tips=tips)

    text = {
        "loss": "Mean loss of each epoch. Losses of different methods differ in kind: compare shapes, not heights.",
        "objective": "Objective of the method after each epoch, where it has one.",
        "map": "Mean average precision during the training, where it was recorded.",
    }[measure]
    panel = Panel("", "epoch", name, x_log=measure == "map", y_log=measure != "map")
    panels = _panels_by_bits(section, series, replace(panel, y_limits=(0.0, 1.0) if measure == "map" else None))
    return Chart(f"training-{measure}", "MAP by epoch" if measure == "map" else f"Training {measure}", text, panels)


def cost_chart(section: Section) -> Chart:
    """Return wall time against mean average precision."""

    def series(cell: Cell) -> Series | None:
        """Return the point of a cell, if its time is known."""
        seconds = cell.spread(lambda run: run.seconds)
        if seconds is None or seconds.mean <= 0:
            return None
        used = cell.spread(lambda run: run.peak_memory)
        memory = "" if used is None else f", {used.mean / 1e9:.1f} GB of memory"
        tip = f"{seconds.text(1)} s, MAP {cell.map.text(4)}{memory}"
        return Series(cell.label, (seconds.mean,), (cell.map.mean,), marked=(0,), tips=(tip,))

    panel = Panel("", "seconds", "MAP", kind="points", x_log=True, y_limits=(0.0, 1.0))
    text = (
        "Wall time of fitting, encoding and scoring against mean average precision: up and to the left is better. "
        "Features of frozen layers are shared between runs and counted in the run that computed them."
    )
    return Chart("cost", "Cost against accuracy", text, _panels_by_bits(section, series, panel))


CHARTS: Mapping[str, Callable[[Section], Chart]] = {
    "map": map_chart,
    "precision-recall-by-rank": partial(precision_recall_chart, at="rank"),
    "precision-recall-by-radius": partial(precision_recall_chart, at="radius"),
    "precision-at-k": precision_at_k_chart,
    "success-rate": success_rate_chart,
    "bit-balance": balance_chart,
    "outputs": outputs_chart,
    "training-loss": partial(training_chart, measure="loss"),
    "training-objective": partial(training_chart, measure="objective"),
    "training-map": partial(training_chart, measure="map"),
    "cost": cost_chart,
}
"""Charts of a section by name, in the order of the page."""

FIGURES = (*CHARTS, "case-study", "settings")
"""Names of figures; a file is named ``<experiment>-<figure>``."""


def _success_rate(run: ReportedRun, radius: int) -> float | None:
    return run.success_rate.get(radius)


def _panels_by_bits(section: Section, series: Callable[[Cell], Series | None], like: Panel) -> tuple[Panel, ...]:
    """Return a panel for each code length with data."""
    found = ((n_bits, tuple(filter(None, map(series, section.in_order(n_bits))))) for n_bits in section.bits)
    return tuple(replace(like, title=f"{n_bits} bits", series=lines) for n_bits, lines in found if lines)


def _mean_curve(curves: Iterable[PrecisionRecallCurve | None]) -> PrecisionRecallCurve | None:
    """Return the mean of the curves that have the ranks or radii of the first."""
    known = [curve for curve in curves if curve is not None]
    if not known:
        return None
    same = [curve for curve in known if curve.at == known[0].at]
    precision, recall = (
        tuple(map(fmean, zip(*columns, strict=True)))
        for columns in ([curve.precision for curve in same], [curve.recall for curve in same])
    )
    return PrecisionRecallCurve(known[0].at, precision, recall)


def _nearest(values: Sequence[float], targets: Iterable[float]) -> tuple[int, ...]:
    """Return the indices of the values nearest to each target, without repeats."""
    places = range(len(values))
    return tuple(sorted({min(places, key=lambda place: abs(values[place] - target)) for target in targets}))


def _spaced(values: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of up to a dozen values, evenly spaced."""
    first, last = values[0], values[-1]
    n_marks = min(len(values), _N_MARKS)
    return _nearest(values, [first + (last - first) * mark / max(n_marks - 1, 1) for mark in range(n_marks)])
