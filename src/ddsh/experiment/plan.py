"""What of an experiment is there, what is missing, and whether the two fit together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddsh.backbones.registry import BACKBONES
from ddsh.datasets import Dataset
from ddsh.errors import InvalidInput, UnknownName
from ddsh.evaluation.records import Record, read_results
from ddsh.evaluation.results import network_params
from ddsh.experiment.spec import Run, Spec
from ddsh.methods import get_method
from ddsh.methods.base import Hasher

# Length and seed differ from run to run; where a network runs and where files are kept changes nothing.
_MAY_DIFFER = frozenset({"n_bits", "seed", "device", "weights", "memory"})


@dataclass(frozen=True)
class Plan:
    """What is to be done for an experiment.

    Parameters
    ----------
    missing : tuple of Run
        Runs to make.
    n_there : int
        Runs whose results are there.
    """

    missing: tuple[Run, ...]
    n_there: int


def plan(spec: Spec, dataset: Dataset, results: Path, *, force: bool = False) -> Plan:
    """Say which runs are missing, and refuse to put results side by side that cannot be compared.

    Parameters
    ----------
    spec : Spec
        The experiment.
    dataset : Dataset
        Its dataset.
    results : path
        The results folder.
    force : bool
        Make results again that are there.
    """
    runs = list(spec.runs())
    folder = spec.folder(results)
    there = {record.path.name: record for record in read_results(folder)[0]}
    missing = tuple(run for run in runs if force or run.file_name not in there)
    remade = {run.file_name for run in missing}
    staying = [record for name, record in there.items() if name not in remade]
    _check_params(spec, runs, staying, folder)
    _check_splits(spec, dataset, staying, folder)
    return Plan(missing, len(runs) - len(missing))


def build(run: Run, spec: Spec, memory: Path | None = None) -> Hasher:
    """Return the method of a run with all of its parameters.

    Parameters
    ----------
    run : Run
        The run.
    spec : Spec
        Its experiment, which may name a network for all methods on images.
    memory : path, optional
        Where frozen layers may keep their outputs.
    """
    method = get_method(run.method)
    known: set[str] = set(method().get_params())
    own = run.params | _fitting({"n_bits": run.n_bits, "seed": run.seed}, known)
    if unknown := own.keys() - known:
        raise InvalidInput(f"{run.label}: {run.method} has no parameter {', '.join(sorted(unknown))}; leave it out.")
    hasher = _described(method, run.label, own)
    if hasher.inputs == "features":
        return hasher
    shared = spec.network_params() | ({"memory": str(memory)} if memory else {})
    hasher = _described(method, run.label, _with_network(run.label, own, known, shared, spec))
    _check_network(network_params(hasher).get("network"))
    return hasher


def _with_network(
    label: str, own: dict[str, Any], known: set[str], shared: dict[str, Any], spec: Spec
) -> dict[str, Any]:
    """Return a method's parameters with what the experiment says of networks, where it says nothing itself.

    A method that does not train a network itself has an extension that does, and that has the parameters.
    """
    if "network" not in known:
        extension = own.get("extension", "cnn")
        table = extension if isinstance(extension, dict) else {"kind": extension}
        return own | {"extension": _shortened(label, shared | table, spec)}
    return _shortened(label, _fitting(shared, known) | own, spec)


def _shortened(label: str, params: dict[str, Any], spec: Spec) -> dict[str, Any]:
    """Return parameters with the fewer epochs of a quick look."""
    training = params.get("training", {})
    if not isinstance(training, dict):
        raise InvalidInput(f"{label}: training must be a table; got {training!r}.")
    if not spec.is_quick or spec.quick.epochs is None:
        return params
    return params | {"training": training | {"epochs": spec.quick.epochs}}


def _fitting(params: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name in known}


def _described(method: type[Hasher], label: str, params: dict[str, Any]) -> Hasher:
    try:
        return method.from_description(params)
    except (TypeError, AttributeError) as error:  # a table where a number belongs, or a field that does not exist
        raise InvalidInput(f"{label}: the parameters do not fit {method.card.name} ({error}).") from error


def _check_network(name: object) -> None:
    if isinstance(name, str) and name not in BACKBONES:
        raise UnknownName("network", name, BACKBONES)


def _check_params(spec: Spec, runs: Sequence[Run], staying: Sequence[Record], folder: Path) -> None:
    """Raise if a result that stays has the label of a run but other parameters."""
    _check_network(spec.network)
    by_label = {run.label: run for run in runs}
    for label, run in by_label.items():
        hasher = build(run, spec)
        wanted, defaults = _setting(hasher, spec), type(hasher)().describe_params()
        for record in staying:
            if record.label != label:
                continue
            if differing := _differing(defaults | dict(record.params) | _features(record), wanted):
                raise InvalidInput(
                    f"{folder} holds {label} with other parameters ({', '.join(differing)}: {record.path.name});"
                    " make all of it again with --force, or give another folder with --results."
                )


def _setting(hasher: Hasher, spec: Spec) -> dict[str, Any]:
    """Return all that makes one label differ from another."""
    setting = hasher.describe_params() | {"method": hasher.card.name}
    if hasher.inputs == "images":
        return setting
    if spec.network is None:
        return setting | {"network": "pixels", "image_size": None}
    return setting | {"network": spec.network, "image_size": spec.image_size or BACKBONES[spec.network].image_size}


def _features(record: Record) -> dict[str, Any]:
    """Return what a result says beside its parameters; those on images have their network there."""
    if "network" in record.params:
        return {"method": record.method}
    return {"method": record.method, "network": record.network, "image_size": record.content.get("image_size")}


def _differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the names whose values differ; what one side has never heard of cannot differ."""
    names = (found.keys() & wanted.keys()) - _MAY_DIFFER
    return sorted(name for name in names if not _same(found[name], wanted[name]))


def _same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return not _differing(one, other)
    return one == other


def _check_splits(spec: Spec, dataset: Dataset, staying: Iterable[Record], folder: Path) -> None:
    """Raise if a result that stays was made on another split than the runs will be."""
    rule = spec.rule()
    splits = {seed: rule.split(dataset, seed) for seed in spec.seeds}
    for record in staying:
        split = splits.get(record.seed)
        if split is None or (record.dataset, record.protocol) != (dataset.name, split.protocol.name):
            continue
        if split.fingerprint != record.split:
            raise InvalidInput(
                f"{folder} holds {record.path.name} of another split of {dataset.name} (seed {record.seed}:"
                f" {record.split[:8]}, now {split.fingerprint[:8]}); other files of the dataset, or another version"
                " of the protocol? Make all of it again with --force, or give another folder with --results."
            )
