"""Sections of a report: results by experiment, label and bits."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddsh.evaluation.result import Spread
from ddsh.evaluation.significance import Comparison, compare
from ddsh.report.paper import Paper
from ddsh.report.runs import ReportedRun
from ddsh.report.style import shorten

__all__ = ["USUAL_BITS", "Cell", "Section", "flat_params", "make_sections", "missing_runs"]

USUAL_BITS = 32
"""Code length of the paper's case study."""

SWEEP = ("choose-", "tune-")
"""Experiments that choose settings have names that start with these."""

_MAX_NAMED = 14
_MAX_PARAMS = 40


@dataclass(frozen=True)
class Cell:
    """The runs of a label at a code length; they differ in the seed alone.

    Parameters
    ----------
    label : str
        Row of the table.
    n_bits : int
        Code length.
    runs : tuple of ReportedRun
        Ordered by seed.
    of_other_split : bool
        Whether a run has another split than most runs of its seed; it must not be compared.
    paper : float or None
        Mean average precision in the paper.
    """

    label: str
    n_bits: int
    runs: tuple[ReportedRun, ...]
    of_other_split: bool
    paper: float | None

    @property
    def map(self) -> Spread:
        """Mean average precision over seeds."""
        return Spread.of([run.map for run in self.runs])

    @property
    def bounds(self) -> tuple[float, float]:
        """Mean average precision with the worst and the best order of ties."""
        return (
            Spread.of([run.map_low for run in self.runs]).mean,
            Spread.of([run.map_high for run in self.runs]).mean,
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def has_collapsed(self) -> bool:
        """Whether the codes of a run have collapsed."""
        return any(run.bits.collapsed for run in self.runs if run.bits)

    def spread(self, measure: Callable[[ReportedRun], float | None]) -> Spread | None:
        """Return mean and deviation of a measure over the seeds that have it."""
        known = [value for run in self.runs if (value := measure(run)) is not None]
        return Spread.of(known) if known else None


@dataclass(frozen=True)
class Section:
    """The results of an experiment on a dataset with one protocol.

    Parameters
    ----------
    experiment, dataset, protocol : str
        Shared by its runs.
    labels : tuple of str
        Rows of its table, in the paper's order.
    bits, seeds : tuple of int
        Code lengths and seeds that occur.
    cells : mapping of (str, int) to Cell
        By label and code length; combinations without a run are absent.
    is_papers : bool
        Whether the paper has this dataset with this protocol.
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
    def runs(self) -> Iterator[ReportedRun]:
        """All runs, row by row."""
        return (run for cell in self.in_order() for run in cell.runs)

    @property
    def is_sweep(self) -> bool:
        """Whether it compares settings rather than methods."""
        return self.experiment.startswith(SWEEP)

    @property
    def has_paper_scores(self) -> bool:
        """Whether the paper has a score for any of its cells."""
        return any(cell.paper is not None for cell in self.cells.values())

    @property
    def setting(self) -> Mapping[str, Any]:
        """Size of the query set and the database, and the convention of MAP."""
        return next(self.runs).setting

    def in_order(self, n_bits: int | None = None) -> list[Cell]:
        """Return the cells row by row; only those of one code length if it is given."""
        lengths = self.bits if n_bits is None else (n_bits,)
        places = [(label, length) for label in self.labels for length in lengths]
        return [self.cells[place] for place in places if place in self.cells]

    def best(self, n_bits: int) -> float | None:
        """Return the best mean average precision at a code length."""
        return max((cell.map.mean for cell in self.in_order(n_bits) if not cell.of_other_split), default=None)

    def behind(self) -> dict[tuple[str, int], Comparison]:
        """Return the comparison of the best cell of each code length with every other, by label and code length."""
        found: dict[tuple[str, int], Comparison] = {}
        for n_bits in () if self.is_sweep else self.bits:
            cells = [cell for cell in self.in_order(n_bits) if not cell.of_other_split]
            best = max(cells, key=lambda cell: cell.map.mean, default=None)
            for cell in cells:
                shared = {run.split for run in cell.runs} & {run.split for run in best.runs} if best else set()
                if best is not None and cell is not best and shared:
                    comparison = compare(best.runs, cell.runs)[0]
                    if comparison.is_tested:
                        found[cell.label, n_bits] = comparison
        return found

    def usual_bits(self, measure: Callable[[ReportedRun], object]) -> int | None:
        """Return the code length at which most labels have something, the nearest to 32 among equals."""
        counts = Counter(cell.n_bits for cell in self.in_order() if any(measure(run) for run in cell.runs))
        return max(counts, key=lambda n_bits: (counts[n_bits], -abs(n_bits - USUAL_BITS), n_bits), default=None)


def make_sections(runs: Iterable[ReportedRun], paper: Paper, first: Sequence[str] = ()) -> list[Section]:
    """Group runs by experiment, dataset and protocol.

    Parameters
    ----------
    runs : iterable of ReportedRun
        The runs.
    paper : Paper
        Order of labels, and the scores to compare with.
    first : sequence of str
        Experiments that come first. Comparisons with the paper's protocol follow, then the others, then
        sweeps of settings (``choose-*``, ``tune-*``).
    """
    groups: dict[tuple[str, str, str], list[ReportedRun]] = {}
    for run in runs:
        groups.setdefault((run.experiment, run.dataset, run.protocol), []).append(run)
    places = {name: place for place, name in enumerate(first)}
    sections = [_make_section(groups[key], paper) for key in sorted(groups)]
    return sorted(
        sections,
        key=lambda section: (
            places.get(section.experiment, len(places)),
            section.is_sweep,
            not section.is_papers,
            len(section.labels) == 1,
        ),
    )


def _make_section(runs: Sequence[ReportedRun], paper: Paper) -> Section:
    splits: dict[int, Counter[str]] = {}
    grouped: dict[tuple[str, int], list[ReportedRun]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        splits.setdefault(run.seed, Counter())[run.split] += 1
        grouped.setdefault((run.label, run.n_bits), []).append(run)
    usual_split = {seed: counts.most_common(1)[0][0] for seed, counts in splits.items()}
    dataset, protocol = runs[0].dataset, runs[0].protocol
    return Section(
        experiment=runs[0].experiment,
        dataset=dataset,
        protocol=protocol,
        labels=tuple(paper.in_order(label for label, _ in grouped)),
        bits=tuple(sorted({n_bits for _, n_bits in grouped})),
        seeds=tuple(sorted(splits)),
        cells={
            (label, n_bits): Cell(
                label,
                n_bits,
                tuple(members),
                of_other_split=any(run.split != usual_split[run.seed] for run in members),
                paper=paper.map.get((dataset, label, n_bits)),
            )
            for (label, n_bits), members in grouped.items()
        },
        is_papers=paper.has_protocol(dataset, protocol),
    )


def missing_runs(section: Section) -> list[str]:
    """Return one line for each kind of gap in a section: labels, bits and seeds without a result."""

    def join(numbers: Iterable[int]) -> str:
        """Return numbers with commas between them."""
        return ", ".join(map(str, numbers))

    gaps: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for label in section.labels:
        missing: dict[tuple[int, ...], list[int]] = {}
        for n_bits in section.bits:
            cell = section.cells.get((label, n_bits))
            if seeds := tuple(seed for seed in section.seeds if cell is None or seed not in cell.seeds):
                missing.setdefault(seeds, []).append(n_bits)
        for seeds, lengths in missing.items():
            gaps.setdefault((tuple(lengths), seeds), []).append(label)
    lines = []
    for (bits, seeds), labels in gaps.items():
        more = f" and {len(labels) - _MAX_NAMED} more" if len(labels) > _MAX_NAMED else ""
        lack = f"{'seed' if len(seeds) == 1 else 'seeds'} {join(seeds)} missing"
        lack = "no result" if seeds == section.seeds else lack
        lines.append(f"{section.experiment}: {', '.join(labels[:_MAX_NAMED])}{more} at {join(bits)} bits: {lack}.")
    return lines


def flat_params(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield parameters by dotted name, nested ones too."""
    for name, value in list(params.items())[:_MAX_PARAMS]:
        if isinstance(value, dict) and prefix.count(".") < 2:
            yield from flat_params(value, f"{prefix}{shorten(name)}.")
        else:
            yield f"{prefix}{shorten(name)}", value
