"""Results on disk: read back, checked, and summed up over seeds."""

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddsh.errors import ArtefactError

MAX_BYTES = 100_000_000
"""Larger files are no results."""

_NEEDED: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("experiment", "label", "method", "dataset", "protocol", "network", "split"), str),
    **dict.fromkeys(("n_bits", "seed"), int),
    **dict.fromkeys(("params", "scores"), dict),
}
_SCORES = ("map", "map_low", "map_high")
_BY_NUMBER = ("precision_at", "recall_at", "success_rate")
_OPTIONAL: Mapping[str, type | tuple[type, ...]] = {
    "weights": str,
    "image_size": int,
    "history": list,
    "seconds": (int, float),
    "peak_memory": int,
    "versions": dict,
    "commit": str,
    "machine": dict,
    "bits": dict,
    "outputs": dict,
    "examples": dict,
    "reranked": dict,
}


@dataclass(frozen=True)
class Record:
    """A result that was read from its file.

    Parameters
    ----------
    path : path
        The file.
    content : mapping
        All that it holds; what came later than the file is not in it.
    """

    path: Path
    content: Mapping[str, Any]

    @property
    def experiment(self) -> str:
        """The experiment that it belongs to."""
        return str(self.content["experiment"])

    @property
    def label(self) -> str:
        """What the method with its parameters is called in tables."""
        return str(self.content["label"])

    @property
    def method(self) -> str:
        """The method."""
        return str(self.content["method"])

    @property
    def n_bits(self) -> int:
        """Code length."""
        return int(self.content["n_bits"])

    @property
    def seed(self) -> int:
        """Of the split."""
        return int(self.content["seed"])

    @property
    def dataset(self) -> str:
        """What it was run on."""
        return str(self.content["dataset"])

    @property
    def protocol(self) -> str:
        """How that was split."""
        return str(self.content["protocol"])

    @property
    def split(self) -> str:
        """The split's fingerprint."""
        return str(self.content["split"])

    @property
    def network(self) -> str:
        """Where the features come from; ``pixels`` for the images themselves."""
        return str(self.content["network"])

    @property
    def params(self) -> Mapping[str, Any]:
        """The method's parameters."""
        params: Mapping[str, Any] = self.content["params"]
        return params

    @property
    def scores(self) -> Mapping[str, Any]:
        """All scores."""
        scores: Mapping[str, Any] = self.content["scores"]
        return scores

    @property
    def map(self) -> float:
        """Mean average precision."""
        return float(self.scores["map"])

    @property
    def seconds(self) -> float | None:
        """Wall time of fitting, encoding and scoring."""
        return self.content.get("seconds")

    @property
    def history(self) -> list[dict[str, Any]]:
        """What each pass of a training brought."""
        return self.content.get("history") or []

    @property
    def peak_memory(self) -> int | None:
        """Highest resident memory of the process, in bytes."""
        return self.content.get("peak_memory")

    @property
    def bits(self) -> Mapping[str, Any] | None:
        """How well the codes of the database use their bits; see :class:`ddsh.evaluation.health.BitHealth`."""
        return self.content.get("bits")

    @property
    def outputs(self) -> Mapping[str, Any] | None:
        """Histogram of what the network puts out; see :class:`ddsh.evaluation.health.Histogram`."""
        return self.content.get("outputs")

    @property
    def examples(self) -> Mapping[str, Any] | None:
        """Queries with what they find; see :class:`ddsh.evaluation.examples.Examples`."""
        return self.content.get("examples")

    @property
    def reranked(self) -> Mapping[str, float] | None:
        """Scores with real outputs; see :class:`ddsh.evaluation.reranking.Reranked`."""
        return self.content.get("reranked")

    @property
    def machine(self) -> Mapping[str, Any] | None:
        """What it was made on; see :class:`ddsh.evaluation.Machine`."""
        return self.content.get("machine")

    @property
    def commit(self) -> str | None:
        """Of the code."""
        return self.content.get("commit")

    def precision_at(self, k: int) -> float | None:
        """Return the mean precision among the first `k` items, if it is there."""
        value: float | None = self.scores.get("precision_at", {}).get(str(k))
        return value

    def success_rate(self, radius: int) -> float | None:
        """Return the share of queries that find something relevant within a Hamming radius, if it is there."""
        value: float | None = self.scores.get("success_rate", {}).get(str(radius))
        return value


