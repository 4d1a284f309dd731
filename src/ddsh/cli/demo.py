"""The command that shows everything once: from the bundled sample to a page that finds similar images."""

import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ddsh.cli import search as searching
from ddsh.cli import show
from ddsh.datasets import get_protocol, load
from ddsh.errors import InvalidInput
from ddsh.evaluation import Result, evaluate
from ddsh.methods import get_method, save_model

if TYPE_CHECKING:
    from ddsh.methods.base import Hasher

_MARK = "made-by-ddsh-demo"
_QUERY = "17"
_ABOUT = ("dataset", "protocol", "seed", "split", "seconds", "history", "versions")
"""What a saved model tells of its training."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all of it; an earlier demo there is replaced.")] = Path("demo"),
    bits: Annotated[int, typer.Option(help="Code length.")] = 32,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the 5,000 training images.")] = 40,
) -> None:
    """Train DDSH on the sample that comes with ddsh; score, report, index and search it."""
    _make_room(out)
    random, learned = get_method("lsh")(n_bits=bits), _ddsh(bits, epochs)
    results = [_scored(random), _scored(learned)]
    save_model(learned, out / "model", {name: getattr(results[1], name) for name in _ABOUT})
    _report(results, out)
    searching.create(out / "model", "sample", out / "index")
    show.results(results)
    typer.echo(f"What image {_QUERY} of the index finds:")
    searching.search(out / "index", [_QUERY], k=5)
    typer.echo(f"The report of this run: {out / 'report' / 'index.html'}")
    typer.echo(f"The page that finds similar images: {sys.argv[0]} serve {out / 'index'}")


def _make_room(out: Path) -> None:
    if out.exists() and not (out / _MARK).is_file():
        raise InvalidInput(f"{out} is there and no earlier demo; name another folder with --out.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _MARK).touch()


def _ddsh(bits: int, epochs: int) -> "Hasher":
    setting = {"n_bits": bits, "preset": "scratch", "network": "small-grey", "training": {"epochs": epochs}}
    return get_method("ddsh").from_description(setting)


def _scored(hasher: "Hasher") -> Result:
    """Train a method on the sample and score it, with a progress bar where it takes a while."""
    dataset = load("sample")
    judge = partial(evaluate, hasher, dataset, get_protocol(dataset.protocol), seed=0, examples=True)
    if hasher.inputs == "features":
        return judge()
    with show.training() as on_step:
        return judge(fit=partial(cast("Callable[..., Any]", hasher.fit), on_step=on_step))


def _report(results: Sequence[Result], out: Path) -> None:
    from ddsh.experiment import write_result
    from ddsh.report import read_folder, write_report

    for result in results:
        write_result(result, out / "results" / "demo" / f"{result.method}.json", "demo", result.method)
    write_report(read_folder(out / "results")[0], out / "report", formats=())
