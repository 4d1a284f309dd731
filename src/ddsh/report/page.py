"""The page: everything in one file that needs no other."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from ddsh.report.blocks import Drawn, section_block
from ddsh.report.cases import case_study
from ddsh.report.markup import Html, element, plain
from ddsh.report.paper import Paper
from ddsh.report.sections import Section
from ddsh.report.words import counted

_MOST_OPEN = 12
"""More problems than this are folded away."""


def make_page(parts: Sequence[Drawn], problems: Sequence[str], paper: Paper) -> str:
    """Return the page.

    Parameters
    ----------
    parts : sequence of Drawn
        What it shows.
    problems : sequence of str
        What is wrong with the results, one line each.
    paper : Paper
        What ours is put beside.
    """
    cases = [case_study(part.section, paper, f"sheet-{place}") for place, part in enumerate(parts)]
    sections = (
        section_block(part, case, paper, f"experiment-{place}")
        for place, (part, case) in enumerate(zip(parts, cases, strict=True))
    )
    body = element(
        "body",
        _header(parts),
        element("main", _problems(problems), *sections),
        element("footer", "Made by ddsh report from results alone; no model was run."),
        element("div", id="tip", hidden=True),
        element("script", Html(_asset("page.js"))),
    )
    style = _asset("page.css") + "".join(case.style for case in cases if case)
    return f"<!doctype html>\n{element('html', _head(style), body, lang='en')}\n"


def _head(style: str) -> Html:
    digest = base64.b64encode(hashlib.sha256(_asset("page.js").encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "ddsh report"),
        element("style", Html(style)),
    )


def _asset(name: str) -> str:
    return (files("ddsh.report") / name).read_text(encoding="utf-8")


def _header(parts: Sequence[Drawn]) -> Html:
    n_runs = sum(len(list(part.section.runs)) for part in parts)
    sections = [part.section for part in parts]
    links = (
        element("a", _title(section, sections), href=f"#experiment-{place}") for place, section in enumerate(sections)
    )
    counts = f"{counted(n_runs, 'result')}, {counted(len(parts), 'experiment')}"
    head = element("div", element("h1", "ddsh report"), element("p", counts))
    return element("header", head, element("nav", *links, aria_label="Experiments"))


def _title(section: Section, sections: Sequence[Section]) -> str:
    """Return what a section is called; its dataset and protocol are added where its experiment has several."""
    namesakes = [other for other in sections if other.experiment == section.experiment]
    name = plain(section.experiment)
    return name if len(namesakes) == 1 else f"{name} ({plain(section.dataset)}, {plain(section.protocol)})"


def _problems(problems: Sequence[str]) -> Html:
    if not problems:
        return element("p", "✓ No problems: every file is a result, and no seed is missing.", id="problems")
    title = element("summary", f"⚠ {counted(len(problems), 'problem')}")
    lines = element("ul", *(element("li", problem) for problem in problems))
    return element("details", title, lines, id="problems", open=len(problems) <= _MOST_OPEN)
