"""The page's section on one experiment, block by block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddsh.report import tables
from ddsh.report.cases import CaseStudy
from ddsh.report.chart import ABOUT_LEARNING, ABOUT_RANKING, Chart
from ddsh.report.markup import Html, element, plain
from ddsh.report.paper import Paper
from ddsh.report.sections import Cell, Section
from ddsh.report.words import counted, duration

_TIES = {"expected": ", ties averaged", "stable": ", ties in the order of the database"}
_HEALTH = (
    "How the codes of the database use their bits, over all seeds. The best bit is one half of the time (entropy 1) and"
    " tells what no other bit tells (correlation 0); codes that are all alike have collapsed."
)
_CASES = (
    "The first query of each class and the 20 nearest images of the database, nearest first, from left to right. Images"
    " of another class are in a red box with a cross."
)


@dataclass(frozen=True)
class Drawn:
    """A section with all that is drawn of it.

    Parameters
    ----------
    section : Section
        The results.
    figures : tuple of (Chart, Html)
        Its charts, and each of them as an element of the page.
    """

    section: Section
    figures: tuple[tuple[Chart, Html], ...]


def section_block(part: Drawn, case: CaseStudy | None, paper: Paper, name: str) -> Html:
    """Return the section on one experiment.

    Parameters
    ----------
    part : Drawn
        What it shows.
    case : CaseStudy or None
        Its queries with what was found.
    paper : Paper
        What ours is put beside.
    name : str
        What the page's links call it.
    """
    section = part.section
    blocks = {chart.name: _block(chart.title, chart.text, figure) for chart, figure in part.figures}
    content = [
        element("h2", plain(section.experiment)),
        element("p", _setting(section)),
        _tiles(section, paper),
        _map_block(section, paper),
        *_some(blocks, ABOUT_RANKING),
        *_case_blocks(case),
        *_health_blocks(section, paper),
        *_some(blocks, ABOUT_LEARNING),
        _provenance_block(section, paper),
    ]
    return element("section", *content, id=name)


def _some(blocks: Mapping[str, Html], names: Sequence[str]) -> list[Html]:
    return [blocks[name] for name in names if name in blocks]


def _setting(section: Section) -> str:
    """Return what was run, in one line."""
    scores = next(section.runs).record.scores
    sizes = f"{_grouped(scores.get('n_query'))} queries, {_grouped(scores.get('n_database'))} database items"
    top = scores.get("top_k")
    scope = f"first {_grouped(top)} items" if top else "whole ranking"
    ties = _TIES.get(str(scores.get("ties")), "")
    return f"Dataset {plain(section.dataset)}, protocol {plain(section.protocol)}: {sizes}; MAP over the {scope}{ties}."


def _grouped(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else "unknown"


def _tiles(section: Section, paper: Paper) -> Html:
    """Return the few numbers to look at first."""
    comparable = [cell for cell in section.in_order() if not cell.of_other_split] or section.in_order()
    best = max(comparable, key=lambda cell: cell.map.mean)
    seconds = [run.seconds for run in section.runs if run.seconds is not None]
    tiles = [
        ("best MAP", best.map.text(3), f"{paper.name(best.label)}, {best.n_bits} bits"),
        ("results", str(len(list(section.runs))), _size(section)),
        ("seeds", str(len(section.seeds)), _fewest_seeds(section)),
    ]
    if seconds:
        longest = duration(max(seconds))
        tiles.append(("computing time", duration(sum(seconds)), f"{longest} at most a run"))
    return element("div", *(_tile(*tile) for tile in tiles), class_="tiles")


def _size(section: Section) -> str:
    return f"{counted(len(section.labels), 'method')} × {counted(len(section.bits), 'length')}"


def _fewest_seeds(section: Section) -> str:
    fewest = min(len(cell.seeds) for cell in section.in_order())
    return "in every cell" if fewest == len(section.seeds) else f"at least {fewest} in each cell"


def _tile(name: str, value: str, note: str) -> Html:
    return element("div", element("small", name), element("b", value), element("small", note))


def _map_block(section: Section, paper: Paper) -> Html:
    return _block("Mean average precision", _map_text(section), tables.map_table(section, paper))


def _map_text(section: Section) -> str:
    seeds = "one seed" if len(section.seeds) == 1 else "mean ± standard deviation over seeds"
    text = f"{seeds.capitalize()}; ★ is the best of a length. Point at a cell for tie bounds and splits."
    if section.is_papers:
        return f"{text} The paper's figures, and how far ours are above or below, are under ours."
    if any(cell.paper is not None for cell in section.in_order()):
        return f"{text} The paper's figures are for its whole protocol: they are shown, not compared."
    return text


def _case_blocks(case: CaseStudy | None) -> Sequence[Html]:
    return [_block(f"Case study at {case.n_bits} bits", _CASES, case.html)] if case else []


def _health_blocks(section: Section, paper: Paper) -> Sequence[Html]:
    """Return the table of one code length and of what has collapsed; that of all lengths is folded away."""
    usual = section.usual_bits(lambda run: run.bits)
    known = [cell for cell in section.in_order() if any(run.bits for run in cell.runs)]
    first = [cell for cell in known if cell.n_bits == usual or _has_collapsed(cell)]
    if not known:
        return []
    tables_shown = [tables.health_table(first, "Bit health", paper)]
    if len(known) > len(first):
        summary = element("summary", "All code lengths")
        tables_shown.append(element("details", summary, tables.health_table(known, "Bit health, all lengths", paper)))
    return [_block("Bit health", _HEALTH, *tables_shown)]


def _has_collapsed(cell: Cell) -> bool:
    return any(run.bits.collapsed for run in cell.runs if run.bits)


def _provenance_block(section: Section, paper: Paper) -> Html:
    runs = element("details", element("summary", "All runs, with tie bounds"), tables.runs_table(section, paper))
    settings = element("details", element("summary", "Parameters"), tables.settings_table(section, paper))
    return _block("Provenance", "Where these results come from.", tables.provenance(section), runs, settings)


def _block(title: str, text: str, *content: Html) -> Html:
    return element("article", element("h3", title), element("p", text), *content)
