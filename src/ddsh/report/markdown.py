"""Tables of scores for a README."""

import re
from collections.abc import Iterable

from ddsh.errors import UnknownName
from ddsh.evaluation.records import Record
from ddsh.report.paper import Paper, read_paper
from ddsh.report.runs import read_runs
from ddsh.report.sections import Cell, Section, make_sections

DIGITS = 3
"""Of a score, as the paper prints it."""


def markdown_table(records: Iterable[Record], experiment: str) -> str:
    """Return a table of mean average precision, labels x code lengths, with the paper's in brackets.

    Parameters
    ----------
    records : iterable of Record
        Results; those of other experiments are passed over.
    experiment : str
        Which one.

    Returns
    -------
    str
        One Markdown table, or one for each dataset and protocol where an experiment has several.
    """
    runs, _ = read_runs(records)
    known = {run.record.experiment for run in runs}
    if experiment not in known:
        raise UnknownName("experiment", experiment, known)
    paper = read_paper()
    sections = make_sections((run for run in runs if run.record.experiment == experiment), paper)
    return "\n\n".join(_table(section, paper) for section in sections)


def _table(section: Section, paper: Paper) -> str:
    head = ["method", *(f"{n_bits} bits" for n_bits in section.bits)]
    rows = [[_escaped(paper.name(label)), *_scores(section, label)] for label in section.labels]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _scores(section: Section, label: str) -> list[str]:
    return [_score(section, section.cells.get((label, n_bits))) for n_bits in section.bits]


def _score(section: Section, cell: Cell | None) -> str:
    if cell is None:
        return "–"
    ours = cell.map.text(DIGITS)
    if section.best(cell.n_bits) == cell.map.mean and not cell.of_other_split:
        ours = f"**{ours}**"
    return ours if cell.paper is None or not section.is_papers else f"{ours} ({cell.paper:.{DIGITS}f})"


def _escaped(text: str) -> str:
    """Return text that Markdown leaves alone."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)
