"""Sweeps of settings: a sorted table, and MAP against each setting."""

from collections.abc import Mapping
from typing import Any

from ddsh.report.charts import Chart, Panel, Series
from ddsh.report.paper import Paper
from ddsh.report.sections import Cell, Section, flat_params
from ddsh.report.style import duration, shorten
from ddsh.report.text_table import Note, TableCell, TextTable

__all__ = ["sweep_chart", "sweep_table", "varying_settings"]

_NOT_SETTINGS = ("seed", "weights", "device", "checkpoint_seconds")
_DEFAULT = "default"
_MAX_TICKS = 4


def varying_settings(section: Section) -> dict[str, dict[tuple[str, int], Any]]:
    """Return the settings that differ between labels of the same method.

    Settings are found in the parameters of each run, however deep; a setting that is always a
    fixed multiple of another one is left out.

    Returns
    -------
    dict of str to dict
        By name of the setting, its value in each cell whose method has it; None for the default.
    """
    by_method: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for place, cell in section.cells.items():
        run = cell.runs[0]
        found = {name.rpartition(".")[2]: value for name, value in flat_params(run.params)}
        found |= {"n_bits": cell.n_bits, "network": run.network, "image_size": run.image_size, "n_frozen": run.n_frozen}
        by_method.setdefault(run.method, {})[place] = found
    values: dict[str, dict[tuple[str, int], Any]] = {}
    varying = set()
    for cells in by_method.values():
        for name in dict.fromkeys(name for found in cells.values() for name in found):
            settings = {place: found.get(name) for place, found in cells.items()}
            values.setdefault(name, {}).update(settings)
            if len(set(map(repr, settings.values()))) > 1 and name not in _NOT_SETTINGS:
                varying.add(name)
    chosen: dict[str, dict[tuple[str, int], Any]] = {}
    for name in [name for name in values if name in varying]:
        if not any(_is_multiple(values[name], other) for other in chosen.values()):
            chosen[name] = values[name]
    return chosen


def _is_multiple(values: Mapping[tuple[str, int], Any], others: Mapping[tuple[str, int], Any]) -> bool:
    """Return whether two settings have a constant ratio wherever they are set."""
    if values.keys() != others.keys() or not all(map(_is_number, [*values.values(), *others.values()])):
        return False
    return len({round(values[place] / others[place], 9) for place in values if others[place]}) == 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return _DEFAULT if value is None else f"{value:g}" if isinstance(value, float) else shorten(value)


def sweep_table(section: Section, paper: Paper) -> TextTable:
    """Return the cells of a sweep, best first, with the settings that differ."""
    settings = varying_settings(section)
    names = [name for name in settings if name != "n_bits"]
    best = max((cell.map.mean for cell in section.in_order() if not cell.of_other_split), default=None)

    def row(cell: Cell) -> tuple[str | TableCell, ...]:
        """Return a row of the table."""
        notes = [Note("⚠ other split", kind="warning")] if cell.of_other_split else []
        notes += [Note("⚠ collapsed", kind="warning")] if cell.has_collapsed else []
        is_best = cell.map.mean == best and not cell.of_other_split
        place = cell.label, cell.n_bits
        seconds = cell.spread(lambda run: run.seconds)
        return (
            cell.label,
            TableCell(cell.map.text(4), is_best=is_best, notes=tuple(notes)),
            paper.name(cell.runs[0].method),
            str(cell.n_bits),
            *(_text(settings[name][place]) if place in settings[name] else "–" for name in names),
            str(len(cell.seeds)),
            "" if seconds is None else duration(seconds.mean),
        )

    cells = sorted(section.in_order(), key=lambda cell: -cell.map.mean)
    return TextTable(
        header=("label", "MAP", "method", "bits", *(name.replace("_", " ") for name in names), "seeds", "time"),
        rows=tuple(row(cell) for cell in cells),
        align="lrlr" + "r" * (len(names) + 2),
        title=f"Settings, best first, {section.experiment}",
        name="sweep",
    )


def sweep_chart(section: Section) -> Chart:
    """Return mean average precision against each setting, one panel per setting."""
    usual = section.usual_bits(lambda run: run.map)
    panels = []
    for name, values in varying_settings(section).items():
        cells = [
            section.cells[place] for place in values if name == "n_bits" or usual in (None, section.cells[place].n_bits)
        ]
        known = [values[cell.label, cell.n_bits] for cell in cells]
        if len({repr(value) for value in known}) < 2:
            continue
        is_numeric = all(map(_is_number, known))
        names = tuple(sorted(set(map(_text, known))))
        numbers = tuple(sorted({float(value) for value in known})) if is_numeric else ()
        by_method: dict[str, list[tuple[float, Cell]]] = {}
        for cell, value in zip(cells, known, strict=True):
            x = float(value) if is_numeric else float(names.index(_text(value)))
            by_method.setdefault(cell.runs[0].method, []).append((x, cell))
        series = tuple(
            Series(
                method,
                x=tuple(x for x, _ in points),
                y=tuple(cell.map.mean for _, cell in points),
                marked=tuple(range(len(points))),
                tips=tuple(
                    f"{cell.label}: MAP {cell.map.text(4)}, {name} = {_text(values[cell.label, cell.n_bits])}"
                    for _, cell in points
                ),
            )
            for method, points in by_method.items()
        )
        ticks = (numbers if len(numbers) <= _MAX_TICKS else None) if is_numeric else names
        log = is_numeric and numbers[0] > 0
        panels.append(Panel("", name.replace("_", " "), "MAP", series, "points", x_log=log, ticks=ticks))
    text = "Mean average precision against each setting that differs between labels; a point is a label of the table."
    return Chart("settings", "MAP against each setting", text, tuple(panels))
