"""The command line: each command calls the public API and shows what it returns."""

import signal
import sys
from typing import Annotated, NoReturn

import typer

import ddsh
from ddsh.cli import data, demo, experiments, models, report, scoring, search, serve
from ddsh.cli.show import help_when_alone
from ddsh.errors import DdshError

_STOPPED = 130

app = typer.Typer(name="ddsh", pretty_exceptions_enable=False, add_completion=False)
app.add_typer(data.app, name="data")
app.command("train")(models.train)
app.command("tune")(models.tune)
app.command("encode")(models.encode)
app.command("evaluate")(models.evaluate)
app.command("methods")(models.methods)
app.command("score")(scoring.score)
app.command("reproduce")(experiments.reproduce)
app.command("results")(experiments.results)
app.command("report")(report.report)
app.add_typer(search.app, name="index")
app.command("search")(search.search)
app.command("duplicates")(search.duplicates)
app.command("serve")(serve.serve)
app.command("export")(search.export)
app.command("demo")(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ddsh {ddsh.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _ddsh(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop."),
    ] = False,
) -> None:
    """Learn very short binary codes for images from labels, and search with them."""
    help_when_alone(context)


def main() -> NoReturn:
    """Run the command line; an error that is the input's fault is one line and exit code 2."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is half-made is removed
    try:
        code = app(standalone_mode=False)
    except DdshError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail(f"{error.format_message()} Try 'ddsh --help'.")
    except (KeyboardInterrupt, typer.Abort):
        code = _STOPPED
    if code == _STOPPED:
        _fail("stopped.", _STOPPED)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int = 2) -> NoReturn:
    typer.echo(f"ddsh: {' '.join(message.split())}", err=True)
    sys.exit(code)
