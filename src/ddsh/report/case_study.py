"""Case studies: queries with the images that each method finds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddsh.evaluation.examples import Example, Examples
from ddsh.report.paper import Paper
from ddsh.report.runs import cut_sheet
from ddsh.report.sections import Section

__all__ = ["Case", "CaseFigure", "CaseStudy", "FigureStrip", "Line", "Sheet", "case_figure", "case_study"]

MAX_METHODS = 4
MAX_QUERIES = 5


@dataclass(frozen=True)
class Sheet:
    """A sheet of tiles as a file beside the page.

    Parameters
    ----------
    file : str
        Name of the file.
    columns, rows : int
        Number of tiles across and down.
    content : bytes
        Content of the file.
    """

    file: str
    columns: int
    rows: int
    content: bytes


@dataclass(frozen=True)
class Line:
    """What one method finds for a query.

    Parameters
    ----------
    name : str
        The method.
    sheet : int
        Index of its sheet.
    row : int
        Row of the query in the sheet.
    query : Example
        The query with its nearest images.
    """

    name: str
    sheet: int
    row: int
    query: Example

    @property
    def right(self) -> str:
        """How many of the images are relevant."""
        return f"{sum(self.query.relevant)} of {len(self.query.relevant)} right"

    @property
    def description(self) -> str:
        """Name, number of relevant images, and the others by rank and class."""
        numbered = enumerate(zip(self.query.labels, self.query.relevant, strict=True), start=1)
        wrong = ", ".join(f"{rank} {label}" for rank, (label, is_relevant) in numbered if not is_relevant)
        return f"{self.name}: {self.right}" + (f"; wrong: {wrong}" if wrong else "")


@dataclass(frozen=True)
class Case:
    """A query with a line for each method.

    Parameters
    ----------
    row : int
        Row of the query in the dataset.
    label : str
        Its classes.
    lines : tuple of Line
        One for each method that searched for it.
    """

    row: int
    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class CaseStudy:
    """Queries and sheets of a section, for the page.

    Parameters
    ----------
    n_bits : int
        Code length.
    sheets : tuple of Sheet
        One for each method.
    cases : tuple of Case
        One for each query.
    """

    n_bits: int
    sheets: tuple[Sheet, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, eq=False)
class FigureStrip:
    """Tiles of a query and its nearest images.

    Parameters
    ----------
    tiles : ndarray of uint8, shape (1 + hits, side, side, 3)
        The query, then its hits, nearest first.
    relevant : tuple of bool
        Whether each hit is relevant.
    """

    tiles: NDArray[np.uint8]
    relevant: tuple[bool, ...]


@dataclass(frozen=True)
class CaseFigure:
    """A case study as a figure: strips of tiles by method.

    Parameters
    ----------
    blocks : tuple of (str, tuple of FigureStrip)
        Title of each method, and a strip for each query.
    """

    blocks: tuple[tuple[str, tuple[FigureStrip, ...]], ...]


def _examples_by_label(section: Section) -> tuple[int, Mapping[str, Examples]] | None:
    """Return the code length that most labels have examples of, and the examples of each label's first seed."""
    n_bits = section.usual_bits(lambda run: run.examples)
    if n_bits is None:
        return None
    found = {}
    for cell in section.in_order(n_bits):
        if examples := next((run.examples for run in cell.runs if run.examples), None):
            found[cell.label] = examples
    return n_bits, found


def case_study(section: Section, paper: Paper, name: str) -> CaseStudy | None:
    """Return the case study of a section, or None if no run kept examples.

    Parameters
    ----------
    section : Section
        The results.
    paper : Paper
        Spelling of labels.
    name : str
        Start of the sheets' file names.
    """
    kept = _examples_by_label(section)
    if kept is None:
        return None
    n_bits, by_label = kept
    sheets = []
    lines: dict[int, list[Line]] = {}
    for number, (label, examples) in enumerate(by_label.items()):
        file = f"{name}-case-study-{number + 1}.jpg"
        sheets.append(Sheet(file, examples.columns, len(examples.queries), examples.jpeg))
        for row, query in enumerate(examples.queries):
            lines.setdefault(query.row, []).append(Line(paper.name(label), number, row, query))
    cases = tuple(Case(row, found[0].query.label, tuple(found)) for row, found in lines.items())
    return CaseStudy(n_bits, tuple(sheets), cases)


def case_figure(section: Section, paper: Paper) -> CaseFigure | None:
    """Return the case study of a section as a figure, or None if no run kept examples.

    Up to four methods are shown, those that train a network first, and up to five queries, no two
    with the same classes.
    """
    kept = _examples_by_label(section)
    if kept is None:
        return None
    n_bits, by_label = kept
    deep = [cell.label for cell in section.in_order(n_bits) if any(run.outputs for run in cell.runs)]
    blocks = []
    for label in sorted(by_label, key=lambda label: label not in deep)[:MAX_METHODS]:
        queries, tiles = by_label[label].queries, cut_sheet(by_label[label])
        first = {query.label: row for row, query in reversed(list(enumerate(queries)))}
        strips = tuple(
            FigureStrip(tiles[row, : 1 + len(queries[row].relevant)], tuple(queries[row].relevant))
            for row in sorted(first.values())[:MAX_QUERIES]
        )
        blocks.append((f"{paper.name(label)}, {n_bits} bits", strips))
    return CaseFigure(tuple(blocks))
