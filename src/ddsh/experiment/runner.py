"""Runner of experiments: find and execute the missing runs."""

import math
import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import joblib

from ddsh.backbones import Backbone
from ddsh.datasets import Dataset
from ddsh.errors import DdshError, InvalidInput
from ddsh.evaluation import BackboneInfo, Result, evaluate, read_results
from ddsh.experiment.parallel import call_in_processes
from ddsh.experiment.provenance import this_machine
from ddsh.experiment.spec import Run, Spec
from ddsh.methods import get_method
from ddsh.methods.training import TrainingStep
from ddsh.model import Model

__all__ = ["ExperimentListener", "Outcome", "Plan", "build_model", "plan", "run"]

# Parameters that differ between runs, or do not affect the result; what a preset stands for is recorded itself.
_MAY_DIFFER = frozenset({"n_bits", "seed", "checkpoint_seconds", "preset"})


class ExperimentListener(Protocol):
    """Callbacks of :func:`run`."""

    def on_plan(self, plan: "Plan") -> None:
        """Handle the plan, before the first run."""
        ...

    def on_begin(self, run: Run) -> None:
        """Handle the start of a run; not called with several jobs."""
        ...

    def on_step(self, step: TrainingStep) -> None:
        """Handle a step of a deep method; not called with several jobs."""
        ...

    def on_end(self, result: Result) -> None:
        """Handle a result after it was written."""
        ...

    def on_fail(self, run: Run, reason: str) -> None:
        """Handle the error message of a failed run; the others continue."""
        ...


@dataclass(frozen=True)
class Plan:
    """Missing and finished runs of an experiment.

    Parameters
    ----------
    missing : tuple of Run
        Runs without a result.
    n_done : int
        Number of runs with a result.
    """

    missing: tuple[Run, ...]
    n_done: int


@dataclass(frozen=True)
class Outcome:
    """Outcome of an experiment.

    Parameters
    ----------
    written : tuple of Path
        New results.
    n_done : int
        Number of results that existed before.
    failed : tuple of str
        Failed runs with their error messages.
    """

    written: tuple[Path, ...]
    n_done: int
    failed: tuple[str, ...]


@dataclass(frozen=True)
class RunContext:
    """Shared state of the runs of an experiment; picklable, for child processes.

    Parameters
    ----------
    spec : Spec
        The experiment.
    open_dataset : callable
        Function that loads the dataset.
    results : path
        Results folder, with one subfolder per experiment.
    cache_dir : path, optional
        Cache folder of features and outputs of frozen stages.
    commit : str, optional
        Git commit of the code, stored in the results.
    device : str, optional
        Device of networks; the one of the experiment by default.
    """

    spec: Spec
    open_dataset: Callable[[], Dataset]
    results: Path
    cache_dir: Path | None = None
    commit: str | None = None
    device: str | None = None

    def path(self, one: Run) -> Path:
        """Return the path of the result of a run."""
        return self.spec.folder(self.results) / one.file_name

    def make(
        self, one: Run, dataset: Dataset | None = None, on_step: Callable[[TrainingStep], None] | None = None
    ) -> None:
        """Execute a run and write its result; an interrupted run continues from its checkpoint."""
        model = build_model(one, self.spec, self.cache_dir, self.device)
        checkpoints = self.path(one).with_suffix(".checkpoints")
        result = evaluate(
            model,
            self.open_dataset() if dataset is None else dataset,
            self.spec.split_rule(),
            one.seed,
            examples=one.n_bits in self.spec.examples and one.seed == self.spec.seeds[0],
            reranked=one.n_bits in self.spec.reranked,
            every=self.spec.every,
            checkpoints=checkpoints,
            resume=True,
            on_step=on_step,
        )
        device = "cpu" if model.network is None else model.network.head.weight.device.type
        facts = {"experiment": self.spec.name, "label": one.label, "commit": self.commit}
        result.with_facts(**facts, machine=this_machine(device)).write(self.path(one))
        shutil.rmtree(checkpoints, ignore_errors=True)


