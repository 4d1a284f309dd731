"""Charts as parts of the page: a legend, and panels that find their place at any width."""

from ddsh.report.chart import Chart, Kind, Panel
from ddsh.report.inline import inline_panel, inline_sample
from ddsh.report.looks import Look, Looks
from ddsh.report.markup import Html, element

_MOST_NAMED = 20


def chart_figure(chart: Chart, looks: Looks, name: str) -> Html:
    """Return a chart as an element of the page.

    Parameters
    ----------
    chart : Chart
        What it shows.
    looks : mapping of str to Look
        How labels look.
    name : str
        What nothing else of the page is called.
    """
    shown = [look for label, look in looks.items() if label in chart.labels]
    panels = (
        inline_panel(panel, looks, f"{name}-{place}", _described(chart, panel, looks))
        for place, panel in enumerate(chart.panels)
    )
    legend = _legend(shown, chart.panels[0].kind, name)
    return element("figure", legend, element("div", *panels, class_="panels"), class_="chart")


def _legend(looks: list[Look], kind: Kind, name: str) -> Html:
    """Return what tells labels apart; pointing at one dims the others, pressing it keeps them so."""
    return element("figcaption", *(_entry(look, kind, name) for look in looks), class_="legend")


def _entry(look: Look, kind: Kind, name: str) -> Html:
    sample = inline_sample(look, kind, f"{name}-key-{look.number}")
    return element("button", sample, look.name, type="button", data_series=look.number)


def _described(chart: Chart, panel: Panel, looks: Looks) -> str:
    """Return a panel in words."""
    names = [looks[series.label].name for series in panel.series]
    listed = ", ".join(names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
    return f"{chart.title}, {panel.title}: {panel.y_name} by {panel.x_name} of {listed}."
