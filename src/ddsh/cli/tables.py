"""Results as tables for other programs."""

import csv
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ddsh.evaluation.records import Spread, Summary

if TYPE_CHECKING:
    from ddsh.methods.base import MethodCard

HEADER = ("experiment", "method", "network", "bits", "seeds", "MAP", "P@100", "success r=2", "seconds")
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


def cells(line: Summary) -> tuple[str, ...]:
    """Return a line of a table, as :data:`HEADER` has it."""
    figures = (_text(line.map, 4), _text(line.precision_100, 4), _text(line.success_2, 4), _text(line.seconds, 1))
    return line.experiment, line.label, line.network, str(line.n_bits), str(len(line.seeds)), *figures


def as_csv(lines: Sequence[Summary]) -> str:
    """Return CSV with a column for each mean and each standard deviation, in full precision."""
    figures = ("map", "precision_100", "success_2", "seconds")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    named = ("experiment", "dataset", "protocol", "label", "method", "network", "n_bits")
    writer.writerow([*named, "n_seeds", *(f"{name}_{part}" for name in figures for part in ("mean", "deviation"))])
    for line in lines:
        values = [part for name in figures for part in _parts(getattr(line, name))]
        writer.writerow([*(getattr(line, name) for name in named), len(line.seeds), *values])
    return file.getvalue().rstrip("\n")


def as_markdown(lines: Sequence[Summary]) -> str:
    """Return a Markdown table."""
    return _markdown(HEADER, [cells(line) for line in lines])


def methods_markdown(cards: Sequence["MethodCard"]) -> str:
    """Return the methods as a Markdown table."""
    header = ("method", "what it is", "published", "learns from", "takes", "differs from the paper in")
    return _markdown(header, [_method(card) for card in cards])


def _method(card: "MethodCard") -> tuple[str, ...]:
    published = f"{card.authors}, {card.venue} {card.year}"
    learns_from = {"none": "nothing", "unsupervised": "items", "supervised": "items and labels"}[card.supervision]
    return f"`{card.name}`", card.title, published, learns_from, card.inputs, "; ".join(card.deviations) or "nothing"


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---" for _ in header], *lines]
    return "\n".join("| " + " | ".join(re.sub(r"([\\|])", r"\\\1", cell) for cell in row) + " |" for row in rows)


def as_latex(lines: Sequence[Summary]) -> str:
    """Return a LaTeX table; it needs the package booktabs."""
    rows = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (HEADER, *map(cells, lines))]
    columns = "lll" + "r" * (len(HEADER) - 3)
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule", end])


def _text(figure: Spread | None, digits: int) -> str:
    return "" if figure is None else figure.text(digits)


def _parts(figure: Spread | None) -> tuple[float | str, float | str]:
    if figure is None:
        return "", ""
    return figure.mean, "" if figure.deviation is None else figure.deviation
