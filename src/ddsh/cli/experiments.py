"""Commands that run experiments and list their results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddsh.cli.options import (
    BackboneName,
    CacheDir,
    Data,
    Epochs,
    ImageSize,
    NFrozen,
    ProtocolName,
    Root,
    Weights,
    writable_folder,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddsh.evaluation import Result
    from ddsh.experiment import MethodSpec, Spec

__all__ = ["compare", "reproduce", "results", "tune"]


def reproduce(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment, or a TOML file.")],
    results: Annotated[Path, typer.Option(callback=writable_folder, help="Folder for results.")] = Path("results"),
    root: Root = None,
    quick: Annotated[bool, typer.Option("--quick", help="Quick look: fewer images, epochs and seeds.")] = False,
    backbone: Annotated[str | None, typer.Option(help="Another backbone for all methods.")] = None,
    image_size: ImageSize = None,
    n_frozen: NFrozen = None,
    weights: Weights = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds.")] = None,
    bits: Annotated[list[int] | None, typer.Option(min=1, help="Code length; repeatable.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Label of a method; repeatable.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at a time, each in its own process.")] = 1,
    device: Annotated[str | None, typer.Option(help="Where networks run: auto, cpu, cuda or mps.")] = None,
    cache_dir: CacheDir = None,
    force: Annotated[bool, typer.Option("--force", help="Repeat runs whose results exist.")] = False,
) -> None:
    """Run an experiment, or what is missing of it.

    Every run writes one JSON file to the results folder.
    """
    from functools import partial

    import ddsh
    from ddsh.cli.progress import ExperimentProgress
    from ddsh.datasets import load
    from ddsh.errors import DdshError, InvalidInput
    from ddsh.experiment import commit_of, find_spec, read_spec, run

    spec = read_spec(find_spec(experiment))
    spec = spec.quicker() if quick else spec
    spec = spec.with_bits(bits) if bits else spec
    spec = spec.with_seeds(seeds) if seeds else spec
    spec = spec.only(only) if only else spec
    if backbone is not None:
        path = None if weights is None else str(weights)
        spec = spec.with_backbone(name=backbone, image_size=image_size, n_frozen=n_frozen, weights=path)
    elif image_size or n_frozen is not None or weights:
        raise InvalidInput("--image-size, --n-frozen and --weights change the backbone; also give --backbone.")
    progress = ExperimentProgress()
    try:
        with progress:
            outcome = run(
                spec,
                partial(load, spec.dataset, root=root),
                results,
                progress,
                force=force,
                n_jobs=jobs,
                cache_dir=cache_dir,
                device=device,
                commit=commit_of(Path(ddsh.__file__).parent),
            )
    except KeyboardInterrupt:
        typer.echo(f"ddsh: interrupted, {progress.summary}; run the same command to continue.", err=True)
        raise SystemExit(130) from None
    folder = spec.folder(results)
    if outcome.failed:
        n_runs = len(outcome.failed) + len(outcome.written) + outcome.n_done
        raise DdshError(f"{len(outcome.failed)} of {n_runs} runs failed; the results of the others are in {folder}.")
    if outcome.written:
        typer.echo(f"{len(outcome.written)} results written to {folder}")
    else:
        typer.echo(f"Nothing to do: all {outcome.n_done} results are in {folder}")
    if spec.figure:
        typer.echo(f"ddsh report {folder.parent} draws it: report/figures/{spec.name}-{spec.figure}.svg")


def tune(
    data: Data,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "ddsh",
    budget: Annotated[int, typer.Option(min=1, help="Trials of each method.")] = 8,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each trial.")] = 2,
    bits: Annotated[list[int] | None, typer.Option(min=1, help="Code length; repeatable. By default 32.")] = None,
    held_out: Annotated[int, typer.Option(min=2, max=90, help="Per cent of the training images to score with.")] = 30,
    folds: Annotated[int | None, typer.Option(min=2, max=99, help="Cross-validate in so many parts instead.")] = None,
    low: Annotated[float | None, typer.Option(help="Lowest learning rate of a fixed range.")] = None,
    high: Annotated[float | None, typer.Option(help="Highest learning rate of a fixed range.")] = None,
    paper_range: Annotated[bool, typer.Option("--paper-range", help="The paper's range, 1e-6 to 1e-2.")] = False,
    like: Annotated[str | None, typer.Option(help="An experiment that has the methods' rows and backbone.")] = None,
    backbone: BackboneName = None,
    image_size: ImageSize = None,
    n_frozen: NFrozen = None,
    weights: Weights = None,
    epochs: Epochs = None,
    protocol: ProtocolName = None,
    results: Annotated[Path, typer.Option(callback=writable_folder, help="Folder for results.")] = Path("results"),
    root: Root = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at a time, each in its own process.")] = 1,
    device: Annotated[str | None, typer.Option(help="Where networks run: auto, cpu, cuda or mps.")] = None,
    cache_dir: CacheDir = None,
) -> None:
    """Choose parameters on part of the training images.

    Every method has the same number of trials, the first with its own setting, and searches its learning rate, batch
    size and own weights from there. The query set is not used. Results and the chosen settings are written to
    results/tune-DATA; the same command continues.
    """
    from functools import partial

    import ddsh
    from ddsh.cli.progress import ExperimentProgress, Progress
    from ddsh.datasets import load
    from ddsh.evaluation import Result
    from ddsh.experiment import PAPER_RATES, Trial, commit_of, rate_grid, run, search, try_rates, write_settings

    rates = None
    if low is not None or high is not None or paper_range:
        rates = rate_grid(low or PAPER_RATES[0], high or PAPER_RATES[1], budget)
    open_dataset = partial(load, data, root=root)
    with Progress("Reading files", "files") as reading:
        dataset = load(data, root=root, on_progress=reading.on_count)
    spec = _trials_of(like, backbone, image_size, n_frozen, weights)
    rule = f"-folds-{folds}" if folds else f"-held-out-{held_out}"
    spec = spec.replace(
        name=f"tune-{dataset.name}",
        dataset=dataset.name,
        protocol=(protocol or dataset.protocol) + rule,
        bits=tuple(bits or [32]),
        seeds=tuple(range(folds or seeds)),
    )
    folder = spec.folder(results)
    trials: dict[str, list[Trial]] = {}
    with ExperimentProgress() as progress:

        def execute(row: "MethodSpec") -> "Sequence[Result] | None":
            """Run a trial; return its results, or None if a run failed."""
            one = spec.replace(methods=(row,))
            outcome = run(
                one,
                open_dataset,
                results,
                progress,
                n_jobs=jobs,
                cache_dir=cache_dir,
                device=device,
                commit=commit_of(Path(ddsh.__file__).parent),
            )
            return None if outcome.failed else [Result.read(folder / each.file_name) for each in one.runs()]

        for row in _rows_of(spec, methods, epochs):
            trials[row.label] = []
            found = try_rates(row, rates, execute) if rates else search(row, spec, dataset.labels, budget, execute)
            for trial in found:
                trials[row.label].append(trial)
                progress.print(f"{trial.row.label}: validation MAP {trial.map:.4f} (standard error {trial.error:.4f})")
            write_settings(folder / "settings.toml", spec, trials)
    typer.echo(f"The best settings are in {folder / 'settings.toml'}")


def _trials_of(
    like: str | None, backbone: str | None, image_size: int | None, n_frozen: int | None, weights: Path | None
) -> "Spec":
    """Return an experiment for trials: a copy of another, or an empty one with a backbone."""
    from ddsh.errors import InvalidInput
    from ddsh.experiment import BackboneSpec, Spec, find_spec, read_spec

    path = None if weights is None else str(weights)
    given = BackboneSpec(name=backbone, image_size=image_size, n_frozen=n_frozen, weights=path)
    if like is None:
        return Spec(
            name="tune",
            dataset="-",
            protocol="-",
            bits=(32,),
            seeds=(0,),
            methods=(),
            backbone=given if given.options() else None,
        )
    if given.options():
        raise InvalidInput("--like names an experiment with its backbone: leave out --backbone and its options.")
    return read_spec(find_spec(like)).replace(examples=(), reranked=())


def _rows_of(spec: "Spec", methods: str, epochs: int | None) -> "list[MethodSpec]":
    """Return the rows to tune: those of the experiment with these labels, or the methods of these names."""
    from ddsh.experiment import MethodSpec
    from ddsh.methods import get_method

    known = {row.label: row for row in spec.methods}
    rows = []
    for name in filter(None, (part.strip() for part in methods.split(","))):
        row = known.get(name) or MethodSpec(label=get_method(name).card.name, method=name)
        if epochs is not None:
            training: dict[str, Any] = dict(row.params.get("training") or {}) | {"epochs": epochs}
            row = row.model_copy(update={"params": row.params | {"training": training}})
        rows.append(row)
    return rows


def results(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    experiment: Annotated[str | None, typer.Option(help="Only results of this experiment.")] = None,
    method: Annotated[str | None, typer.Option(help="Only results of this method or label.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Only results of this code length; repeatable.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print every result in full, as JSON.")] = False,
) -> None:
    """List results: mean and standard deviation over seeds."""
    from json import loads

    from ddsh.cli.display import print_json, show_summaries
    from ddsh.cli.tables import summary_csv, summary_table
    from ddsh.errors import ArtefactError, InvalidInput, UnknownName
    from ddsh.evaluation.result import read_results, summarise

    if csv + latex + markdown + json > 1:
        raise InvalidInput("Choose one of --csv, --latex, --markdown and --json.")
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a folder; ddsh reproduce writes results.")
    chosen, problems = read_results(folder)
    for problem in problems:
        typer.echo(f"ddsh: {problem}", err=True)
    for kind, name in (("experiment", experiment), ("method or label", method)):
        if name is not None:
            names = [{one.experiment} if kind == "experiment" else {one.method, one.label} for one in chosen]
            if not any(name in each for each in names):
                raise UnknownName(kind, name, set().union(*names))
            chosen = [one for one, each in zip(chosen, names, strict=True) if name in each]
    chosen = [one for one in chosen if not bits or one.n_bits in bits]
    if json:
        print_json([{"file": str(one.path)} | loads(one.to_json()) for one in chosen])
    elif csv:
        typer.echo(summary_csv(summarise(chosen)))
    elif latex:
        typer.echo(summary_table(summarise(chosen)).to_latex())
    elif markdown:
        typer.echo(summary_table(summarise(chosen)).to_markdown())
    else:
        show_summaries(summarise(chosen))


def compare(
    first: Annotated[str, typer.Argument(help="Label of a method, or a result file.")],
    second: Annotated[str, typer.Argument(help="Label of the method to compare with, or a result file.")],
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("results"),
    experiment: Annotated[str | None, typer.Option(help="Compare within this experiment only.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare two methods with paired tests, per query and over seeds."""
    from dataclasses import asdict
    from itertools import chain

    from ddsh.cli.display import print_json, print_table
    from ddsh.errors import UnknownName
    from ddsh.evaluation.result import Result, read_results
    from ddsh.evaluation.significance import compare as compare_results
    from ddsh.report.text_table import TextTable

    known = [one for one in read_results(results)[0] if experiment in (None, one.experiment)]

    def find(name: str) -> dict[str, list[Result]]:
        """Return the results of a label by experiment, or the one of a file."""
        if name.endswith(".json"):
            one = Result.read(name)
            return {one.experiment: [one]}
        groups: dict[str, list[Result]] = {}
        for one in known:
            if one.label == name:
                groups.setdefault(one.experiment, []).append(one)
        if not groups:
            raise UnknownName("label", name, {one.label for one in known})
        return groups

    ours, theirs = find(first), find(second)
    pairs = {name: (ours[name], theirs[name]) for name in sorted(ours.keys() & theirs.keys())}
    if not pairs:
        pairs = {"": ([*chain(*ours.values())], [*chain(*theirs.values())])}
    found = [(name, one) for name, sides in pairs.items() for one in compare_results(*sides)]
    if json:
        print_json([{"experiment": name} | asdict(one) | {"significant": one.is_significant} for name, one in found])
        return

    def text(value: float | None, digits: int) -> str:
        """Return a number, or a dash for None."""
        return "-" if value is None else f"{value:.{digits}f}"

    header = ("bits", "seeds", "difference", "95% interval", "p, queries", "p, seeds", "p < .05")
    for name in pairs:
        rows = tuple(
            (
                str(one.n_bits),
                str(len(one.seeds)),
                f"{one.difference:+.4f}",
                "-" if one.interval is None else f"{one.interval[0]:+.4f} .. {one.interval[1]:+.4f}",
                text(one.query_p, 4),
                text(one.seed_p, 4),
                "yes" if one.is_significant else "no",
            )
            for place, one in found
            if place == name
        )
        typer.echo(f"{name or first}: MAP of {first} minus MAP of {second}")
        print_table(TextTable(header, rows, "rrrrrrl"))
