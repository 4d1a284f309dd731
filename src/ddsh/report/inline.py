"""SVG made fit for a page: colours that follow the page's, no clashing names, texts for those who point or listen."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from ddsh.report.chart import Kind, Panel, Series
from ddsh.report.drawing import bar_name, draw_panel, error_name, group_name, sample
from ddsh.report.looks import GRID, INK, PALETTE, PAPER, Look, Looks
from ddsh.report.markup import Html

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOURS: Mapping[str, str] = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(PALETTE)},
    INK: "currentColor",
    GRID: "var(--grid)",
    PAPER: "var(--card)",
}
_NEEDLESS = ("metadata", "style")
_ERROR_PARTS = 3


def inline_panel(panel: Panel, looks: Looks, name: str, description: str) -> Html:
    """Return a panel as SVG to be put into a page.

    Parameters
    ----------
    panel : Panel
        What it shows.
    looks : mapping of str to Look
        How labels look.
    name : str
        What no other SVG of the page is called; its names start with it.
    description : str
        What it shows, for those who cannot see it.
    """
    root = _read(draw_panel(panel, looks))
    groups = {group.get("id"): group for group in root.iter(f"{_SVG}g")}
    for series in panel.series:
        for identity, tip in _tips(series, looks[series.label]).items():
            if identity in groups:
                _mark(groups[identity], series, looks[series.label], tip)
    return _written(root, name, {"role": "img", "aria-label": description})


def _tips(series: Series, look: Look) -> dict[str, str]:
    """Return what to say of each group that a series may have in SVG; its markers say what error bars show."""
    whole = f"{look.name}, {series.tip}" if series.tip else look.name
    errors = dict.fromkeys((error_name(look, place) for place in range(_ERROR_PARTS)), "")
    bars = {bar_name(look, place): f"{look.name}, {tip}" for place, tip in enumerate(series.tips)}
    return {group_name(look): whole} | errors | bars


def inline_sample(look: Look, kind: Kind, name: str) -> Html:
    """Return what a label looks like in a kind of panel, as SVG to be put into a page; `name` is as for a panel."""
    root = _read(sample(look, kind))
    return _written(root, name, {"aria-hidden": "true", "class": "sample"})


def _read(svg: bytes) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)  # noqa: S314 -- matplotlib wrote it a moment ago
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.removeprefix(_SVG) in _NEEDLESS:
                parent.remove(child)
    for side in ("width", "height", "version"):
        root.attrib.pop(side, None)
    return root


def _mark(group: ElementTree.Element, series: Series, look: Look, tip: str) -> None:
    """Say whose a group is, and what it and each of its markers shows."""
    group.set("class", "series")
    group.set("data-series", str(look.number))
    markers = list(group.iter(f"{_SVG}use"))
    if tip:
        _explain(group, tip)
    if len(markers) == len(series.tips) and group.get("id") == group_name(look):
        for marker, words in zip(markers, series.tips, strict=True):
            _explain(marker, f"{look.name}, {words}")


def _explain(target: ElementTree.Element, tip: str) -> None:
    title = ElementTree.Element(f"{_SVG}title")
    title.text = tip
    target.insert(0, title)


def _written(root: ElementTree.Element, name: str, attributes: Mapping[str, str]) -> Html:
    for part in root.iter():
        _rename(part, name)
        _shorten(part)
        part.tag = part.tag.removeprefix(_SVG)
        _recolour(part)
    for key, value in attributes.items():
        root.set(key, value)
    return Html(ElementTree.tostring(root, encoding="unicode"))


def _recolour(part: ElementTree.Element) -> None:
    """Put the page's colours in place of those that matplotlib wrote."""
    for key in ("style", "fill", "stroke"):
        if value := part.get(key):
            part.set(key, re.sub(r"#[0-9a-f]{6}", lambda found: _COLOURS.get(found[0], found[0]), value))


def _shorten(part: ElementTree.Element) -> None:
    """Drop blank space and digits that no screen can show."""
    part.text, part.tail = (part.text or "").strip() or None, None
    for key in ("d", "x", "y", "transform"):
        if value := part.get(key):
            part.set(key, " ".join(re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}", value).split()))


def _rename(part: ElementTree.Element, name: str) -> None:
    """Let names that are referred to start with the SVG's own, and drop all others."""
    identity = part.attrib.pop("id", None)
    if identity and part.tag.removeprefix(_SVG) not in ("g", "svg"):
        part.set("id", f"{name}-{identity}")
    if link := part.attrib.pop(_LINK, None):
        part.set("href", f"#{name}-{link.removeprefix('#')}")
    for key, value in part.attrib.items():
        if "url(#" in value:
            part.set(key, value.replace("url(#", f"url(#{name}-"))
