"""Results of runs: JSON files, and summaries over seeds."""

import json
import math
import os
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, PrivateAttr

from ddsh.errors import ArtefactError
from ddsh.evaluation.bits import BitHealth
from ddsh.evaluation.examples import Examples
from ddsh.evaluation.metrics import METRICS
from ddsh.evaluation.outputs import Histogram, Reranked
from ddsh.evaluation.scores import Scores
from ddsh.storage import Manifest

__all__ = ["BackboneInfo", "EpochRecord", "Machine", "Result", "Spread", "Summary", "read_results", "summarise"]

_EXAMPLES = "examples"


class BackboneInfo(BaseModel):
    """The backbone of a result.

    Attributes
    ----------
    name : str
        Name of the backbone.
    image_size : int or None
        Side of its input images.
    n_frozen : int
        Number of frozen stages.
    weights : str or None
        SHA-256 of its pretrained weights, if known.
    """

    name: str
    image_size: int | None = None
    n_frozen: int = 0
    weights: str | None = None


class EpochRecord(BaseModel):
    """Loss and objective of one epoch.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 1.
    loss : float or None
        Mean loss of its mini-batches.
    objective : float or None
        The method's objective, if it has one.
    map : float or None
        Mean average precision after the epoch, if it was scored.
    """

    epoch: int
    loss: float | None = None
    objective: float | None = None
    map: float | None = None


class Machine(BaseModel):
    """The machine of a run.

    Attributes
    ----------
    system, cpu : str
        Operating system and processor.
    cores : int
        Available processor cores.
    memory : int
        Memory in bytes.
    device : str
        Device of networks, such as ``cpu``.
    """

    system: str
    cpu: str
    cores: int
    memory: int
    device: str


