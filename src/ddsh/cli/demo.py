"""Command that trains, scores, indexes and searches the sample."""

from pathlib import Path
from typing import Annotated

import typer

from ddsh.cli.options import Bits, Device, writable_folder

__all__ = ["demo"]

_MARK = "made-by-ddsh-demo"
_QUERY = "17"


def demo(
    out: Annotated[
        Path, typer.Option(callback=writable_folder, help="Folder for all files; an earlier demo is replaced.")
    ] = Path("demo"),
    bits: Bits = 32,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 40,
    device: Device = "auto",
) -> None:
    """Train DDSH on the sample; score, report, index and search it."""
    import shutil
    import sys

    from ddsh.backbones import Backbone
    from ddsh.cli.display import show_results
    from ddsh.cli.progress import Progress
    from ddsh.cli.search import create, search
    from ddsh.datasets import load
    from ddsh.errors import InvalidInput
    from ddsh.evaluation import evaluate
    from ddsh.methods import get_method
    from ddsh.model import Model
    from ddsh.report import read_folder, write_report

    if out.exists() and any(out.iterdir()) and not (out / _MARK).is_file():
        raise InvalidInput(f"{out} exists and is not an earlier demo; give another folder with --out.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()
    settings = {"n_bits": bits, "preset": "scratch", "training": {"epochs": epochs}}
    trained = Model(get_method("ddsh").from_description(settings), Backbone("small-grey", device=device))
    dataset = load("sample")
    results = []
    for model in (Model(get_method("lsh")(n_bits=bits)), trained):
        with Progress(f"Training {model.name}") as progress:
            result = evaluate(model, dataset, examples=True, on_step=progress.on_step)
        result = result.with_facts(experiment="demo", label=model.name)
        result.write(out / "results" / "demo" / f"{model.name}.json")
        results.append(result)
    facts = ("dataset", "protocol", "seed", "split", "seconds", "versions")
    about = {name: getattr(results[-1], name) for name in facts} | {"history": trained.history}
    trained.save(out / "model", about)
    write_report(read_folder(out / "results")[0], out / "report", formats=())
    create([str(out / "model"), "sample"], str(out / "index"), device=device)
    show_results(results)
    typer.echo(f"Images similar to image {_QUERY}:")
    search(str(out / "index"), [_QUERY], k=5)
    typer.echo(f"Report: {out / 'report' / 'index.html'}")
    typer.echo(f"To search in the browser, run: {sys.argv[0]} serve {out / 'index'}")
