"""Results ordered for a report: one section for each experiment, one cell for each label and code length."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ddsh.evaluation.records import Spread
from ddsh.report.markup import plain
from ddsh.report.paper import Paper
from ddsh.report.runs import Run

USUAL_BITS = 32
"""The length that the paper's case study has."""

_N_NAMED = 14
"""Labels that a line on gaps names; as many as the paper's largest table has."""


@dataclass(frozen=True)
class Cell:
    """The runs of a label at a code length, which differ in the seed alone.

    Parameters
    ----------
    label : str
        What they are called in tables.
    n_bits : int
        Code length.
    runs : tuple of Run
        By seed.
    of_other_split : bool
        Whether a run was made on another split than most runs of its seed, so that it must not be compared.
    paper : float or None
        The paper's mean average precision.
    """

    label: str
    n_bits: int
    runs: tuple[Run, ...]
    of_other_split: bool
    paper: float | None

    @property
    def map(self) -> Spread:
        """Mean average precision."""
        return self.spread(lambda run: run.record.map) or Spread(0.0, None)

    @property
    def bounds(self) -> tuple[float, float]:
        """The same with the worst and the best order of ties."""
        low, high = (
            Spread.of([float(run.record.scores[name]) for run in self.runs]).mean for name in ("map_low", "map_high")
        )
        return low, high

    @property
    def seeds(self) -> tuple[int, ...]:
        """Its seeds."""
        return tuple(run.record.seed for run in self.runs)

    def spread(self, measure: Callable[[Run], float | None]) -> Spread | None:
        """Return a figure over those seeds that have it."""
        known = [value for run in self.runs if (value := measure(run)) is not None]
        return Spread.of(known) if known else None


@dataclass(frozen=True)
class Section:
    """The results of an experiment on a dataset, split by one protocol.

    Parameters
    ----------
    experiment, dataset, protocol : str
        What they share.
    labels : tuple of str
        The lines of its table, in the paper's order.
    bits, seeds : tuple of int
        Code lengths and seeds that appear in it.
    cells : mapping of (str, int) to Cell
        By label and code length; those without a run are not in it.
    is_papers : bool
        Whether the paper has this dataset by this protocol.
    """

    experiment: str
    dataset: str
    protocol: str
    labels: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: tuple[int, ...]
    cells: Mapping[tuple[str, int], Cell]
    is_papers: bool

    @property
    def runs(self) -> Iterator[Run]:
        """All runs, line by line."""
        return (run for cell in self.in_order() for run in cell.runs)

    def in_order(self, n_bits: int | None = None) -> list[Cell]:
        """Return the cells, line by line; only those of one code length if it is given."""
        lengths = self.bits if n_bits is None else (n_bits,)
        places = [(label, length) for label in self.labels for length in lengths]
        return [self.cells[place] for place in places if place in self.cells]

    def best(self, n_bits: int) -> float | None:
        """Return the best mean average precision at a code length."""
        comparable = [cell.map.mean for cell in self.in_order(n_bits) if not cell.of_other_split]
        return max(comparable, default=None)

    def usual_bits(self, measure: Callable[[Run], object]) -> int | None:
        """Return the code length at which most labels have something, the nearest to `USUAL_BITS` among equals."""
        counts = Counter(cell.n_bits for cell in self.in_order() if any(measure(run) for run in cell.runs))
        return max(counts, key=lambda n_bits: (counts[n_bits], -abs(n_bits - USUAL_BITS), n_bits), default=None)


def make_sections(runs: Iterable[Run], paper: Paper) -> list[Section]:
    """Order runs by experiment, dataset and protocol."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.record.experiment, run.record.dataset, run.record.protocol), []).append(run)
    return [_section(key, groups[key], paper) for key in sorted(groups)]


def gaps(section: Section) -> list[str]:
    """Return one line for each kind of gap in a section: labels, lengths and seeds that were not run."""
    lines: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for label in section.labels:
        for seeds, bits in _gaps_of(section, label).items():
            lines.setdefault((tuple(bits), seeds), []).append(label)
    return [
        f"{plain(section.experiment)}: {_named(labels)} at {_listed(bits)} bits: {_lack(section, seeds)}."
        for (bits, seeds), labels in lines.items()
    ]


def _gaps_of(section: Section, label: str) -> dict[tuple[int, ...], list[int]]:
    """Return the code lengths at which a label lacks the same seeds."""
    lacking: dict[tuple[int, ...], list[int]] = {}
    for n_bits in section.bits:
        cell = section.cells.get((label, n_bits))
        if seeds := tuple(seed for seed in section.seeds if cell is None or seed not in cell.seeds):
            lacking.setdefault(seeds, []).append(n_bits)
    return lacking


def _lack(section: Section, seeds: tuple[int, ...]) -> str:
    if seeds == section.seeds:
        return "no result"
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {_listed(seeds)} missing"


def _named(labels: list[str]) -> str:
    more = f" and {len(labels) - _N_NAMED} more" if len(labels) > _N_NAMED else ""
    return ", ".join(labels[:_N_NAMED]) + more


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _section(key: tuple[str, str, str], runs: list[Run], paper: Paper) -> Section:
    experiment, dataset, protocol = key
    usual = _usual_splits(runs)
    grouped: dict[tuple[str, int], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.record.seed):
        grouped.setdefault((run.label, run.record.n_bits), []).append(run)
    return Section(
        experiment=experiment,
        dataset=dataset,
        protocol=protocol,
        labels=tuple(paper.in_order(label for label, _ in grouped)),
        bits=tuple(sorted({n_bits for _, n_bits in grouped})),
        seeds=tuple(sorted({run.record.seed for run in runs})),
        cells={place: _cell(place, members, usual, paper) for place, members in grouped.items()},
        is_papers=paper.has_protocol(dataset, protocol),
    )


def _cell(place: tuple[str, int], runs: list[Run], usual: Mapping[int, str], paper: Paper) -> Cell:
    label, n_bits = place
    of_other_split = any(run.record.split != usual[run.record.seed] for run in runs)
    return Cell(label, n_bits, tuple(runs), of_other_split, paper.map.get((runs[0].record.dataset, label, n_bits)))


def _usual_splits(runs: Iterable[Run]) -> dict[int, str]:
    """Return the split that most runs of each seed share."""
    counts: dict[int, Counter[str]] = {}
    for run in runs:
        counts.setdefault(run.record.seed, Counter())[run.record.split] += 1
    return {seed: count.most_common(1)[0][0] for seed, count in counts.items()}