def run(
    spec: Spec,
    open_dataset: Callable[[], Dataset],
    results: str | os.PathLike[str],
    listener: ExperimentListener,
    *,
    force: bool = False,
    n_jobs: int = 1,
    cache_dir: str | os.PathLike[str] | None = None,
    commit: str | None = None,
    device: str | None = None,
) -> Outcome:
    """Execute all missing runs of an experiment.

    Each result is written atomically, so that an interrupted experiment can continue.

    Parameters
    ----------
    spec : Spec
        The experiment.
    open_dataset, commit, device
        See :class:`RunContext`.
    results : path
        Results folder.
    listener : ExperimentListener
        Callbacks.
    force : bool
        Replace existing results.
    n_jobs : int
        Number of parallel runs, each in its own process.
    cache_dir : path, optional
        Cache folder of features and outputs of frozen stages; by default runs share a temporary folder.

    Returns
    -------
    Outcome
        New results and failed runs.
    """
    dataset = open_dataset()
    todo = plan(spec, dataset, results, force=force)
    listener.on_plan(todo)
    share = cache_dir is None and len(todo.missing) > 1
    with TemporaryDirectory(prefix="ddsh-") if share else nullcontext(cache_dir) as cache:
        context = RunContext(spec, open_dataset, Path(results), None if cache is None else Path(cache), commit, device)
        written, failed = [], []
        with closing(_execute(context, todo, dataset, listener, n_jobs)) as ended:
            for one, reason in ended:
                if reason is None:
                    written.append(context.path(one))
                    listener.on_end(Result.read(context.path(one)))
                else:
                    failed.append(f"{one.title}: {reason}")
                    listener.on_fail(one, reason)
    return Outcome(tuple(written), todo.n_done, tuple(failed))


