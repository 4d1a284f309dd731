"""Commands that run experiments and list their results."""

from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli.options import CacheDir, ImageSize, NFrozen, Root, Weights, writable_folder

__all__ = ["reproduce", "results"]


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
