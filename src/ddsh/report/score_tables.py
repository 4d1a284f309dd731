"""Tables of a section: MAP, bit health, runs, parameters and provenance."""

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

from ddsh.errors import UnknownName
from ddsh.evaluation.result import Result
from ddsh.report.paper import Paper, read_paper
from ddsh.report.runs import ReportedRun, read_runs
from ddsh.report.sections import Cell, Section, flat_params, make_sections
from ddsh.report.style import count_of, duration, memory, shorten
from ddsh.report.text_table import Note, TableCell, TextTable

__all__ = [
    "bit_health_table",
    "headline",
    "map_table",
    "markdown_table",
    "parameters_table",
    "provenance",
    "runs_table",
]

DIGITS = 3
"""Digits of a score, as the paper prints it."""

_FINGERPRINT = 8
_MAX_ITEMS = 40
_UNKNOWN = "not recorded"


def markdown_table(results: Iterable[Result], experiment: str) -> str:
    """Return MAP of an experiment as a Markdown table, labels x code lengths.

    The paper's scores are in brackets where its protocol is the same. A score with ``≈`` is not significantly below
    the best of its column; see :func:`ddsh.evaluation.compare`.

    Parameters
    ----------
    results : iterable of Result
        Results; those of other experiments are ignored.
    experiment : str
        Name of the experiment.

    Returns
    -------
    str
        One table, or one for each dataset and protocol of the experiment.
    """
    runs, _ = read_runs(results)
    known = {run.experiment for run in runs}
    if experiment not in known:
        raise UnknownName("experiment", experiment, known)
    paper = read_paper()
    tables = []
    for section in make_sections((run for run in runs if run.experiment == experiment), paper):
        rows, behind = [], section.behind()
        for label in section.labels:
            row: list[str | TableCell] = [paper.name(label)]
            for n_bits in section.bits:
                cell = section.cells.get((label, n_bits))
                has_paper = cell is not None and cell.paper is not None and section.is_papers
                notes = (Note(f"({cell.paper:.{DIGITS}f})"),) if cell and has_paper else ()
                is_best = _is_best(section, cell)
                close = (label, n_bits) in behind and not behind[label, n_bits].is_significant
                text = f"{cell.map.text(DIGITS)}{' ≈' if close else ''}" if cell else ""
                row.append(TableCell(text, is_best=is_best, notes=notes) if cell else "–")
            rows.append(tuple(row))
        header = ("method", *(f"{n_bits} bits" for n_bits in section.bits))
        tables.append(TextTable(header, tuple(rows)).to_markdown())
    return "\n\n".join(tables)


def _is_best(section: Section, cell: Cell | None) -> bool:
    return cell is not None and cell.map.mean == section.best(cell.n_bits) and not cell.of_other_split


def map_table(section: Section, paper: Paper) -> TextTable:
    """Return mean average precision, labels x code lengths, with the paper's scores and tests against the best."""
    behind = section.behind()

    def cell_of(label: str, n_bits: int) -> TableCell:
        """Return a cell of the table."""
        cell = section.cells.get((label, n_bits))
        if cell is None:
            return TableCell("–", notes=(Note("not run"),), kind="none")
        notes = []
        if cell.paper is not None:
            difference, kind = cell.map.mean - cell.paper, ""
            sign = ""
            if section.is_papers:
                sign, kind = ("▲", "above") if difference > 0 else ("▼", "below")
                sign, kind = ("=", "equal") if abs(difference) < 0.5 * 10**-DIGITS else (sign, kind)
            text = f"{sign} {difference:+.{DIGITS}f}" if sign else ""
            notes.append(Note(f"paper {cell.paper:.{DIGITS}f}", text, kind))
        if test := behind.get((label, n_bits)):
            notes.append(Note("significantly below the best" if test.is_significant else "≈ not significantly below"))
        if len(section.seeds) > 1:
            notes.append(Note(f"{count_of(len(cell.seeds), 'seed')} of {len(section.seeds)}"))
        if cell.of_other_split:
            notes.append(Note("⚠ other split", kind="warning"))
        low, high = cell.bounds
        splits = ", ".join(sorted({run.split[:_FINGERPRINT] for run in cell.runs}))
        title = (
            f"MAP {cell.map.text(4)}; worst to best order of ties {low:.4f} to {high:.4f};"
            f" seeds {', '.join(map(str, cell.seeds))}; splits {splits}"
        )
        if test:
            tests = [("queries", test.query_p), ("seeds", test.seed_p)]
            known = ", ".join(f"p = {p:.4f} over {over}" for over, p in tests if p is not None)
            title += f"; {test.difference:.4f} below {paper.name(test.first)} ({known})"
        return TableCell(cell.map.text(DIGITS), is_best=_is_best(section, cell), notes=tuple(notes), title=title)

    return TextTable(
        header=("method", *(f"{n_bits} bits" for n_bits in section.bits)),
        rows=tuple(
            (paper.name(label), *(cell_of(label, n_bits) for n_bits in section.bits)) for label in section.labels
        ),
        align="l" + "r" * len(section.bits),
        title=f"Mean average precision, {section.experiment}",
        name="map",
    )


