"""Tables of results and methods for the terminal and other programs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table as RichTable

from ddsh.report.text_table import TableCell, TextTable

if TYPE_CHECKING:
    from ddsh.evaluation.result import Spread, Summary
    from ddsh.methods.base import MethodCard

__all__ = ["methods_table", "rich_table", "summary_csv", "summary_table"]

_SCORES = ("map", "precision_100", "success_2", "seconds")


def summary_table(summaries: Sequence["Summary"]) -> TextTable:
    """Return results as mean and standard deviation over seeds."""

    def text(spread: "Spread | None", digits: int) -> str:
        """Return ``mean ± deviation``; nothing for None."""
        return "" if spread is None else spread.text(digits)

    rows = tuple(
        (
            summary.experiment,
            summary.label,
            summary.network,
            str(summary.n_bits),
            str(len(summary.seeds)),
            *(text(getattr(summary, name), 1 if name == "seconds" else 4) for name in _SCORES),
        )
        for summary in summaries
    )
    header = ("experiment", "method", "network", "bits", "seeds", "MAP", "P@100", "success r=2", "seconds")
    return TextTable(header, rows, "lll" + "r" * (len(header) - 3))


def summary_csv(summaries: Sequence["Summary"]) -> str:
    """Return results as CSV: means and standard deviations in full precision."""
    named = ("experiment", "dataset", "protocol", "label", "method", "network", "n_bits")
    header = (*named, "n_seeds", *(f"{name}_{part}" for name in _SCORES for part in ("mean", "deviation")))
    rows = []
    for summary in summaries:
        row = [*(str(getattr(summary, name)) for name in named), str(len(summary.seeds))]
        for name in _SCORES:
            spread = getattr(summary, name)
            values = (None, None) if spread is None else (spread.mean, spread.deviation)
            row += ["" if value is None else str(value) for value in values]
        rows.append(tuple(row))
    return TextTable(header, tuple(rows)).to_csv()


def methods_table(cards: Sequence["MethodCard"]) -> TextTable:
    """Return the methods with their publications and deviations."""
    learns_from = {"none": "nothing", "unsupervised": "items", "supervised": "items and labels"}
    return TextTable(
        ("method", "what it is", "published", "learns from", "takes", "differs from the paper in"),
        tuple(
            (
                TableCell(card.name, is_code=True),
                card.title,
                f"{card.authors}, {card.venue} {card.year}",
                learns_from[card.supervision],
                card.inputs,
                "; ".join(card.deviations) or "nothing",
            )
            for card in cards
        ),
    )


def rich_table(table: TextTable) -> RichTable:
    """Return a table for the terminal."""
    shown = RichTable(header_style="bold")
    for name, side in zip(table.header, table.alignment, strict=True):
        shown.add_column(escape(name), justify="right" if side == "r" else "left", overflow="fold")
    for row in table.cells:
        shown.add_row(*(escape(cell.text) for cell in row))
    return shown