class Result(Manifest):
    """One run of one method, with everything needed to repeat it.

    Attributes
    ----------
    experiment, label : str
        The experiment, and the name of the row in tables.
    method : str
        Name of the method.
    n_bits : int
        Code length.
    dataset, protocol : str
        The dataset, and the protocol that split it.
    seed : int
        Random seed of the split.
    split : str
        Fingerprint of the split.
    backbone : BackboneInfo or None
        The backbone; None for methods on pixels.
    params : dict
        Every parameter of the method, with presets and defaults resolved.
    scores : Scores
        Scores of the query set.
    bits : BitHealth or None
        Statistics of the bits of the database codes.
    outputs : Histogram or None
        Outputs of the network for the queries, after tanh; None for methods on features.
    reranked : Reranked or None
        Scores of rankings by real outputs, if requested.
    history : list of EpochRecord
        Loss of every epoch; empty for methods that train no network.
    seconds : float or None
        Wall time of fitting, encoding and scoring.
    peak_memory : int or None
        Peak resident memory of the process in bytes, if known.
    versions : dict of str to str
        Versions of Python and of relevant packages.
    commit : str or None
        Git commit of the code, if known.
    machine : Machine or None
        The machine, if known.
    """

    format_version = 2
    experiment: str = ""
    label: str = ""
    method: str
    n_bits: int = Field(strict=True)
    dataset: str
    protocol: str
    seed: int = Field(strict=True)
    split: str
    backbone: BackboneInfo | None = None
    params: dict[str, Any]
    scores: Scores
    bits: BitHealth | None = None
    outputs: Histogram | None = None
    reranked: Reranked | None = None
    history: list[EpochRecord] = Field(default_factory=list)
    seconds: float | None = Field(default=None, strict=True)
    peak_memory: int | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    machine: Machine | None = None
    _examples: Examples | None = PrivateAttr(None)
    _path: Path | None = PrivateAttr(None)

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 -- pydantic's own signature
        """Refuse scores that are not finite."""
        for name in ("map", "map_low", "map_high"):
            if not math.isfinite(getattr(self.scores, name)):
                raise ValueError(f"scores.{name} is not a finite number")

    def __repr__(self) -> str:
        return f"Result({self.label or self.method}, {self.n_bits} bits, {self.dataset}: MAP {self.map:.4f})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the main scores as a table, for notebooks."""
        rows = {METRICS[name].title: f"{value:.4f}" for name in METRICS if (value := self.metric(name)) is not None}
        cells = "".join(f"<tr><td>{escape(title)}</td><td>{value}</td></tr>" for title, value in rows.items())
        return f"<table><caption>{escape(repr(self))}</caption>{cells}</table>"

    @property
    def path(self) -> Path | None:
        """The file of the result, after reading or writing."""
        return self._path

    @property
    def network(self) -> str:
        """Name of the backbone, or ``pixels`` without one."""
        return "pixels" if self.backbone is None else self.backbone.name

    @property
    def map(self) -> float:
        """Mean average precision."""
        return self.scores.map

    @property
    def average_precision(self) -> NDArray[np.float64] | None:
        """Average precision of each query, if stored."""
        return self.scores.average_precision

    @property
    def examples(self) -> Examples | None:
        """Example queries with the images they retrieve, if stored with the result."""
        if self._examples is None and self._path is not None:
            beside = self._path.parent / _EXAMPLES / self._path.name
            self._examples = Examples.read(beside) if beside.is_file() else None
        return self._examples

    def metric(self, name: str) -> float | None:
        """Return a metric of :data:`~ddsh.evaluation.METRICS`, or None if missing."""
        scores = self.scores
        older = {
            "map": scores.map,
            "map_low": scores.map_low,
            "map_high": scores.map_high,
            "precision_at_100": scores.precision_at.get(100),
            "success_within_2": scores.success_rate.get(2),
        }
        return scores.metrics.get(name, older.get(name))

    def with_facts(self, **changes: Any) -> "Result":  # noqa: ANN401 -- any field
        """Return a copy with some fields changed, such as experiment, label, commit and machine."""
        copied = self.model_copy(update=changes)
        copied._examples = self._examples
        return copied

    def to_json(self) -> str:
        """Return the content of the file, one line per field for readable diffs."""
        content = {"version": self.format_version, **self.model_dump(mode="json", exclude_none=True)}
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
        return f"{{\n{lines}\n}}\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the result, and its examples to a subfolder, each file atomically."""
        target = Path(path)
        if self._examples is not None:
            self._examples.write(target.parent / _EXAMPLES / target.name)
        super().write(target)
        self._path = target

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, missing: str | None = None, advice: str | None = None) -> Self:
        """Read a result, or raise :class:`~ddsh.errors.ArtefactError`."""
        if Path(path).exists() and not Path(path).is_file():  # a pipe would block
            raise ArtefactError(f"{path} is not a file.")
        again = "remove it and run the experiment again"
        result = super().read(path, missing=missing, advice=advice or again)
        result._path = Path(path)
        return result

    @classmethod
    def upgrade(cls, content: dict[str, Any], version: object) -> dict[str, Any] | None:
        """Convert results without a version.

        They have the network among the parameters, and epochs are called passes.
        """
        if version is not None:
            return None
        # None is a value of the preset, which was not recorded.
        params = {name: value for name, value in content["params"].items() if value is not None}
        extension = params.get("extension")
        owner = dict(extension) if isinstance(extension, dict) and "network" in extension else params
        backbone = None
        if content.get("network") != "pixels":
            size = content.get("image_size") or owner.get("image_size")
            backbone = {"name": content["network"], "image_size": size, "weights": content.get("weights")}
            backbone["n_frozen"] = owner.get("n_frozen") or 0
        for name in ("network", "image_size", "weights", "n_frozen", "device", "memory"):
            owner.pop(name, None)
        if isinstance(owner.get("training"), dict):
            names = {"passes": "epochs", "final_rate": "final_lr"}
            owner["training"] = {names.get(name, name): value for name, value in owner["training"].items()}
        if owner is not params:
            params["extension"] = owner
        history = [
            {"epoch" if name == "pass" else name: value for name, value in one.items()}
            for one in content.get("history") or []
        ]
        dropped = ("network", "image_size", "weights", "examples", "params", "history")
        kept = {name: value for name, value in content.items() if name not in dropped and value is not None}
        return kept | {"backbone": backbone, "params": params, "history": history}


