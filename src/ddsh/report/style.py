"""Colours, markers and dashes of labels in figures; text of amounts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from ddsh.report.paper import Paper

__all__ = [
    "GRID",
    "INK",
    "PALETTE",
    "PAPER",
    "WRONG",
    "Style",
    "Styles",
    "count_of",
    "duration",
    "make_styles",
    "memory",
    "printable",
    "shorten",
]

INK = "#222222"
GRID = "#d9d9d9"
PAPER = "#ffffff"
WRONG = "#d4202c"
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#5500cc",
    "#dd0066",
    "#b0b060",
    "#884422",
    "#1177ff",
    INK,
)
"""Okabe and Ito's colours without yellow, five that differ from them at least as much as they differ, and ink."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_DASHES = ("solid", "dashed", "dotted", "dashdot")
_HATCHES = ("", "////", r"\\\\", "xxxx")
_PER_DASH = 6
_MAX_LENGTH = 120


@dataclass(frozen=True)
class Style:
    """Appearance of a label: colour, marker, dashes and hatch.

    Parameters
    ----------
    number : int
        Unique within a section.
    name : str
        Name in legends.
    """

    number: int
    name: str

    @property
    def colour(self) -> str:
        """Colour of lines, markers and bars."""
        return PALETTE[self.number % len(PALETTE)]

    @property
    def marker(self) -> str:
        """Marker, as matplotlib names it."""
        return _MARKERS[self.number % len(_MARKERS)]

    @property
    def dashes(self) -> str:
        """Line style, as matplotlib names it."""
        return _DASHES[self.number // _PER_DASH % len(_DASHES)]

    @property
    def hatch(self) -> str:
        """Hatch of bars, as matplotlib names it."""
        return _HATCHES[self.number // _PER_DASH % len(_HATCHES)]


Styles: TypeAlias = Mapping[str, Style]


def make_styles(labels: Iterable[str], paper: Paper) -> Styles:
    """Return a style for each label; methods of the paper look the same everywhere."""
    numbers = {label: number for number, label in enumerate(paper.names)}
    ordered = paper.in_order(labels)
    taken = {numbers[label] for label in ordered if label in numbers}
    free = (number for number in count() if number not in taken)
    return {label: Style(numbers[label] if label in numbers else next(free), paper.name(label)) for label in ordered}


def duration(seconds: float) -> str:
    """Return a time such as ``12.3 s``, ``14 min`` or ``3 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def memory(n_bytes: int | None) -> str:
    """Return an amount of memory in GiB; an empty string for None."""
    return "" if n_bytes is None else f"{n_bytes / 2**30:.1f} GiB"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where needed."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Return text with control characters and lone surrogates replaced."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def shorten(value: object) -> str:
    """Return any value as one printable line of at most 120 characters."""
    text = str(value)
    return printable(text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…")
