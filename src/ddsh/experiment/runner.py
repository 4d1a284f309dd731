"""Run what is missing of an experiment; every run is one file."""

import json
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ddsh.datasets import Dataset
from ddsh.errors import DdshError
from ddsh.evaluation import Extractor, Result, evaluate
from ddsh.evaluation.records import Record, read_record
from ddsh.evaluation.results import network_params
from ddsh.experiment.parallel import call_in_processes
from ddsh.experiment.plan import Plan, build, plan
from ddsh.experiment.provenance import n_cores, this_machine
from ddsh.experiment.spec import Run, Spec
from ddsh.methods.base import Hasher
from ddsh.storage import atomic_write


class Watcher(Protocol):
    """Is told how an experiment goes on."""

    def planned(self, what: Plan) -> None:
        """Hear what is to be done."""
        ...

    def begins(self, run: Run) -> None:
        """Hear that a run begins; not where several are made at a time."""
        ...

    def steps(self, step: Any) -> None:  # noqa: ANN401 -- of the training loop, which needs PyTorch
        """Hear of a mini-batch of a deep method; not where several are made at a time."""
        ...

    def ends(self, record: Record) -> None:
        """Hear that a result was written."""
        ...

    def fails(self, run: Run, reason: str) -> None:
        """Hear that a run could not be made; the others go on."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment.

    Parameters
    ----------
    written : tuple of Path
        Results that were made.
    n_there : int
        Results that were there already.
    failed : tuple of str
        Runs that could not be made, and why.
    """

    written: tuple[Path, ...]
    n_there: int
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Workshop:
    """What every run of an experiment is made with.

    Parameters
    ----------
    spec : Spec
        The experiment.
    open_dataset : callable
        Reads its dataset; with several jobs each process calls it, so that it must be picklable.
    results : path
        The results folder; the experiment has a folder of its own in it.
    memory : path, optional
        Folder where features and the outputs of frozen layers are kept, for the next run.
    commit : str, optional
        Of the code, to be kept with the results.
    """

    spec: Spec
    open_dataset: Callable[[], Dataset]
    results: Path
    memory: Path | None = None
    commit: str | None = None

    def path(self, run: Run) -> Path:
        """Return where the result of a run goes."""
        return self.spec.folder(self.results) / run.file_name

    def extractor(self) -> Extractor | None:
        """Return where methods on features get them from; None for pixels."""
        if self.spec.network is None:
            return None
        from ddsh.backbones.features import FeatureExtractor

        return FeatureExtractor(self.spec.network, self.spec.image_size, self.spec.weights, self.memory)

    def make(self, run: Run) -> None:
        """Make one result, from the dataset on."""
        self.make_with(run, self.open_dataset(), self.extractor(), None)

    def make_with(
        self, run: Run, dataset: Dataset, extractor: Extractor | None, on_step: Callable[[Any], None] | None
    ) -> None:
        """Make one result and write it whole; a run that was stopped goes on from its checkpoint."""
        hasher = build(run, self.spec, self.memory)
        path = self.path(run)
        checkpoints = path.with_suffix(".checkpoints")
        fit = _fit(hasher, checkpoints, on_step)
        result = evaluate(
            hasher,
            dataset,
            self.spec.rule(),
            run.seed,
            fit=fit,
            extractor=extractor,
            examples=run.n_bits in self.spec.examples,
            reranked=run.n_bits in self.spec.reranked,
        )
        made = replace(result, commit=self.commit, machine=this_machine(_device(hasher)))
        write_result(made, path, self.spec.name, run.label)
        shutil.rmtree(checkpoints, ignore_errors=True)


def run(
    spec: Spec,
    open_dataset: Callable[[], Dataset],
    results: Path,
    watcher: Watcher,
    *,
    force: bool = False,
    n_jobs: int = 1,
    memory: Path | None = None,
    commit: str | None = None,
) -> Outcome:
    """Make every result that is not there yet; each is written whole, so that an interrupted experiment goes on.

    Parameters
    ----------
    spec : Spec
        The experiment.
    open_dataset, results, commit
        See :class:`Workshop`.
    watcher : Watcher
        Is told how it goes on.
    force : bool
        Make results again that are there.
    n_jobs : int
        Runs that are made at a time, each in a process of its own.
    memory : path, optional
        See :class:`Workshop`; without it, runs share a temporary folder that is removed with the last of them.

    Returns
    -------
    Outcome
        What was made, and what could not be.
    """
    dataset = open_dataset()
    todo = plan(spec, dataset, results, force=force)
    watcher.planned(todo)
    with _shared(memory, todo) as kept:
        workshop = Workshop(spec, open_dataset, results, kept, commit)
        ended = _one_by_one(workshop, todo, dataset, watcher) if n_jobs == 1 else _at_a_time(workshop, todo, n_jobs)
        written, failed = _follow(ended, workshop, watcher)
    return Outcome(tuple(written), todo.n_there, tuple(failed))


@contextmanager
def _shared(memory: Path | None, todo: Plan) -> Iterator[Path | None]:
    """Give the runs of one call a memory in common: what a frozen network puts out is the same for all of them."""
    if memory is not None or len(todo.missing) < 2:
        yield memory
        return
    with TemporaryDirectory(prefix="ddsh-") as folder:
        yield Path(folder)


def _follow(
    ended: Generator[tuple[Run, str | None]], workshop: Workshop, watcher: Watcher
) -> tuple[list[Path], list[str]]:
    """Tell the watcher of every run that ends; return what was written and what failed."""
    written, failed = [], []
    with closing(ended):
        for one, reason in ended:
            if reason is None:
                written.append(workshop.path(one))
                watcher.ends(read_record(workshop.path(one)))
            else:
                failed.append(f"{one.title}: {reason}")
                watcher.fails(one, reason)
    return written, failed


def _one_by_one(
    workshop: Workshop, todo: Plan, dataset: Dataset, watcher: Watcher
) -> Generator[tuple[Run, str | None]]:
    extractor = workshop.extractor()
    for one in todo.missing:
        watcher.begins(one)
        try:
            workshop.make_with(one, dataset, extractor, watcher.steps)
        except DdshError as error:
            yield one, str(error)
        else:
            yield one, None


def _at_a_time(workshop: Workshop, todo: Plan, n_jobs: int) -> Generator[tuple[Run, str | None]]:
    calls = [(one,) for one in todo.missing]
    with closing(call_in_processes(workshop.make, calls, n_jobs, max(1, n_cores() // n_jobs))) as ended:
        for place, reason in ended:
            yield todo.missing[place], reason


def _fit(hasher: Hasher, checkpoints: Path, on_step: Callable[[Any], None] | None) -> Callable[..., Any]:
    """Return the method's ``fit``, with checkpoints and progress where it trains a network."""
    fit: Callable[..., Any] = hasher.fit
    if hasher.inputs == "features":
        return fit
    return partial(fit, checkpoints=checkpoints, resume=True, on_step=on_step)


def _device(hasher: Hasher) -> str:
    """Return where a method's network runs."""
    if hasher.inputs == "features":
        return "cpu"
    from ddsh.backbones.hash_network import choose_device

    return str(choose_device(network_params(hasher).get("device", "auto")))


def write_result(result: Result, path: Path, experiment: str, label: str) -> None:
    """Write a result whole or not at all, as one of an experiment under a label of its table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"experiment": experiment, "label": label} | result.to_dict()
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
