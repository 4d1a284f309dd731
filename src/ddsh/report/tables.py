"""The tables of the page."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from ddsh.evaluation.records import Spread
from ddsh.report.markdown import DIGITS
from ddsh.report.markup import Html, element, join, plain
from ddsh.report.paper import Paper
from ddsh.report.runs import Run
from ddsh.report.sections import Cell, Section
from ddsh.report.words import counted, duration, memory

_FINGERPRINT = 8
_MOST_TEXT = 40
_OF_A_RUN = ("n_bits", "seed")


def map_table(section: Section, paper: Paper) -> Html:
    """Return the table of mean average precision, the paper's beside ours."""
    head = [element("th", "method", scope="col"), *(_number_head(f"{n_bits} bits") for n_bits in section.bits)]
    rows = (
        element(
            "tr",
            element("th", paper.name(label), scope="row"),
            *(_map_cell(section, label, n_bits) for n_bits in section.bits),
        )
        for label in section.labels
    )
    title = f"Mean average precision, {plain(section.experiment)}"
    return _table(title, element("tr", *head), rows, class_="map")


def _map_cell(section: Section, label: str, n_bits: int) -> Html:
    cell = section.cells.get((label, n_bits))
    if cell is None:
        return element("td", element("span", "–", class_="none"), element("small", "not run"))
    is_best = cell.map.mean == section.best(n_bits) and not cell.of_other_split
    ours = element("strong" if is_best else "span", cell.map.text(DIGITS), class_="ours")
    star = element("span", "★", class_="star", title="best at this length", role="img", aria_label="best")
    parts = [element("div", *([star, " "] if is_best else []), ours), *_beside(section, cell)]
    return element("td", *parts, title=_explained(cell), class_="best" if is_best else None)


def _beside(section: Section, cell: Cell) -> Iterable[Html]:
    """Yield the small lines of a cell: the paper's figure, the seeds, and what is wrong."""
    if cell.paper is not None:
        difference = [" ", _difference(cell.map.mean - cell.paper)] if section.is_papers else []
        yield element("small", f"paper {cell.paper:.{DIGITS}f}", *difference)
    if len(section.seeds) > 1:
        yield element("small", f"{counted(len(cell.seeds), 'seed')} of {len(section.seeds)}")
    if cell.of_other_split:
        yield element("small", "⚠ other split", class_="warning")


def _difference(value: float) -> Html:
    sign, kind = ("▲", "above") if value > 0 else ("▼", "below")
    if abs(value) < 0.5 * 10**-DIGITS:
        sign, kind = "=", "equal"
    return element("span", f"{sign} {value:+.{DIGITS}f}", class_=f"difference {kind}")


def _explained(cell: Cell) -> str:
    low, high = cell.bounds
    ties = f"worst to best order of ties {low:.4f} to {high:.4f}"
    seeds = ", ".join(map(str, cell.seeds))
    splits = ", ".join(sorted({plain(run.record.split)[:_FINGERPRINT] for run in cell.runs}))
    return f"MAP {cell.map.text(4)}; {ties}; seeds {seeds}; splits {splits}"


def health_table(cells: Iterable[Cell], title: str, paper: Paper) -> Html:
    """Return the table of how well codes use their bits, for cells that say so."""
    names = ("bits", "share of ones", "entropy", "mean |correlation|", "largest", "distinct codes", "")
    head = element("tr", element("th", "method", scope="col"), *map(_number_head, names))
    return _table(title, head, (_health_row(cell, paper) for cell in cells))


def _health_row(cell: Cell, paper: Paper) -> Html:
    known = [run.bits for run in cell.runs if run.bits]
    lowest, highest = min(min(bits.share) for bits in known), max(max(bits.share) for bits in known)
    n_distinct, n_codes = fmean(bits.n_distinct for bits in known), fmean(bits.n_codes for bits in known)
    collapsed = any(bits.collapsed for bits in known)
    return element(
        "tr",
        element("th", paper.name(cell.label), scope="row"),
        element("td", str(cell.n_bits)),
        element("td", _gauge(lowest, highest), f"{lowest:.2f} to {highest:.2f}"),
        element("td", f"{fmean(fmean(bits.entropy) for bits in known):.3f}"),
        element("td", f"{fmean(bits.mean_correlation for bits in known):.3f}"),
        element("td", f"{max(bits.max_correlation for bits in known):.3f}"),
        element("td", f"{n_distinct:,.0f} of {n_codes:,.0f}"),
        element("td", element("span", "⚠ collapsed", class_="warning") if collapsed else "✓ ok"),
    )


def _gauge(low: float, high: float) -> Html:
    """Return a little bar that spans from the lowest to the highest share; its middle is a half."""
    span = element("span", style=f"left:{low:.1%};right:{1 - high:.1%}")
    return element("span", span, class_="gauge", aria_hidden="true")