def _execute(
    context: RunContext, todo: Plan, dataset: Dataset, listener: ExperimentListener, n_jobs: int
) -> Generator[tuple[Run, str | None]]:
    """Yield each finished run with its error message or None."""
    if n_jobs > 1:
        calls = [(one,) for one in todo.missing]
        with closing(call_in_processes(context.make, calls, n_jobs, max(1, joblib.cpu_count() // n_jobs))) as ended:
            for place, reason in ended:
                yield todo.missing[place], reason
        return
    for one in todo.missing:
        listener.on_begin(one)
        try:
            context.make(one, dataset, listener.on_step)
        except DdshError as error:
            yield one, str(error)
        else:
            yield one, None


def plan(spec: Spec, dataset: Dataset, results: str | os.PathLike[str], *, force: bool = False) -> Plan:
    """Find the missing runs of an experiment.

    Raises :class:`~ddsh.errors.InvalidInput` if existing results have other parameters or another split.

    Parameters
    ----------
    spec : Spec
        The experiment.
    dataset : Dataset
        Its dataset.
    results : path
        Results folder.
    force : bool
        Replace existing results.
    """
    runs = list(spec.runs())
    folder = spec.folder(results)
    done = {result.path.name: result for result in read_results(folder)[0] if result.path is not None}
    missing = tuple(one for one in runs if force or one.file_name not in done)
    remade = {one.file_name for one in missing}
    staying = [result for name, result in done.items() if name not in remade]
    _check_params(spec, runs, staying, folder)
    asked = {one.file_name for one in runs}
    rule = spec.split_rule()
    splits = {seed: rule.split(dataset, seed) for seed in spec.seeds}
    for result in staying:
        split = splits.get(result.seed)
        if split is None or result.path is None:
            continue
        if (result.dataset, result.protocol) != (dataset.name, split.protocol.name):
            if result.path.name not in asked:
                continue
            raise InvalidInput(
                f"{folder} holds {result.path.name} of {result.dataset}, protocol {result.protocol}, not of"
                f" {dataset.name}, protocol {split.protocol.name}; choose another folder with --results."
            )
        if split.fingerprint != result.split:
            raise InvalidInput(
                f"{folder} holds {result.path.name} of another split of {dataset.name}"
                f" (seed {result.seed}: {result.split[:8]}, now {split.fingerprint[:8]}); other files of the dataset,"
                " or another version of the protocol? Replace all of them with --force, or choose another folder with"
                " --results."
            )
    return Plan(missing, len(runs) - len(missing))


def build_model(
    one: Run, spec: Spec, cache_dir: str | os.PathLike[str] | None = None, device: str | None = None
) -> Model:
    """Return the unfitted model of a run.

    Parameters
    ----------
    one : Run
        The run.
    spec : Spec
        Its experiment.
    cache_dir : path, optional
        Cache folder of outputs of frozen stages.
    device : str, optional
        Device of the backbone; the one of the experiment by default.
    """
    cls = get_method(one.method)
    known: set[str] = set(cls().get_params())
    params = spec.quick.methods.get(one.label, one.params) if spec.is_quick else one.params
    own = dict(params) | {name: getattr(one, name) for name in ("n_bits", "seed") if name in known}
    if unknown := own.keys() - known:
        raise InvalidInput(f"{one.label}: {one.method} has no parameter {', '.join(sorted(unknown))}; leave it out.")
    if spec.is_quick and spec.quick.epochs is not None:
        own = _with_epochs(cls.card.inputs == "images", own, spec.quick.epochs)
    try:
        method = cls.from_description(own)
    except (TypeError, AttributeError, ValueError) as error:  # such as a table instead of a number
        if isinstance(error, DdshError):
            raise InvalidInput(f"{one.label}: {error}") from error
        raise InvalidInput(f"{one.label}: the parameters do not fit {one.method} ({error}).") from error
    if one.backbone is None:
        backbone = method.trained_backbone
    else:
        backbone = Backbone(**{"name": "efficientnet-lite0"} | dict(one.backbone))
    if backbone is not None and cache_dir is not None:
        backbone = backbone.with_options(cache_dir=cache_dir)
    if backbone is not None and device is not None:
        backbone = backbone.with_options(device=device)
    return Model(method, backbone, look_bits=0)


def _with_epochs(trains_network: bool, params: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Return parameters with other epochs, for a deep method or the extension ``cnn``."""
    if trains_network:
        training = params.get("training") or {}
        return params | {"training": training | {"epochs": epochs} if isinstance(training, dict) else training}
    extension = params.get("extension")
    if extension == "cnn" or (isinstance(extension, dict) and extension.get("kind") == "cnn"):
        table: dict[str, Any] = dict(extension) if isinstance(extension, dict) else {"kind": "cnn"}
        return params | {"extension": table | {"training": table.get("training", {}) | {"epochs": epochs}}}
    return params


def _check_params(spec: Spec, runs: Sequence[Run], staying: Sequence[Result], folder: Path) -> None:
    """Raise if an existing result of a row has other parameters than its runs."""
    wanted: dict[tuple[str, int], dict[str, Any]] = {}
    for one in runs:
        if (one.label, one.n_bits) not in wanted:
            model = build_model(one, spec)
            backbone = None if model.backbone is None else BackboneInfo(**model.backbone.describe()).model_dump()
            facts = {"method": model.name, "backbone": backbone}
            wanted[one.label, one.n_bits] = model.require_method().describe_params() | facts
    by_label = {label: params for (label, _), params in wanted.items()}
    for result in staying:
        asked = wanted.get((result.label, result.n_bits)) or by_label.get(result.label)
        if asked is None:
            continue
        backbone = None if result.backbone is None else result.backbone.model_dump()
        found = result.params | {"method": result.method, "backbone": backbone}
        same_length = (result.label, result.n_bits) in wanted
        if differing := _differing(found, asked, same_length):
            name = result.path.name if result.path else result.label
            raise InvalidInput(
                f"{folder} holds {result.label} with other parameters ({', '.join(differing)}: {name});"
                " replace all of them with --force, or choose another folder with --results."
            )


def _differing(found: Mapping[str, Any], wanted: Mapping[str, Any], same_length: bool) -> list[str]:
    """Return the common names whose values differ."""
    names = (found.keys() & wanted.keys()) - _MAY_DIFFER
    if not same_length:  # their defaults depend on the code length
        names -= {"n_omega", "n_columns"}

    def differs(one: object, other: object) -> bool:
        """Compare two values, and mappings entry by entry."""
        if isinstance(one, dict) and isinstance(other, dict):
            return bool(_differing(one, other, same_length))
        if isinstance(one, float) and isinstance(other, float):  # a scaled rate may differ in its last digit
            return not math.isclose(one, other)
        return one != other

    return sorted(name for name in names if differs(found[name], wanted[name]))
