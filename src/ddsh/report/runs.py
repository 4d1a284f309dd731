"""Runs as a report shows them, read from result files.

This is the only module of the report that knows how results are stored.
"""

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from ddsh.codes import MAX_BITS
from ddsh.errors import BrokenImage
from ddsh.evaluation import Machine
from ddsh.evaluation.examples import Example, Examples
from ddsh.evaluation.health import BitHealth, Histogram
from ddsh.evaluation.records import Record
from ddsh.images import decode_image
from ddsh.report.style import shorten

__all__ = ["Epoch", "PrecisionRecall", "ReportedRun", "cut_sheet", "read_runs"]

Part = TypeVar("Part")
_MAX_POINTS = 10_000
_MAX_SHEET_BYTES = 10_000_000
_MAX_SHEET_PIXELS = 10_000_000
_ROUNDING = 1e-6
_SHEET = re.compile(r"data:image/(?:jpeg|png);base64,[A-Za-z0-9+/]+={0,2}")
_MALFORMED = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, BrokenImage)


@dataclass(frozen=True)
class PrecisionRecall:
    """Precision and recall by rank or by Hamming radius.

    Parameters
    ----------
    at : tuple of float
        Rank or radius of each point.
    precision, recall : tuple of float
        Means over queries.
    """

    at: tuple[float, ...]
    precision: tuple[float, ...]
    recall: tuple[float, ...]


@dataclass(frozen=True)
class Epoch:
    """Loss and objective after an epoch of training; None where unknown.

    Parameters
    ----------
    epoch : int
        Its number, from 1.
    loss, objective : float or None
        Values after it.
    """

    epoch: int
    loss: float | None
    objective: float | None


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """One run with everything that a report shows of it.

    Names are printable and short; parts that a result lacks are None or empty.

    Parameters
    ----------
    path : path
        File of the result.
    experiment, label, method, dataset, protocol, network, split : str
        Names as in the result; `split` is a fingerprint.
    n_bits, seed : int
        Code length and seed of the split.
    params : mapping
        Parameters of the method.
    map, map_low, map_high : float
        Mean average precision; with the worst and the best order of ties.
    setting : mapping
        Number of queries and database items, cut-off and treatment of ties of the scores.
    success_rate : mapping of int to float
        Share of queries with a relevant item within a Hamming radius.
    by_rank, by_radius : PrecisionRecall or None
        Precision-recall curves.
    history : tuple of Epoch
        Training history.
    bits : BitHealth or None
        Balance, entropy and correlation of the bits.
    outputs : Histogram or None
        Histogram of the network's outputs after tanh.
    examples : Examples or None
        Queries with their nearest images.
    machine : Machine or None
        Machine of the run.
    seconds : float or None
        Wall time.
    peak_memory : int or None
        Bytes.
    image_size : int or None
        Side of the images that the network saw.
    weights, commit : str or None
        Checksum of the weights; commit of the code.
    versions : mapping of str to str
        Versions of packages.
    """

    path: Path
    experiment: str
    label: str
    method: str
    dataset: str
    protocol: str
    network: str
    split: str
    n_bits: int
    seed: int
    params: Mapping[str, Any]
    map: float
    map_low: float
    map_high: float
    setting: Mapping[str, Any]
    success_rate: Mapping[int, float]
    by_rank: PrecisionRecall | None
    by_radius: PrecisionRecall | None
    history: tuple[Epoch, ...]
    bits: BitHealth | None
    outputs: Histogram | None
    examples: Examples | None
    machine: Machine | None
    seconds: float | None
    peak_memory: int | None
    image_size: int | None
    weights: str | None
    commit: str | None
    versions: Mapping[str, str]


def read_runs(records: Iterable[Record]) -> tuple[list[ReportedRun], list[str]]:
    """Return the runs of results, and one line for each part that is malformed.

    Parameters
    ----------
    records : iterable of Record
        Results. One with a code length, seed or MAP out of range is left out.

    Returns
    -------
    list of ReportedRun
        The runs. A malformed part is left out; the rest of its run stays.
    list of str
        Problems.
    """
    runs: list[ReportedRun] = []
    problems: list[str] = []
    for record in records:
        maps = [float(record.scores[name]) for name in ("map", "map_low", "map_high")]
        if 1 <= record.n_bits <= MAX_BITS and 0 <= record.seed < 2**63 and all(0 <= value <= 1 for value in maps):
            runs.append(_read_run(record, problems))
        else:
            problems.append(
                f"{record.path}: n_bits must be 1 to {MAX_BITS}, seed 0 or more, MAP 0 to 1; it is left out."
            )
    return runs, problems