def bit_health_table(cells: Iterable[Cell], title: str, paper: Paper) -> TextTable:
    """Return balance, entropy and correlation of bits, for cells that record them."""
    rows = []
    for cell in cells:
        known = [run.bits for run in cell.runs if run.bits]
        low, high = min(min(bits.share) for bits in known), max(max(bits.share) for bits in known)
        n_distinct, n_codes = fmean(bits.n_distinct for bits in known), fmean(bits.n_codes for bits in known)
        rows.append(
            (
                paper.name(cell.label),
                str(cell.n_bits),
                TableCell(f"{low:.2f} to {high:.2f}", bar=(low, high)),
                f"{fmean(fmean(bits.entropy) for bits in known):.3f}",
                f"{fmean(bits.mean_correlation for bits in known):.3f}",
                f"{max(bits.max_correlation for bits in known):.3f}",
                f"{n_distinct:,.0f} of {n_codes:,.0f}",
                TableCell("⚠ collapsed", kind="warning") if cell.has_collapsed else "✓ ok",
            )
        )
    header = ("method", "bits", "share of ones", "entropy", "mean |correlation|", "largest", "distinct codes", "")
    return TextTable(header, tuple(rows), "lrrrrrrr", title)


def runs_table(section: Section, paper: Paper) -> TextTable:
    """Return all runs, with tie bounds, cost and origin."""
    rows: tuple[tuple[str | TableCell, ...], ...] = tuple(
        (
            paper.name(run.label),
            str(run.n_bits),
            str(run.seed),
            TableCell(run.split[:_FINGERPRINT], is_code=True, title=run.split),
            *(f"{value:.4f}" for value in (run.map, run.map_low, run.map_high)),
            "" if run.seconds is None else f"{run.seconds:,.1f}",
            memory(run.peak_memory),
            _network(run),
            _commit(run),
        )
        for run in section.runs
    )
    names = ("method", "bits", "seed", "split", "MAP", "worst ties", "best ties", "seconds", "memory")
    title = f"All runs, {section.experiment}"
    return TextTable((*names, "network", "commit"), rows, "lrrr" + "r" * 5 + "ll", title, "runs")


def parameters_table(section: Section, paper: Paper) -> TextTable:
    """Return the parameters of each label that all its runs share."""
    rows = []
    for label in section.labels:
        first, *others = (
            {name: shorten(value) for name, value in flat_params(run.params) if value is not None}
            for cell in section.in_order()
            if cell.label == label
            for run in cell.runs
        )
        shared = [
            f"{name} = {value}"
            for name, value in first.items()
            if name not in ("n_bits", "seed") and all(other.get(name) == value for other in others)
        ]
        rows.append((paper.name(label), ", ".join(shared) or "defaults"))
    return TextTable(("method", "parameters"), tuple(rows), "ll", f"Parameters, {section.experiment}", "settings")


def provenance(section: Section) -> dict[str, str]:
    """Return splits, networks, machines, commits, versions, time and memory of a section."""

    def tally(texts: Iterable[str]) -> str:
        """Return each text once, with its number of runs if there are several."""
        counts = Counter(text or _UNKNOWN for text in texts)
        several = (f"{text} ({count_of(n_runs, 'run')})" for text, n_runs in counts.items())
        return next(iter(counts)) if len(counts) == 1 else "; ".join(several)

    runs = list(section.runs)
    machines = [run.machine for run in runs]
    seconds = [run.seconds for run in runs if run.seconds is not None]
    peaks = [run.peak_memory for run in runs if run.peak_memory is not None]
    splits = sorted({(run.seed, run.split[:_FINGERPRINT]) for run in runs})
    return {
        "splits": "; ".join(f"seed {seed}: {split}" for seed, split in splits),
        "networks": tally(map(_network, runs)),
        "machines": tally(
            f"{machine.cpu}, {machine.cores} cores, {memory(machine.memory)}, {machine.device}, {machine.system}"
            if machine
            else ""
            for machine in machines
        ),
        "commits": tally(map(_commit, runs)),
        "versions": tally(
            ", ".join(f"{name} {text}" for name, text in list(run.versions.items())[:_MAX_ITEMS]) for run in runs
        ),
        "wall time": f"{duration(sum(seconds))} in total, {duration(fmean(seconds))} per run" if seconds else _UNKNOWN,
        "peak memory": memory(max(peaks)) if peaks else _UNKNOWN,
    }


def _network(run: ReportedRun) -> str:
    size = f", {run.image_size} px" if run.image_size else ""
    weights = f", weights {run.weights[:_FINGERPRINT]}" if run.weights else ""
    return f"{run.network}{size}{weights}"


def _commit(run: ReportedRun) -> str:
    if run.commit is None:
        return _UNKNOWN
    return run.commit[:_FINGERPRINT] + ("-dirty" if run.commit.endswith("-dirty") else "")


def headline(section: Section, paper: Paper) -> list[tuple[str, str, str]]:
    """Return the most important numbers of a section: name, value and note of each."""
    cells = section.in_order()
    best = max([cell for cell in cells if not cell.of_other_split] or cells, key=lambda cell: cell.map.mean)
    seconds = [run.seconds for run in section.runs if run.seconds is not None]
    fewest = min(len(cell.seeds) for cell in cells)
    rows = count_of(len(section.labels), "setting" if section.is_sweep else "method")
    numbers = [
        ("best MAP", best.map.text(3), f"{paper.name(best.label)}, {best.n_bits} bits"),
        ("results", str(len(list(section.runs))), f"{rows} × {count_of(len(section.bits), 'length')}"),
        (
            "seeds",
            str(len(section.seeds)),
            "in every cell" if fewest == len(section.seeds) else f"at least {fewest} in each cell",
        ),
    ]
    if seconds:
        numbers.append(("computing time", duration(sum(seconds)), f"at most {duration(max(seconds))} per run"))
    return numbers
