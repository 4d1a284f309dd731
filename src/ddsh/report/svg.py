"""SVG figures of matplotlib for the page: panels, colours, tooltips."""

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
_CLASSES: Mapping[str | None, str] = {
    "fill:none;stroke:var(--grid);stroke-width:0.6;stroke-linecap:square": "grid",
    "fill:none;stroke:currentColor;stroke-width:0.8;stroke-linejoin:miter;stroke-linecap:square": "axis",
}
_TICK = "fill:currentColor;stroke:currentColor;stroke-width:0.8"
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
        title = f"{chart.title}, {panel.title}" if panel.title else chart.title
        description = f"{title}: {panel.y_name} by {panel.x_name} of {listed}."
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
        if len(styles := {mark.attrib.pop("style", "") for mark in markers}) == 1:
            group.set("style", styles.pop())
        for target, text in targets:
            title = ElementTree.Element(f"{_SVG}title")
            title.text = text
            target.insert(0, title)


def _to_markup(element: ElementTree.Element, name: str) -> Markup:
    """Return SVG with the page's colours, unique ids, and nothing that a browser does not need.

    Every mark lies within its axes, so clip paths go; styles of axes are those of ``page.css``.
    """
    _flatten(element)
    for part in element.iter():
        part.tag = part.tag.removeprefix(_SVG)
        part.text, part.tail = (part.text or "").strip() or None, None
        part.attrib.pop("clip-path", None)
        identity, link = part.attrib.pop("id", None), part.attrib.pop(_LINK, None)
        if identity and part.tag != "g":
            part.set("id", f"{name}:{identity}")
        if link:
            part.set("href", f"#{name}:{link.removeprefix('#')}")
        for key, value in part.attrib.items():
            if key in ("d", "x", "y", "transform"):
                value = " ".join(re.sub(r"-?\d+\.\d+", _shorter, value).split())
            elif key in ("style", "fill", "stroke"):
                value = re.sub("#[0-9a-f]{6}", lambda found: _COLOURS.get(found[0], found[0]), value)
                value = value.replace(": ", ":").replace("; ", ";")
            part.set(key, value.replace("url(#", f"url(#{name}:"))
        if part.tag == "text":
            _simplify_text(part)
        elif part.get("style") == _TICK and part.tag == "use":
            del part.attrib["style"]
        elif part.get("style") in _CLASSES:
            part.set("class", _CLASSES[part.attrib.pop("style")])
    return Markup(ElementTree.tostring(element, encoding="unicode"))  # noqa: S704 -- ElementTree escapes


def _shorter(found: re.Match[str]) -> str:
    """Return a coordinate with a tenth of a point, or three digits for shapes of markers."""
    number = float(found[0])
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.3g}"


def _flatten(element: ElementTree.Element) -> None:
    """Remove clip paths, and groups that neither have a style nor belong to a series."""
    children = []
    for child in element:
        _flatten(child)
        if child.tag == f"{_SVG}g" and "class" not in child.attrib and "style" not in child.attrib:
            children += list(child)
        elif child.tag != f"{_SVG}clipPath":
            children.append(child)
    element[:] = children


def _simplify_text(text: ElementTree.Element) -> None:
    """Leave size, weight and anchor of a text; the page sets the rest."""
    style = dict(entry.split(":", 1) for entry in text.attrib.pop("style", "").split(";") if ":" in entry)
    for key in ("font-size", "font-weight", "text-anchor"):
        if style.get(key, "") not in ("", "8px"):
            text.set(key, style[key])
    if "font" in style and "bold" in style["font"]:
        text.attrib |= {"font-weight": "bold"}
    if text.get("transform", "").startswith("rotate(-0 "):
        del text.attrib["transform"]
