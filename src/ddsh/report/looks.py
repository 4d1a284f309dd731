"""How labels look in figures: told apart by colour, marker and dashes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from ddsh.report.paper import Paper

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
"""Okabe and Ito's colours, safe for the colour-blind; without yellow, which is lost on white."""

INK, GRID, PAPER, WRONG = PALETTE[-1], "#d9d9d9", "#ffffff", "#d4202c"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_DASHES = ("solid", "dashed", "dotted", "dashdot")
_HATCHES = ("", "////", "....", "xxxx")


@dataclass(frozen=True)
class Look:
    """How a label looks.

    Parameters
    ----------
    number : int
        What tells it apart from others; each has its own.
    name : str
        What it is called.
    """

    number: int
    name: str

    @property
    def colour(self) -> str:
        """Its colour."""
        return PALETTE[self.number % len(PALETTE)]

    @property
    def marker(self) -> str:
        """Its marker."""
        return _MARKERS[self.number % len(_MARKERS)]

    @property
    def dashes(self) -> str:
        """How its lines are dashed."""
        return _DASHES[self._round % len(_DASHES)]

    @property
    def hatch(self) -> str:
        """How its bars are hatched."""
        return _HATCHES[self._round % len(_HATCHES)]

    @property
    def _round(self) -> int:
        """How often the palette was used up before."""
        return self.number // len(PALETTE)


Looks: TypeAlias = Mapping[str, Look]


def make_looks(labels: Iterable[str], paper: Paper) -> Looks:
    """Return a look for each label of a section; the paper's methods look the same in all of them."""
    known = {label: number for number, label in enumerate(paper.names)}
    given = paper.in_order(labels)
    taken = {known[label] for label in given if label in known}
    free = (number for number in count() if number not in taken)
    return {label: Look(known[label] if label in known else next(free), paper.name(label)) for label in given}
