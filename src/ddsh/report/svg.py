"""SVG figures of matplotlib prepared for the page: panels, colours, tooltips."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from markupsafe import Markup

from ddsh.report.charts import Chart, Kind, Series
from ddsh.report.plot import draw_sample, panel_boxes, series_id
from ddsh.report.style import GRID, INK, PALETTE, PAPER, Style, Styles

__all__ = ["inline_panels", "inline_sample"]

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOURS: Mapping[str, str] = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(PALETTE)},
    INK: "currentColor",
    GRID: "var(--grid)",
    PAPER: "var(--card)",
}
_MAX_NAMED = 20
_ERROR_PARTS = 3


def inline_panels(svg: bytes, chart: Chart, styles: Styles, name: str) -> list[Markup]:
    """Return the panels of a drawn chart as SVG elements of a page.

    Parameters
    ----------
    svg : bytes
        The chart as drawn by :func:`ddsh.report.plot.draw_chart`.
    chart : Chart
        Its data.
    styles : mapping of str to Style
        Style of each label.
    name : str
        Unique in the page; start of all ids.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 -- written by matplotlib a moment ago
    groups = {group.get("id"): group for group in root.iter(f"{_SVG}g")}
    definitions = [part for part in root if part.tag == f"{_SVG}defs" and part.find(f"{_SVG}style") is None]
    panels = []
    for number, (panel, box) in enumerate(zip(chart.panels, panel_boxes(chart), strict=True)):
        for series in panel.series:
            _add_tips(groups, series, styles[series.label], number)
        names = [styles[series.label].name for series in panel.series]
        listed = ", ".join(names[:_MAX_NAMED]) + (" and more" if len(names) > _MAX_NAMED else "")
        description = f"{chart.title}, {panel.title}: {panel.y_name} by {panel.x_name} of {listed}."
        element = ElementTree.Element(
            "svg", {"viewBox": " ".join(f"{length:g}" for length in box), "role": "img", "aria-label": description}
        )
        element.extend([*(definitions if number == 0 else []), groups[f"axes_{number + 1}"]])
        panels.append(_to_markup(element, name))
    return panels


def inline_sample(style: Style, kind: Kind, name: str) -> Markup:
    """Return the legend entry of a style as an SVG element of a page; `name` starts its ids."""
    root = ElementTree.fromstring(draw_sample(style, kind))  # noqa: S314 -- written by matplotlib a moment ago
    element = ElementTree.Element("svg", {"viewBox": root.get("viewBox", ""), "aria-hidden": "true", "class": "sample"})
    element.extend(part for part in root if part.find(f"{_SVG}style") is None and part.tag != f"{_SVG}metadata")
    return _to_markup(element, name)


def _add_tips(groups: Mapping[str | None, ElementTree.Element], series: Series, style: Style, panel: int) -> None:
    """Mark the groups of a series, and add tooltips to it and its marks; those of error bars say nothing."""
    tips = {series_id(panel, style): f"{style.name}, {series.tip}" if series.tip else style.name}
    tips |= {series_id(panel, style, f"-error-{place}"): "" for place in range(_ERROR_PARTS)}
    tips |= {series_id(panel, style, f"-bar-{place}"): f"{style.name}, {tip}" for place, tip in enumerate(series.tips)}
    for identity, tip in tips.items():
        group = groups.get(identity)
        if group is None:
            continue
        group.set("class", "series")
        group.set("data-series", str(style.number))
        targets = [(group, tip)] if tip else []
        markers = list(group.iter(f"{_SVG}use"))
        if len(markers) == len(series.tips) and identity == series_id(panel, style):
            targets += [(mark, f"{style.name}, {text}") for mark, text in zip(markers, series.tips, strict=True)]
        for target, text in targets:
            title = ElementTree.Element(f"{_SVG}title")
            title.text = text
            target.insert(0, title)


def _to_markup(element: ElementTree.Element, name: str) -> Markup:
    """Return SVG with the page's colours, unique ids, and no more digits than a screen can show."""
    for part in element.iter():
        part.tag = part.tag.removeprefix(_SVG)
        if part.tag == "g":
            _share_style(part)
        identity = part.attrib.pop("id", None)
        if identity and part.tag not in ("g", "svg"):
            part.set("id", f"{name}:{identity}")
        if link := part.attrib.pop(_LINK, None):
            part.set("href", f"#{name}:{link.removeprefix('#')}")
        part.text, part.tail = (part.text or "").strip() or None, None
        for key, value in part.attrib.items():
            if key in ("d", "x", "y", "transform"):
                value = " ".join(re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.4g}", value).split())
            elif key in ("style", "fill", "stroke"):
                value = re.sub("#[0-9a-f]{6}", lambda found: _COLOURS.get(found[0], found[0]), value)
                value = value.replace(": ", ":").replace("; ", ";")
            part.set(key, value.replace("url(#", f"url(#{name}:"))
    return Markup(ElementTree.tostring(element, encoding="unicode"))


def _share_style(group: ElementTree.Element) -> None:
    """Move a style that all marks of a group share to the group."""
    marks = group.findall(f"{_SVG}use")
    styles = {mark.get("style") for mark in marks}
    if len(marks) > 1 and len(styles) == 1 and None not in styles and group.get("style") is None:
        group.set("style", styles.pop() or "")
        for mark in marks:
            del mark.attrib["style"]
