"""What the figures show, as numbers: from a section to charts, their panels and their series."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ddsh.evaluation.records import Spread
from ddsh.evaluation.scores import RADII
from ddsh.report.chart import Chart, Panel, Series
from ddsh.report.runs import Curve, Pass
from ddsh.report.sections import Cell, Section

MAX_RANK = 1000
_RECALLS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_NEAR_THE_ENDS = 0.9
_N_MARKS = 12


def make_charts(section: Section) -> list[Chart]:
    """Return the figures of a section; those that nothing is known for are left out."""
    makers = (
        _map_by_bits,
        _precision_recall_by_rank,
        _precision_recall_by_radius,
        _precision_at_k,
        _success_rate,
        _outputs,
        _balance,
        _loss,
        _objective,
        _cost,
    )
    charts = (make(section) for make in makers)
    return [chart for chart in charts if chart.panels]


def _map_by_bits(section: Section) -> Chart:
    ours = tuple(_maps(section, label) for label in section.labels)
    theirs = tuple(filter(None, (_papers_maps(section, label) for label in section.labels)))
    shown = [("here", ours), *([("in the paper", theirs)] if theirs and section.is_papers else [])]
    panels = tuple(
        Panel(title, "bits", "MAP", series, y_limits=(0.0, 1.0), ticks=section.bits) for title, series in shown
    )
    text = "Mean average precision at each code length; bars show the standard deviation over seeds."
    return Chart("map", "MAP by code length", text, panels if len(section.bits) > 1 else ())


def _maps(section: Section, label: str) -> Series:
    cells = [cell for cell in section.in_order() if cell.label == label]
    return Series(
        label,
        x=tuple(float(cell.n_bits) for cell in cells),
        y=tuple(cell.map.mean for cell in cells),
        marked=tuple(range(len(cells))),
        tips=tuple(f"{cell.n_bits} bits: MAP {cell.map.text(4)}" for cell in cells),
        errors=tuple(cell.map.deviation or 0.0 for cell in cells),
    )


def _papers_maps(section: Section, label: str) -> Series | None:
    cells = [cell for cell in section.in_order() if cell.label == label and cell.paper is not None]
    figures = tuple(cell.paper for cell in cells if cell.paper is not None)
    tips = tuple(f"{cell.n_bits} bits: MAP {cell.paper:.3f} in the paper" for cell in cells)
    x = tuple(float(cell.n_bits) for cell in cells)
    return Series(label, x, figures, marked=tuple(range(len(cells))), tips=tips) if cells else None


def _precision_recall_by_rank(section: Section) -> Chart:
    def series(cell: Cell) -> Series | None:
        """Return the curve of a cell, if it has one."""
        return _precision_recall(cell, "rank", _mean_curve([run.by_rank for run in cell.runs]))

    text = "Precision and recall among the first 1, 2, … items of the ranking, averaged over queries and seeds."
    panels = _by_bits(section, series, _PRECISION_RECALL)
    return Chart("precision-recall-by-rank", "Precision and recall by rank", text, panels)


def _precision_recall_by_radius(section: Section) -> Chart:
    def series(cell: Cell) -> Series | None:
        """Return the curve of a cell, if it has one."""
        return _precision_recall(cell, "radius", _mean_curve([run.by_radius for run in cell.runs]))

    text = "Precision and recall within Hamming radius 0, 1, 2, …; a lookup that finds nothing counts as precision 0."
    panels = _by_bits(section, series, _PRECISION_RECALL)
    return Chart("precision-recall-by-radius", "Precision and recall by radius", text, panels)


def _precision_recall(cell: Cell, place_name: str, curve: Curve | None) -> Series | None:
    if curve is None:
        return None
    marked = _nearest(curve.recall, _RECALLS)
    tips = tuple(
        f"{place_name} {curve.place[i]:,.0f}: precision {curve.precision[i]:.3f}, recall {curve.recall[i]:.3f}"
        for i in marked
    )
    return Series(cell.label, curve.recall, curve.precision, marked=marked, tips=tips)


def _precision_at_k(section: Section) -> Chart:
    panel = Panel("", "k", "precision among the first k", (), x_log=True, y_limits=(0.0, 1.0))
    text = "Precision among the first k items of the ranking, ties averaged."
    return Chart("precision-at-k", "Precision at k", text, _by_bits(section, _precision_by_rank, panel))


def _precision_by_rank(cell: Cell) -> Series | None:
    curve = _mean_curve([run.by_rank for run in cell.runs])
    first = [] if curve is None else [i for i, rank in enumerate(curve.place) if 1 <= rank <= MAX_RANK]
    if curve is None or not first:
        return None
    x, y = tuple(curve.place[i] for i in first), tuple(curve.precision[i] for i in first)
    marked = _nearest(x, _RANKS)
    tips = tuple(f"first {x[i]:,.0f}: precision {y[i]:.3f}" for i in marked)
    return Series(cell.label, x, y, marked=marked, tips=tips)


def _success_rate(section: Section) -> Chart:
    panels = (_success_within(section, radius) for radius in RADII)
    text = "Share of queries that find at least one relevant item within a Hamming radius."
    return Chart("success-rate", "Success rate of lookups", text, tuple(panel for panel in panels if panel.series))


def _success_within(section: Section, radius: int) -> Panel:
    series = (_successes(section, label, radius) for label in section.labels)
    return Panel(
        f"radius {radius}",
        "bits",
        "success rate",
        tuple(line for line in series if line.x),
        kind="bars",
        y_limits=(0.0, 1.0),
        ticks=section.bits,
    )


def _successes(section: Section, label: str, radius: int) -> Series:
    found = [
        (section.bits.index(cell.n_bits), cell.n_bits, rate)
        for cell in section.in_order()
        if cell.label == label and (rate := cell.spread(lambda run: run.record.success_rate(radius)))
    ]
    return Series(
        label,
        x=tuple(float(place) for place, _, _ in found),
        y=tuple(rate.mean for _, _, rate in found),
        tips=tuple(f"{n_bits} bits: success rate {rate.text(3)}" for _, n_bits, rate in found),
    )


def _outputs(section: Section) -> Chart:
    panel = Panel("", "tanh(output)", "share of outputs", (), kind="steps", x_limits=(-1.0, 1.0))
    text = "What the trained networks put out for the queries, after tanh: the nearer to -1 and 1, the safer the bits."
    return Chart("outputs", "Distribution of tanh outputs", text, _by_bits(section, _histogram, panel))


def _histogram(cell: Cell) -> Series | None:
    histogram = next((run.outputs for run in cell.runs if run.outputs), None)
    if histogram is None:
        return None
    shares = tuple(count / sum(histogram.counts) for count in histogram.counts)
    ends = sum(
        share
        for share, (low, high) in zip(shares, pairwise(histogram.edges), strict=True)
        if abs(low + high) / 2 > _NEAR_THE_ENDS
    )
    tip = f"{ends:.0%} of the outputs are beyond ±{_NEAR_THE_ENDS}"
    return Series(cell.label, tuple(histogram.edges), shares, tip=tip)


def _balance(section: Section) -> Chart:
    panel = Panel("", "bits, by their share of ones", "share of ones", (), y_limits=(0.0, 1.0))
    text = "How often each bit is one in the database, bits in ascending order; a half is best, 0 and 1 are dead bits."
    return Chart("bit-balance", "Balance of bits", text, _by_bits(section, _shares, panel))


def _shares(cell: Cell) -> Series | None:
    health = next((run.bits for run in cell.runs if run.bits), None)
    if health is None:
        return None
    shares = tuple(sorted(health.share))
    marked = _nearest(tuple(map(float, range(len(shares)))), _spaced(len(shares)))
    tips = tuple(f"bit {i + 1} of {len(shares)}: one in {shares[i]:.1%} of the codes" for i in marked)
    return Series(cell.label, tuple(float(i + 1) for i in range(len(shares))), shares, marked=marked, tips=tips)


def _loss(section: Section) -> Chart:
    text = "Mean loss of each pass. Methods have losses of different kinds: compare the shapes, not the heights."
    return Chart("training-loss", "Training loss", text, _training(section, "loss", lambda step: step.loss))


def _objective(section: Section) -> Chart:
    text = "The method's own objective after each pass, where it has one."
    panels = _training(section, "objective", lambda step: step.objective)
    return Chart("training-objective", "Training objective", text, panels)


def _training(section: Section, name: str, measure: Callable[[Pass], float | None]) -> tuple[Panel, ...]:
    def series(cell: Cell) -> Series | None:
        """Return the curve of a cell, if it has one."""
        return _training_series(cell, name, measure)

    return _by_bits(section, series, Panel("", "pass", name, (), y_log=True))


def _training_series(cell: Cell, name: str, measure: Callable[[Pass], float | None]) -> Series | None:
    run = next((run for run in cell.runs if run.history), None)
    steps = [(float(step.number), value) for step in run.history if (value := measure(step))] if run else []
    steps = [(number, value) for number, value in steps if value > 0]
    if not steps:
        return None
    x, y = zip(*steps, strict=True)
    marked = _nearest(x, _spaced(len(x), first=x[0], last=x[-1]))
    tips = tuple(f"pass {x[i]:.0f}: {name} {y[i]:.4g}" for i in marked)
    return Series(cell.label, x, y, marked=marked, tips=tips)


def _cost(section: Section) -> Chart:
    panel = Panel("", "seconds", "MAP", (), kind="points", x_log=True, y_limits=(0.0, 1.0))
    text = (
        "Wall time of fitting, encoding and scoring against mean average precision: up and to the left is better. What "
        "frozen layers put out is shared between runs; the first to need it has its time."
    )
    return Chart("cost", "Cost against accuracy", text, _by_bits(section, _time_and_map, panel))


def _time_and_map(cell: Cell) -> Series | None:
    seconds = cell.spread(lambda run: run.seconds)
    if seconds is None or seconds.mean <= 0:
        return None
    memory = cell.spread(lambda run: run.peak_memory)
    tip = f"{seconds.text(1)} s, MAP {cell.map.text(4)}{_memory(memory)}"
    return Series(cell.label, (seconds.mean,), (cell.map.mean,), marked=(0,), tips=(tip,))


def _memory(memory: Spread | None) -> str:
    return "" if memory is None else f", {memory.mean / 1e9:.1f} GB of memory"


_PRECISION_RECALL = Panel("", "recall", "precision", (), x_limits=(0.0, 1.0), y_limits=(0.0, 1.0))


def _by_bits(section: Section, series: Callable[[Cell], Series | None], like: Panel) -> tuple[Panel, ...]:
    """Return a panel for each code length that something is known for."""
    lines = {n_bits: tuple(filter(None, map(series, section.in_order(n_bits)))) for n_bits in section.bits}
    return tuple(replace(like, title=f"{n_bits} bits", series=found) for n_bits, found in lines.items() if found)


def _mean_curve(curves: Iterable[Curve | None]) -> Curve | None:
    """Return the mean of curves over the same ranks or radii as the first of them."""
    known = [curve for curve in curves if curve is not None]
    if not known:
        return None
    same = [curve for curve in known if curve.place == known[0].place]
    precision, recall = (
        tuple(Spread.of(list(values)).mean for values in zip(*columns, strict=True))
        for columns in ([curve.precision for curve in same], [curve.recall for curve in same])
    )
    return Curve(known[0].place, precision, recall)


def _nearest(values: Sequence[float], targets: Iterable[float]) -> tuple[int, ...]:
    """Return the places of the values that come nearest to each target, none twice."""
    places = range(len(values))
    return tuple(sorted({min(places, key=lambda place: abs(values[place] - target)) for target in targets}))


def _spaced(n_values: int, first: float = 0.0, last: float | None = None) -> list[float]:
    """Return up to a dozen targets, evenly spaced from the first to the last."""
    end = n_values - 1 if last is None else last
    n_marks = min(n_values, _N_MARKS)
    return [first + (end - first) * mark / max(n_marks - 1, 1) for mark in range(n_marks)]
