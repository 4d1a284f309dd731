"""The case study as a figure: which methods and queries it shows, and their tiles."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddsh.evaluation.examples import Examples
from ddsh.report.cases import kept_examples
from ddsh.report.paper import Paper
from ddsh.report.sections import Section
from ddsh.report.sheets import cut_sheet

MAX_BLOCKS = 4
MAX_STRIPS = 5


@dataclass(frozen=True, eq=False)
class Strip:
    """A query and what was found for it.

    Parameters
    ----------
    tiles : ndarray of uint8, shape (1 + hits, side, side, 3)
        The query, then its hits, nearest first.
    right : tuple of bool
        Whether each hit is relevant.
    """

    tiles: NDArray[np.uint8]
    right: tuple[bool, ...]


@dataclass(frozen=True)
class Block:
    """What one method found.

    Parameters
    ----------
    title : str
        Its name and code length.
    strips : tuple of Strip
        One for each query.
    """

    title: str
    strips: tuple[Strip, ...]

    @property
    def side(self) -> int:
        """Side of its tiles in pixels."""
        return int(self.strips[0].tiles.shape[1])


@dataclass(frozen=True)
class Gallery:
    """The case study of a section.

    Parameters
    ----------
    blocks : tuple of Block
        One for each method.
    """

    blocks: tuple[Block, ...]


def make_gallery(section: Section, paper: Paper) -> Gallery | None:
    """Return the case study of a section, or None where no run kept any images.

    Methods that train a network come first, as in the paper, otherwise in the order of the tables.
    """
    kept = kept_examples(section)
    if kept is None:
        return None
    deep = [cell.label for cell in section.in_order(kept.n_bits) if any(run.outputs for run in cell.runs)]
    labels = sorted(kept.of_label, key=lambda label: label not in deep)[:MAX_BLOCKS]
    return Gallery(
        tuple(
            Block(f"{paper.name(label)}, {kept.n_bits} bits", tuple(_strips(kept.of_label[label]))) for label in labels
        )
    )


def _strips(examples: Examples) -> Iterator[Strip]:
    """Yield the first queries, no two of the same class."""
    firsts = {query.label: place for place, query in reversed(list(enumerate(examples.queries)))}
    tiles = cut_sheet(examples)
    for place in sorted(firsts.values())[:MAX_STRIPS]:
        right = tuple(examples.queries[place].relevant)
        yield Strip(tiles[place, : 1 + len(right)], right)