def runs_table(section: Section, paper: Paper) -> Html:
    """Return the table of all runs, with tie bounds and where each comes from."""
    texts = ("method", "bits", "seed", "split")
    numbers = ("MAP", "worst ties", "best ties", "seconds", "memory")
    tail = ("network", "commit")
    head = [*(element("th", name, scope="col") for name in texts), *map(_number_head, numbers)]
    head += [element("th", name, scope="col") for name in tail]
    rows = (_run_row(run, paper) for run in section.runs)
    return _table(f"All runs, {plain(section.experiment)}", element("tr", *head), rows, class_="runs")


def _run_row(run: Run, paper: Paper) -> Html:
    record = run.record
    figures = (f"{float(record.scores[name]):.4f}" for name in ("map", "map_low", "map_high"))
    return element(
        "tr",
        element("th", paper.name(run.label), scope="row"),
        *(element("td", str(number)) for number in (record.n_bits, record.seed)),
        element("td", element("code", plain(record.split)[:_FINGERPRINT], title=plain(record.split))),
        *(element("td", figure) for figure in figures),
        element("td", "" if run.seconds is None else f"{run.seconds:,.1f}"),
        element("td", memory(run.peak_memory)),
        element("td", _network(run)),
        element("td", _commit(record.commit)),
    )


def provenance(section: Section) -> Html:
    """Return where the results of a section come from: machines, networks, versions, commits, splits, times."""
    runs = list(section.runs)
    facts = {
        "splits": _splits(runs),
        "networks": _tally(map(_network, runs)),
        "machines": _tally(_machine(run) for run in runs),
        "commits": _tally(_commit(run.record.commit) for run in runs),
        "versions": _tally(_versions(run.record.content.get("versions") or {}) for run in runs),
        "wall time": _total([run.seconds for run in runs]),
        "peak memory": _highest([run.peak_memory for run in runs]),
    }
    pairs = (join([element("dt", name), element("dd", text)]) for name, text in facts.items())
    return element("dl", *pairs, class_="facts")


def settings_table(section: Section, paper: Paper) -> Html:
    """Return the parameters of each label, those that are the same for all lengths and seeds."""
    rows = (
        element("tr", element("th", paper.name(label), scope="row"), element("td", _settings(section, label)))
        for label in section.labels
    )
    head = element("tr", element("th", "method", scope="col"), element("th", "parameters", scope="col"))
    return _table(f"Parameters, {plain(section.experiment)}", head, rows, class_="settings")


def _settings(section: Section, label: str) -> str:
    runs = [run for cell in section.in_order() if cell.label == label for run in cell.runs]
    first, *others = [dict(_flat(run.record.params)) for run in runs]
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    return ", ".join(f"{name} = {value}" for name, value in shared.items()) or "none of its own"


def _flat(params: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield parameters by dotted name, without those that were left to the method."""
    for name, value in list(params.items())[:_MOST_TEXT]:
        if isinstance(value, dict) and not prefix:
            yield from _flat(value, f"{plain(name)}.")
        elif value is not None and name not in _OF_A_RUN:
            yield f"{prefix}{plain(name)}", plain(value)


def _splits(runs: Iterable[Run]) -> str:
    pairs = sorted({(run.record.seed, plain(run.record.split)[:_FINGERPRINT]) for run in runs})
    return "; ".join(f"seed {seed}: {split}" for seed, split in pairs)


def _network(run: Run) -> str:
    content = run.record.content
    size = f", {plain(content['image_size'])} px" if content.get("image_size") else ""
    weights = f", weights {plain(content['weights'])[:_FINGERPRINT]}" if content.get("weights") else ""
    return f"{plain(run.record.network)}{size}{weights}"


def _machine(run: Run) -> str:
    machine = run.machine
    if machine is None:
        return "not recorded"
    return f"{machine.cpu}, {machine.cores} cores, {memory(machine.memory)}, {machine.device}, {machine.system}"


def _commit(commit: str | None) -> str:
    if commit is None:
        return "not recorded"
    short = plain(commit)
    return short[:_FINGERPRINT] + ("-dirty" if short.endswith("-dirty") else "")


def _versions(versions: Mapping[str, Any]) -> str:
    return ", ".join(f"{plain(name)} {plain(value)}" for name, value in list(versions.items())[:_MOST_TEXT])


def _tally(texts: Iterable[str]) -> str:
    """Return each text once, with how many runs it is true of where there are several."""
    counts: dict[str, int] = {}
    for text in texts:
        counts[text or "not recorded"] = counts.get(text or "not recorded", 0) + 1
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{text} ({counted(n_runs, 'run')})" for text, n_runs in counts.items())


def _total(seconds: list[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    if not known:
        return "not recorded"
    spread = Spread.of(known)
    return f"{duration(sum(known))} in all, {duration(spread.mean)} a run on average"


def _highest(amounts: list[int | None]) -> str:
    known = [n_bytes for n_bytes in amounts if n_bytes is not None]
    return memory(max(known)) if known else "not recorded"


def _number_head(name: str) -> Html:
    return element("th", name, scope="col", class_="number")


def _table(title: str, head: Html, rows: Iterable[Html], class_: str | None = None) -> Html:
    caption = element("caption", title, class_="unseen")
    table = element("table", caption, element("thead", head), element("tbody", *rows), class_=class_)
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)