def _read_run(record: Record, problems: list[str]) -> ReportedRun:
    def part(name: str, read: Callable[[Any], Part]) -> Part | None:
        """Read a part of the result by its dotted name; a malformed one is a problem and left out."""
        try:
            content: Any = record.content
            for key in name.split("."):
                content = None if content is None else content.get(key)
            return None if content is None else read(content)
        except _MALFORMED:
            problems.append(f"{record.path}: {name} is malformed; it is left out.")
            return None

    content, scores = record.content, record.scores
    names = ("experiment", "label", "method", "dataset", "protocol", "network", "split")
    return ReportedRun(
        path=record.path,
        **{name: shorten(content[name]) for name in names},
        n_bits=record.n_bits,
        seed=record.seed,
        params=record.params,
        map=record.map,
        map_low=float(scores["map_low"]),
        map_high=float(scores["map_high"]),
        setting={name: scores.get(name) for name in ("n_query", "n_database", "top_k", "ties")},
        success_rate={int(radius): float(rate) for radius, rate in scores.get("success_rate", {}).items()},
        by_rank=part("scores.precision_recall.by_rank", lambda found: _curve(found["rank"], found)),
        by_radius=part(
            "scores.precision_recall.by_radius", lambda found: _curve(list(range(len(found["precision"]))), found)
        ),
        history=part("history", _history) or (),
        bits=part("bits", _bits),
        outputs=part("outputs", _outputs),
        examples=part("examples", _examples),
        machine=part("machine", _machine),
        seconds=part("seconds", _amount),
        peak_memory=part("peak_memory", lambda found: int(_amount(found))),
        image_size=part("image_size", int),
        weights=part("weights", shorten),
        commit=part("commit", shorten),
        versions=part("versions", lambda found: {shorten(name): shorten(text) for name, text in found.items()}) or {},
    )


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 -- a type, or a generic alias
    return TypeAdapter(kind)


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _numbers(content: Any, low: float = -math.inf, high: float = math.inf) -> tuple[float, ...]:  # noqa: ANN401
    """Return a list of finite numbers within limits."""
    values: list[float] = _adapter(list[float]).validate_python(content)
    _require(0 < len(values) <= _MAX_POINTS)
    _require(all(math.isfinite(value) and low <= value <= high for value in values))
    return tuple(values)


def _shares(content: Any) -> tuple[float, ...]:  # noqa: ANN401
    return _numbers(content, -_ROUNDING, 1 + _ROUNDING)


def _amount(content: Any) -> float:  # noqa: ANN401
    [number] = _numbers([content], 0)
    return number


def _curve(at: Any, content: Mapping[str, Any]) -> PrecisionRecall:  # noqa: ANN401
    curve = PrecisionRecall(_numbers(at, 0), _shares(content["precision"]), _shares(content["recall"]))
    _require(len(curve.at) == len(curve.precision) == len(curve.recall) and list(curve.at) == sorted(set(curve.at)))
    return curve


def _history(content: list[Mapping[str, Any]]) -> tuple[Epoch, ...]:
    _require(len(content) <= _MAX_POINTS)
    epochs = []
    for step in content:
        values = {name: step.get(name) for name in ("loss", "objective")}
        known = {name: None if value is None else _numbers([value])[0] for name, value in values.items()}
        epochs.append(Epoch(int(_amount(step["epoch"] if "epoch" in step else step["pass"])), **known))
    return tuple(epochs)


def _bits(content: Any) -> BitHealth:  # noqa: ANN401
    health: BitHealth = _adapter(BitHealth).validate_python(content)
    _require(len(_shares(health.share)) == len(_shares(health.entropy)))
    _numbers([health.mean_correlation, health.max_correlation])
    _numbers([health.n_distinct, health.n_codes], 0)
    return health


def _outputs(content: Any) -> Histogram:  # noqa: ANN401
    histogram: Histogram = _adapter(Histogram).validate_python(content)
    edges, counts = _numbers(histogram.edges), _numbers(histogram.counts, 0)
    _require(len(edges) == len(counts) + 1 and list(edges) == sorted(set(edges)) and sum(counts) > 0)
    return histogram


def _machine(content: Any) -> Machine:  # noqa: ANN401
    machine: Machine = _adapter(Machine).validate_python(content)
    _numbers([machine.cores, machine.memory], 0)
    return replace(machine, **{name: shorten(getattr(machine, name)) for name in ("system", "cpu", "device")})


def _examples(content: Any) -> Examples:  # noqa: ANN401
    examples: Examples = _adapter(Examples).validate_python(content)
    _require(0 < len(examples.queries) <= 1000 and 1 < examples.columns <= 1000)
    _require(len(examples.sheet) <= _MAX_SHEET_BYTES and _SHEET.fullmatch(examples.sheet) is not None)
    queries: list[Example] = []
    for query in examples.queries:
        sizes = {len(query.hits), len(query.distances), len(query.labels), len(query.relevant)}
        _require(len(sizes) == 1 and len(query.hits) < examples.columns)
        queries.append(replace(query, label=shorten(query.label), labels=[shorten(label) for label in query.labels]))
    cut_sheet(examples)
    return replace(examples, queries=queries)


def cut_sheet(examples: Examples) -> NDArray[np.uint8]:
    """Return the tiles of a sheet, shape (queries, columns, side, side, 3).

    Parameters
    ----------
    examples : Examples
        Queries with their nearest images, and the sheet that shows them.

    Raises
    ------
    BrokenImage
        If the sheet cannot be decoded, or has another size than its tiles need.
    """
    n_rows, n_columns, side = len(examples.queries), examples.columns, examples.tile
    height, width = n_rows * side, n_columns * side
    if side < 1 or height * width > _MAX_SHEET_PIXELS:
        raise BrokenImage(f"A sheet has 1 to {_MAX_SHEET_PIXELS:,} pixels; got {width} x {height}.")
    sheet = decode_image(base64.b64decode(examples.sheet.partition(",")[2]), height * width)
    if sheet.shape != (height, width, 3):
        raise BrokenImage(f"Expected a sheet of {width} x {height} pixels; got {sheet.shape[1]} x {sheet.shape[0]}.")
    return sheet.reshape(n_rows, side, n_columns, side, 3).swapaxes(1, 2)