def read_results(folder: str | os.PathLike[str]) -> tuple[list[Result], list[str]]:
    """Read the results in a folder and in its direct subfolders.

    Parameters
    ----------
    folder : path
        A folder of results, or of one folder per experiment; it may be missing.

    Returns
    -------
    list of Result
        The results, sorted by path.
    list of str
        Problems, one line each: files that are not results and copies of a run (both are left out), and runs that
        cannot be compared because their splits differ.
    """
    root = Path(folder)
    found: dict[tuple[Any, ...], Result] = {}
    problems = []
    for path in sorted([*root.glob("*.json"), *root.glob("*/*.json")]):
        if path.parent.name == _EXAMPLES:
            continue
        try:
            result = Result.read(path)
        except ArtefactError as error:
            problems.append(str(error))
            continue
        first = found.setdefault((*_group(result), result.seed), result)
        if first is not result:
            problems.append(f"{path} is the same run as {first.path}; it is left out.")
    results = list(found.values())
    firsts: dict[tuple[Any, ...], Result] = {}
    mixed: dict[tuple[Any, ...], str] = {}
    for result in results:
        key = result.experiment, result.dataset, result.protocol, result.seed
        first = firsts.setdefault(key, result)
        if first.split != result.split:
            mixed.setdefault(
                key,
                f"{first.path} and {result.path} are of different splits of {result.dataset}"
                f" ({first.split[:8]} and {result.split[:8]}); they must not be compared.",
            )
    return results, problems + list(mixed.values())


def _group(result: Result) -> tuple[Any, ...]:
    """Return the key of runs that differ only in the seed."""
    return result.experiment, result.dataset, result.protocol, result.label, result.n_bits


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds.

    Parameters
    ----------
    mean : float
        Mean.
    deviation : float or None
        Sample standard deviation; None for one seed.
    """

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """Return mean and standard deviation of values."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

    def text(self, digits: int) -> str:
        """Return ``mean ± deviation``, or the mean alone."""
        mean = f"{self.mean:.{digits}f}"
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{digits}f}"


@dataclass(frozen=True)
class Summary:
    """Summary of the runs that differ only in the seed.

    Parameters
    ----------
    experiment, dataset, protocol, label, method, network : str
        Common facts of the runs.
    n_bits : int
        Code length.
    seeds : tuple of int
        Seeds of the runs.
    map : Spread
        Mean average precision.
    precision_100, success_2, seconds : Spread or None
        Precision among the first 100, fraction of queries with a hit within radius 2, and wall time; None if a run
        lacks it.
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


def summarise(results: Iterable[Result]) -> list[Summary]:
    """Average results over seeds, by experiment, label and code length."""
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(_group(result), []).append(result)

    def spread(values: list[float | None]) -> Spread | None:
        """Return mean and deviation, or None if a run lacks the value."""
        known = [value for value in values if value is not None]
        return Spread.of(known) if len(known) == len(values) else None

    return [
        Summary(
            experiment=runs[0].experiment,
            dataset=runs[0].dataset,
            protocol=runs[0].protocol,
            label=runs[0].label,
            method=runs[0].method,
            network=runs[0].network,
            n_bits=runs[0].n_bits,
            seeds=tuple(sorted(run.seed for run in runs)),
            map=Spread.of([run.map for run in runs]),
            precision_100=spread([run.metric("precision_at_100") for run in runs]),
            success_2=spread([run.metric("success_within_2") for run in runs]),
            seconds=spread([run.seconds for run in runs]),
        )
        for _, runs in sorted(groups.items())
    ]