def read_results(folder: Path) -> tuple[list[Record], list[str]]:
    """Read the results in a folder and in the folders right inside it.

    Parameters
    ----------
    folder : path
        A folder of results, or one with a folder for each experiment; it may be missing.

    Returns
    -------
    list of Record
        The results, by path.
    list of str
        What is wrong, one line each: files that are no results or a run that is there already (both are left out),
        and runs that cannot be compared because their splits differ.
    """
    records: dict[tuple[Any, ...], Record] = {}
    problems = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        try:
            record = read_record(path)
        except ArtefactError as error:
            problems.append(str(error))
            continue
        first = records.setdefault(_cell(record), record)
        if first is not record:
            problems.append(f"{path} is the same run as {first.path}; it is left out.")
    found = list(records.values())
    return found, problems + _mixed_splits(found)


def read_record(path: Path) -> Record:
    """Read one result; whatever is none is refused with a reason."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            raise ArtefactError(f"{path} is not a file, or it has more than {MAX_BYTES:,} bytes, which no result has.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"{path} is not JSON, or it is cut off; remove it and run the experiment again.") from error
    if reason := _why_none(content):
        raise ArtefactError(f"{path} is no result of ddsh ({reason}).")
    return Record(path, content)


def _cell(record: Record) -> tuple[Any, ...]:
    return (*_group(record), record.seed)


def _group(record: Record) -> tuple[Any, ...]:
    """Return what the runs share that differ in the seed alone."""
    return record.experiment, record.dataset, record.protocol, record.label, record.n_bits


def _why_none(content: object) -> str | None:
    """Return why parsed JSON is no result, or None if it is one."""
    if not isinstance(content, dict):
        return "not an object"
    for name, kind in _NEEDED.items():
        if not isinstance(content.get(name), kind):
            return f"{name} is missing or not what it should be"
    for name, kind in _OPTIONAL.items():
        if content.get(name) is not None and not isinstance(content[name], kind):
            return f"{name} is not what it should be"
    return _why_no_scores(content["scores"])


def _why_no_scores(scores: Mapping[str, Any]) -> str | None:
    for name in _SCORES:
        if not _is_number(scores.get(name)):
            return f"scores.{name} is missing or no number"
    for name in _BY_NUMBER:
        values = scores.get(name, {})
        if not isinstance(values, dict) or not all(map(_is_number, values.values())):
            return f"scores.{name} is not what it should be"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _mixed_splits(records: Iterable[Record]) -> list[str]:
    """Return a line for each dataset, protocol and seed of an experiment that has results of different splits."""
    firsts: dict[tuple[Any, ...], Record] = {}
    lines: dict[tuple[Any, ...], str] = {}
    for record in records:
        key = record.experiment, record.dataset, record.protocol, record.seed
        first = firsts.setdefault(key, record)
        if first.split != record.split:
            lines.setdefault(
                key,
                f"{first.path} and {record.path} are of different splits of {record.dataset}"
                f" ({first.split[:8]} and {record.split[:8]}); they must not be compared.",
            )
    return list(lines.values())


@dataclass(frozen=True)
class Spread:
    """A figure over several seeds.

    Parameters
    ----------
    mean : float
        Its mean.
    deviation : float or None
        Its standard deviation (of the sample); None for one seed.
    """

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """Return mean and standard deviation of some values."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

    def text(self, digits: int) -> str:
        """Return ``mean ± deviation``, or the mean alone."""
        mean = f"{self.mean:.{digits}f}"
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{digits}f}"


@dataclass(frozen=True)
class Summary:
    """The runs of an experiment that differ in the seed alone.

    Parameters
    ----------
    experiment, dataset, protocol, label, method, network : str
        What they share.
    n_bits : int
        Code length.
    seeds : tuple of int
        Their seeds.
    map : Spread
        Mean average precision.
    precision_100, success_2, seconds : Spread or None
        Precision among the first 100, share of queries with a hit within radius 2, and wall time; None where a run does
        not say.
    """

    experiment: str
    dataset: str
    protocol: str
    label: str
    method: str
    network: str
    n_bits: int
    seeds: tuple[int, ...]
    map: Spread
    precision_100: Spread | None
    success_2: Spread | None
    seconds: Spread | None


def summarise(records: Iterable[Record]) -> list[Summary]:
    """Sum up results over seeds, by experiment, label and code length."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_group(record), []).append(record)
    return [_summary(groups[key]) for key in sorted(groups)]


def _summary(runs: list[Record]) -> Summary:
    first = runs[0]
    return Summary(
        experiment=first.experiment,
        dataset=first.dataset,
        protocol=first.protocol,
        label=first.label,
        method=first.method,
        network=first.network,
        n_bits=first.n_bits,
        seeds=tuple(sorted(run.seed for run in runs)),
        map=Spread.of([run.map for run in runs]),
        precision_100=_spread([run.precision_at(100) for run in runs]),
        success_2=_spread([run.success_rate(2) for run in runs]),
        seconds=_spread([run.seconds for run in runs]),
    )


def _spread(values: list[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread.of(known) if len(known) == len(values) else None
