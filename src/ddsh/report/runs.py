"""What a report shows of a result, checked part by part: a broken part is left out, the rest stays."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ddsh.codes import MAX_BITS
from ddsh.errors import BrokenImage
from ddsh.evaluation import Machine
from ddsh.evaluation.examples import Example, Examples
from ddsh.evaluation.health import BitHealth, Histogram
from ddsh.evaluation.records import Record
from ddsh.report.markup import plain
from ddsh.report.sheets import cut_sheet

Part = TypeVar("Part")
MAX_POINTS = 10_000
MAX_SHEET = 10_000_000
_ROUNDING = 1e-6
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OverflowError, BrokenImage)
_SHEET = re.compile(r"data:image/(?:jpeg|png);base64,[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True)
class Curve:
    """A precision-recall curve.

    Parameters
    ----------
    place : tuple of float
        Rank or radius of each point.
    precision, recall : tuple of float
        Mean over queries.
    """

    place: tuple[float, ...]
    precision: tuple[float, ...]
    recall: tuple[float, ...]


@dataclass(frozen=True)
class Pass:
    """What a pass over the training images brought; None where it does not say.

    Parameters
    ----------
    number : int
        Which one, from 1.
    loss, objective : float or None
        After it.
    """

    number: int
    loss: float | None
    objective: float | None


@dataclass(frozen=True)
class Run:
    """What a report shows of one result; None, or nothing, where its file does not say.

    Parameters
    ----------
    record : Record
        The result.
    label : str
        What it is called in tables, fit to be shown.
    by_rank, by_radius : Curve or None
        Precision and recall.
    history : tuple of Pass
        Its training.
    bits : BitHealth or None
        How well its codes use their bits.
    outputs : Histogram or None
        What its network puts out, after tanh.
    examples : Examples or None
        Queries with what they find.
    machine : Machine or None
        What it was made on.
    seconds : float or None
        Wall time.
    peak_memory : int or None
        Bytes.
    """

    record: Record
    label: str
    by_rank: Curve | None
    by_radius: Curve | None
    history: tuple[Pass, ...]
    bits: BitHealth | None
    outputs: Histogram | None
    examples: Examples | None
    machine: Machine | None
    seconds: float | None
    peak_memory: int | None


def read_runs(records: Iterable[Record]) -> tuple[list[Run], list[str]]:
    """Return what can be shown of results, and one line for each thing that cannot."""
    problems: list[str] = []
    runs = [_run(record, problems) for record in records if _in_range(record, problems)]
    return runs, problems


def _in_range(record: Record, problems: list[str]) -> bool:
    fits = 1 <= record.n_bits <= MAX_BITS and 0 <= record.seed < 2**63
    fits = fits and all(0 <= float(record.scores[name]) <= 1 for name in ("map", "map_low", "map_high"))
    if not fits:
        problems.append(f"{record.path}: n_bits must be 1 to {MAX_BITS}, seed 0 or more, MAP 0 to 1; it is left out.")
    return fits


def _run(record: Record, problems: list[str]) -> Run:
    def part(name: str, parse: Callable[[Any], Part]) -> Part | None:
        """Read a part of the record; one that is malformed is a problem and left out."""
        try:
            content = _at(record.content, name)
            return None if content is None else parse(content)
        except _MALFORMED:
            problems.append(f"{record.path}: {name} is not what it should be and is left out.")
            return None

    return Run(
        record=record,
        label=plain(record.label),
        by_rank=part("scores.precision_recall.by_rank", _curve_by_rank),
        by_radius=part("scores.precision_recall.by_radius", _curve_by_radius),
        history=part("history", _history) or (),
        bits=part("bits", _bit_health),
        outputs=part("outputs", _histogram),
        examples=part("examples", _examples),
        machine=part("machine", _machine),
        seconds=part("seconds", _amount),
        peak_memory=part("peak_memory", lambda content: int(_amount(content))),
    )


def _at(content: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 -- whatever a file holds
    """Return what is in nested objects under a dotted name; None where it ends early."""
    for key in name.split("."):
        found = content.get(key)
        if found is None:
            return None
        content = found
    return content


def _curve_by_rank(content: Mapping[str, Any]) -> Curve:
    return _curve(_numbers(content["rank"]), content)


def _curve_by_radius(content: Mapping[str, Any]) -> Curve:
    return _curve(tuple(float(radius) for radius in range(len(content["precision"]))), content)


def _curve(place: tuple[float, ...], content: Mapping[str, Any]) -> Curve:
    curve = Curve(place, _shares(content["precision"]), _shares(content["recall"]))
    _demand(0 < len(curve.place) == len(curve.precision) == len(curve.recall))
    _demand(list(place) == sorted(set(place)) and place[0] >= 0)
    return curve


def _history(content: Sequence[Mapping[str, Any]]) -> tuple[Pass, ...]:
    _demand(len(content) <= MAX_POINTS)
    return tuple(_pass(step) for step in content)


def _pass(content: Mapping[str, Any]) -> Pass:
    return Pass(int(_amount(content["pass"])), _maybe(content.get("loss")), _maybe(content.get("objective")))


def _bit_health(content: Mapping[str, Any]) -> BitHealth:
    health = BitHealth(
        share=list(_shares(content["share"])),
        entropy=list(_shares(content["entropy"])),
        mean_correlation=_number(content["mean_correlation"]),
        max_correlation=_number(content["max_correlation"]),
        n_distinct=int(_amount(content["n_distinct"])),
        n_codes=int(_amount(content["n_codes"])),
        collapsed=bool(content["collapsed"]),
    )
    _demand(0 < len(health.share) == len(health.entropy))
    return health


def _histogram(content: Mapping[str, Any]) -> Histogram:
    edges, counts = _numbers(content["edges"]), [int(_amount(count)) for count in _numbers(content["counts"])]
    _demand(len(edges) == len(counts) + 1 and list(edges) == sorted(set(edges)) and sum(counts) > 0)
    return Histogram(list(edges), counts)


def _examples(content: Mapping[str, Any]) -> Examples:
    queries = [_example(query) for query in content["queries"]]
    columns = int(content["columns"])
    _demand(0 < len(queries) <= 1000 and 1 < columns <= 1000)
    _demand(all(len(query.hits) < columns for query in queries))
    sheet = str(content["sheet"])
    _demand(len(sheet) <= MAX_SHEET and _SHEET.fullmatch(sheet) is not None)
    examples = Examples(int(content["tile"]), columns, sheet, queries)
    cut_sheet(examples)
    return examples


def _example(content: Mapping[str, Any]) -> Example:
    example = Example(
        row=int(content["row"]),
        label=plain(content["label"]),
        hits=[int(hit) for hit in content["hits"]],
        distances=[int(distance) for distance in content["distances"]],
        labels=[plain(label) for label in content["labels"]],
        relevant=[bool(relevant) for relevant in content["relevant"]],
    )
    sizes = {len(example.hits), len(example.distances), len(example.labels), len(example.relevant)}
    _demand(len(sizes) == 1)
    return example


def _machine(content: Mapping[str, Any]) -> Machine:
    system, cpu, device = (plain(content[name]) for name in ("system", "cpu", "device"))
    return Machine(system, cpu, int(_amount(content["cores"])), int(_amount(content["memory"])), device)


def _numbers(content: Sequence[Any]) -> tuple[float, ...]:
    _demand(isinstance(content, list) and len(content) <= MAX_POINTS)
    return tuple(_number(value) for value in content)


def _shares(content: Sequence[Any]) -> tuple[float, ...]:
    shares = _numbers(content)
    _demand(all(-_ROUNDING <= share <= 1 + _ROUNDING for share in shares))
    return shares


def _number(content: Any) -> float:  # noqa: ANN401 -- whatever a file holds
    _demand(isinstance(content, int | float))
    number = float(content)
    _demand(math.isfinite(number))
    return number


def _amount(content: Any) -> float:  # noqa: ANN401 -- whatever a file holds
    """Return a number that counts or measures something."""
    number = _number(content)
    _demand(number >= 0)
    return number


def _maybe(content: Any) -> float | None:  # noqa: ANN401 -- whatever a file holds
    return None if content is None else _number(content)


def _demand(condition: bool) -> None:
    if not condition:
        raise ValueError
