"""Tables of text, written as Markdown, LaTeX, CSV or HTML."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

__all__ = ["Note", "TableCell", "TextTable"]

_MARKDOWN = re.compile(r"[\\`*\[\]<>|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
    }
)


@dataclass(frozen=True)
class Note:
    """Small text beside or under the text of a cell.

    Parameters
    ----------
    text : str
        What it says.
    difference : str
        A signed difference after it, such as ``▲ +0.012``.
    kind : str
        Class of it in HTML: ``above``, ``below``, ``equal`` or ``warning``.
    """

    text: str
    difference: str = ""
    kind: str = ""


@dataclass(frozen=True)
class TableCell:
    """A cell that is more than text.

    Parameters
    ----------
    text : str
        Its text.
    is_best : bool
        Whether it is emphasised.
    is_code : bool
        Whether it is set in a fixed-width font.
    notes : tuple of Note
        Small texts after it.
    title : str
        Explanation shown when pointed at, in HTML.
    bar : (float, float), optional
        Ends of a small bar before the text, from 0 to 1, in HTML.
    kind : str
        Class of its text in HTML.
    """

    text: str
    is_best: bool = False
    is_code: bool = False
    notes: tuple[Note, ...] = ()
    title: str = ""
    bar: tuple[float, float] | None = None
    kind: str = ""


@dataclass(frozen=True)
class TextTable:
    """A header and rows of cells.

    Parameters
    ----------
    header : tuple of str
        Names of the columns.
    rows : tuple of tuple of str or TableCell
        Its cells, row by row.
    align : str
        A letter for each column, ``l`` or ``r``; left if it is empty.
    title : str
        Caption, in HTML.
    name : str
        Class of the table in HTML.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str | TableCell, ...], ...]
    align: str = ""
    title: str = ""
    name: str = ""

    @property
    def alignment(self) -> str:
        """A letter for each column."""
        return self.align or "l" * len(self.header)

    @property
    def cells(self) -> list[list[TableCell]]:
        """All rows, with every cell as a `TableCell`."""
        return [[TableCell(cell) if isinstance(cell, str) else cell for cell in row] for row in self.rows]

    def select(self, columns: Sequence[str]) -> "TextTable":
        """Return a table with some of the columns, by name."""
        places = [self.header.index(name) for name in columns]
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return replace(self, header=tuple(columns), rows=rows, align="".join(self.alignment[place] for place in places))

    def to_markdown(self) -> str:
        """Return a Markdown table; special characters are escaped."""

        def text(cell: TableCell) -> str:
            """Return a cell in Markdown."""
            escaped = f"`{cell.text}`" if cell.is_code else _MARKDOWN.sub(r"\\\g<0>", cell.text)
            parts = [f"**{escaped}**" if cell.is_best else escaped, *(note.text for note in cell.notes)]
            return " ".join(parts)

        rows = [list(self.header), ["---"] * len(self.header), *([text(cell) for cell in row] for row in self.cells)]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def to_latex(self) -> str:
        """Return a LaTeX table; it needs the package booktabs."""

        def line(texts: Iterable[str]) -> str:
            """Return a row in LaTeX."""
            return " & ".join(texts) + r" \\"

        def text(cell: TableCell) -> str:
            """Return a cell in LaTeX."""
            escaped = cell.text.translate(_LATEX)
            return rf"\textbf{{{escaped}}}" if cell.is_best else escaped

        begin, end = rf"\begin{{tabular}}{{{self.alignment}}}", r"\end{tabular}"
        header = line(name.translate(_LATEX) for name in self.header)
        rows = [line(map(text, row)) for row in self.cells]
        return "\n".join([begin, r"\toprule", header, r"\midrule", *rows, r"\bottomrule", end])

    def to_csv(self) -> str:
        """Return comma-separated values with a header, without a newline at the end."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([cell.text for cell in row] for row in self.cells)
        return file.getvalue().rstrip("\n")
