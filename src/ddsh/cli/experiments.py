"""Commands that run experiments and list their results."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ddsh
from ddsh.cli import show, tables
from ddsh.datasets import load
from ddsh.errors import ArtefactError, DdshError, InvalidInput, UnknownName
from ddsh.evaluation.records import Record, read_results, summarise

if TYPE_CHECKING:
    from ddsh.experiment import Outcome, Spec

_STOPPED = 130

Results = Annotated[Path, typer.Option(help="Folder for results.")]
Root = Annotated[
    Path | None, typer.Option("--root", "--data", envvar="DDSH_DATA", help="Folder where datasets are kept.")
]


def reproduce(
    experiment: Annotated[str, typer.Argument(help="A name in ./experiments, or a TOML file.")],
    results: Results = Path("results"),
    root: Root = None,
    quick: Annotated[bool, typer.Option("--quick", help="A quick look: fewer images, epochs, seeds.")] = False,
    network: Annotated[str | None, typer.Option(help="Another network for all methods.")] = None,
    image_size: Annotated[int | None, typer.Option(min=1, help="Side of the images that it sees.")] = None,
    weights: Annotated[str | None, typer.Option(help="File with its pretrained weights.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds.")] = None,
    bits: Annotated[list[int] | None, typer.Option(min=1, help="Code length; repeatable.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Label of a method; repeatable.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time, each in a process of its own.")] = 1,
    memory: Annotated[Path | None, typer.Option(help="Folder to keep features in, for the next run.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Make results again that are there.")] = False,
) -> None:
    """Run what is missing of an experiment; every run is one JSON in the results folder."""
    from ddsh.experiment import commit_of, find_spec, read_spec, run

    spec = _chosen(read_spec(find_spec(experiment, Path("experiments"))), quick, bits, seeds, only)
    spec = _with_network(spec, network, image_size, weights)
    opened = partial(load, spec.dataset, root=root)
    commit = commit_of(Path(ddsh.__file__).parent)
    with show.experiment() as bars:
        try:
            outcome = run(spec, opened, results, bars, force=force, n_jobs=jobs, memory=memory, commit=commit)
        except KeyboardInterrupt:
            bars.close()
            typer.echo(f"ddsh: stopped, {bars.state()}; the same command goes on from there.", err=True)
            raise SystemExit(_STOPPED) from None
    _conclude(outcome, spec, results)


def _chosen(
    spec: "Spec", quick: bool, bits: Sequence[int] | None, seeds: int | None, only: Sequence[str] | None
) -> "Spec":
    spec = spec.quicker() if quick else spec
    spec = spec.with_bits(bits) if bits else spec
    spec = spec.with_seeds(seeds) if seeds else spec
    return spec.only(only) if only else spec


def _with_network(spec: "Spec", network: str | None, image_size: int | None, weights: str | None) -> "Spec":
    if network is None and (image_size or weights):
        raise InvalidInput("--image-size and --weights belong to --network; name it too.")
    return spec if network is None else spec.with_network(network, image_size, weights)


def _conclude(outcome: "Outcome", spec: "Spec", results: Path) -> None:
    folder = spec.folder(results)
    if outcome.failed:
        n_runs = len(outcome.failed) + len(outcome.written) + outcome.n_there
        raise DdshError(f"{len(outcome.failed)} of {n_runs} runs failed; the others are in {folder}.")
    if outcome.written:
        typer.echo(f"{len(outcome.written)} results written to {folder}")
    else:
        typer.echo(f"Nothing to do: all {outcome.n_there} results are in {folder}")
    if spec.figure:
        typer.echo(f"ddsh report {folder.parent} draws it: report/figures/{spec.name}-{spec.figure}.svg")


def results(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    experiment: Annotated[str | None, typer.Option(help="Only those of this experiment.")] = None,
    method: Annotated[str | None, typer.Option(help="Only those of this method or label.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Only this code length; repeatable.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all that is known of every run, as JSON.")] = False,
) -> None:
    """List results, as mean and standard deviation over seeds."""
    if csv + latex + markdown + json > 1:
        raise InvalidInput("Choose one of --csv, --latex, --markdown and --json.")
    records = _filtered(_read(folder), experiment, method, bits)
    if json:
        show.as_json([{"file": str(record.path)} | dict(record.content) for record in records])
        return
    summaries = summarise(records)
    if csv:
        typer.echo(tables.summary_csv(summaries))
    elif latex:
        typer.echo(tables.summary_table(summaries).to_latex())
    elif markdown:
        typer.echo(tables.summary_table(summaries).to_markdown())
    else:
        show.summaries(summaries)


def _read(folder: Path) -> list[Record]:
    """Return the results in a folder; what is wrong with others is said on standard error."""
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a folder; results are made by: ddsh reproduce")
    records, problems = read_results(folder)
    for problem in problems:
        typer.echo(f"ddsh: {problem}", err=True)
    return records


def _filtered(
    records: Sequence[Record], experiment: str | None, method: str | None, bits: Sequence[int] | None
) -> list[Record]:
    if experiment is not None:
        records = _named("experiment", experiment, records, lambda record: {record.experiment})
    if method is not None:
        records = _named("method or label", method, records, lambda record: {record.method, record.label})
    return [record for record in records if not bits or record.n_bits in bits]


def _named(what: str, name: str, records: Sequence[Record], names_of: Callable[[Record], set[str]]) -> list[Record]:
    known = set().union(*map(names_of, records))
    if name not in known:
        raise UnknownName(what, name, known)
    return [record for record in records if name in names_of(record)]
