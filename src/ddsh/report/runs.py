"""Runs as a report shows them, read from results.

This is the only module of the report that knows how results are stored.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import MAX_BITS
from ddsh.errors import ArtefactError, BrokenImage
from ddsh.evaluation.bits import BitHealth
from ddsh.evaluation.examples import Examples
from ddsh.evaluation.metrics import Curve
from ddsh.evaluation.outputs import Histogram
from ddsh.evaluation.result import EpochRecord, Machine, Result
from ddsh.evaluation.scores import Scores
from ddsh.images import decode_image
from ddsh.report.style import shorten

__all__ = ["PrecisionRecallCurve", "ReportedRun", "cut_sheet", "read_runs"]

Part = TypeVar("Part")
_MAX_POINTS = 10_000
_MAX_SHEET_PIXELS = 10_000_000
_ROUNDING = 1e-6


@dataclass(frozen=True)
class PrecisionRecallCurve:
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


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """One run with everything that a report shows of it.

    Names are printable and short; parts that a result lacks are None or empty.

    Parameters
    ----------
    path : path or None
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
    by_rank, by_radius, by_radius_pooled : PrecisionRecallCurve or None
        Precision-recall curves.
    average_precision : ndarray or None
        Average precision of each query.
    history : tuple of EpochRecord
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
    image_size, n_frozen : int or None
        Side of the images that the network saw, and its frozen stages.
    weights, commit : str or None
        Checksum of the weights; commit of the code.
    versions : mapping of str to str
        Versions of packages.
    """

    path: Path | None
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
    by_rank: PrecisionRecallCurve | None
    by_radius: PrecisionRecallCurve | None
    by_radius_pooled: PrecisionRecallCurve | None
    average_precision: NDArray[np.float64] | None
    history: tuple[EpochRecord, ...]
    bits: BitHealth | None
    outputs: Histogram | None
    examples: Examples | None
    machine: Machine | None
    seconds: float | None
    peak_memory: int | None
    image_size: int | None
    n_frozen: int | None
    weights: str | None
    commit: str | None
    versions: Mapping[str, str]


def read_runs(results: Iterable[Result]) -> tuple[list[ReportedRun], list[str]]:
    """Return the runs of results, and one line for each part that cannot be shown.

    Parameters
    ----------
    results : iterable of Result
        Results. One with a code length, seed or MAP out of range is left out.

    Returns
    -------
    list of ReportedRun
        The runs. An inconsistent part is left out; the rest of its run stays.
    list of str
        Problems.
    """
    runs: list[ReportedRun] = []
    problems: list[str] = []
    for result in results:
        maps = (result.scores.map, result.scores.map_low, result.scores.map_high)
        if 1 <= result.n_bits <= MAX_BITS and 0 <= result.seed < 2**63 and all(0 <= value <= 1 for value in maps):
            runs.append(_read_run(result, problems))
        else:
            problems.append(
                f"{result.path}: n_bits must be 1 to {MAX_BITS}, seed 0 or more, MAP 0 to 1; it is left out."
            )
    return runs, problems


def _read_run(result: Result, problems: list[str]) -> ReportedRun:
    def part(name: str, read: Callable[[], Part | None]) -> Part | None:
        """Return a part of the result; an inconsistent one is a problem and left out."""
        try:
            return read()
        except (ArtefactError, BrokenImage, ArithmeticError, TypeError, ValueError):
            problems.append(f"{result.path}: {name} is inconsistent; it is left out.")
            return None

    scores, backbone, machine = result.scores, result.backbone, result.machine
    curves = scores.precision_recall
    return ReportedRun(
        path=result.path,
        experiment=shorten(result.experiment),
        label=shorten(result.label),
        method=shorten(result.method),
        dataset=shorten(result.dataset),
        protocol=shorten(result.protocol),
        network=shorten(result.network),
        split=shorten(result.split),
        n_bits=result.n_bits,
        seed=result.seed,
        params=result.params,
        map=scores.map,
        map_low=scores.map_low,
        map_high=scores.map_high,
        setting={name: getattr(scores, name) for name in ("n_query", "n_database", "top_k", "ties")},
        success_rate=part("success_rate", lambda: _rates(scores.success_rate)) or {},
        by_rank=part("precision_recall.by_rank", lambda: _curve(curves.by_rank) if curves else None),
        by_radius=part("precision_recall.by_radius", lambda: _curve(curves.by_radius) if curves else None),
        by_radius_pooled=part(
            "precision_recall.by_radius_pooled",
            lambda: _curve(curves.by_radius_pooled) if curves and curves.by_radius_pooled else None,
        ),
        average_precision=part("average_precision", lambda: _precisions(scores)),
        history=part("history", lambda: _history(result.history)) or (),
        bits=part("bits", lambda: _bits(result.bits)),
        outputs=part("outputs", lambda: _outputs(result.outputs)),
        examples=part("examples", lambda: _examples(result.examples)),
        machine=machine
        and machine.model_copy(update={name: shorten(getattr(machine, name)) for name in ("system", "cpu", "device")}),
        seconds=part("seconds", lambda: None if result.seconds is None else _numbers([result.seconds], 0)[0]),
        peak_memory=result.peak_memory,
        image_size=backbone.image_size if backbone else None,
        n_frozen=backbone.n_frozen if backbone else None,
        weights=shorten(backbone.weights) if backbone and backbone.weights else None,
        commit=None if result.commit is None else shorten(result.commit),
        versions={shorten(name): shorten(text) for name, text in result.versions.items()},
    )


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _numbers(values: Iterable[float], low: float = -math.inf, high: float = math.inf) -> tuple[float, ...]:
    """Return numbers that are finite and within limits."""
    numbers = tuple(map(float, values))
    _require(len(numbers) <= _MAX_POINTS)
    _require(all(math.isfinite(number) and low <= number <= high for number in numbers))
    return numbers


def _shares(values: Iterable[float]) -> tuple[float, ...]:
    return _numbers(values, -_ROUNDING, 1 + _ROUNDING)


def _rates(rates: Mapping[int, float]) -> dict[int, float]:
    return dict(zip(rates, _shares(rates.values()), strict=True))


def _curve(curve: Curve) -> PrecisionRecallCurve:
    precision, recall = _shares(curve.precision), _shares(curve.recall)
    at = _numbers(range(len(precision)) if curve.rank is None else curve.rank, 0)
    _require(0 < len(at) == len(precision) == len(recall) and list(at) == sorted(set(at)))
    return PrecisionRecallCurve(at, precision, recall)


def _precisions(scores: Scores) -> NDArray[np.float64] | None:
    if scores.average_precision is None:
        return None
    _require(len(scores.average_precision) == scores.n_query)
    return np.array(_shares(scores.average_precision.tolist()))


def _history(history: Sequence[EpochRecord]) -> tuple[EpochRecord, ...]:
    for epoch in history:
        _numbers(value for value in (epoch.epoch, epoch.loss, epoch.objective, epoch.map) if value is not None)
    _require(len(history) <= _MAX_POINTS)
    return tuple(history)


def _bits(bits: BitHealth | None) -> BitHealth | None:
    if bits is not None:
        _require(0 < len(_shares(bits.share)) == len(_shares(bits.entropy)))
        _numbers([bits.mean_correlation, bits.max_correlation, bits.n_distinct, bits.n_codes])
    return bits


def _outputs(histogram: Histogram | None) -> Histogram | None:
    if histogram is not None:
        edges, counts = _numbers(histogram.edges), _numbers(histogram.counts, 0)
        _require(len(edges) == len(counts) + 1 and list(edges) == sorted(set(edges)) and sum(counts) > 0)
    return histogram


def _examples(examples: Examples | None) -> Examples | None:
    if examples is None:
        return None
    _require(0 < len(examples.queries) <= 1000 and 1 < examples.columns <= 1000)
    queries = []
    for query in examples.queries:
        sizes = {len(query.hits), len(query.distances), len(query.labels), len(query.relevant)}
        _require(len(sizes) == 1 and len(query.hits) < examples.columns)
        names = {"label": shorten(query.label), "labels": [shorten(label) for label in query.labels]}
        queries.append(query.model_copy(update=names))
    cut_sheet(examples)
    return examples.model_copy(update={"queries": queries})


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
    sheet = decode_image(examples.jpeg, height * width)
    if sheet.shape != (height, width, 3):
        raise BrokenImage(f"Expected a sheet of {width} x {height} pixels; got {sheet.shape[1]} x {sheet.shape[0]}.")
    return sheet.reshape(n_rows, side, n_columns, side, 3).swapaxes(1, 2)
