"""Command line: every command calls the public API and prints the result.

Modules of this package import only Typer; a command imports what it needs when it is called.
"""

import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

import ddsh
from ddsh.cli import data, demo, evaluation, experiments, models, report, search, serve, stores
from ddsh.cli.display import show_help_if_alone
from ddsh.cli.options import RayCommand, StoreCommand
from ddsh.errors import DdshError
from ddsh.memory import reuse_freed_memory

__all__ = ["app", "main"]

INTERRUPTED = 130

app = typer.Typer(name="ddsh", pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
app.add_typer(data.app, name="data")
app.command()(models.train)
app.command()(experiments.tune)
app.command(cls=RayCommand)(models.encode)
app.command()(evaluation.evaluate)
app.command()(models.methods)
app.command()(evaluation.score)
app.command()(experiments.reproduce)
app.command()(experiments.results)
app.command()(experiments.compare)
app.command()(report.report)
app.add_typer(search.app, name="index")
app.command(cls=StoreCommand)(search.search)
app.command(cls=StoreCommand)(search.duplicates)
app.command(cls=StoreCommand)(serve.serve)
app.add_typer(stores.app, name="store")
app.command()(models.export)
app.command()(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ddsh {ddsh.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _ddsh(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Learn short binary codes for images, and search with them."""
    show_help_if_alone(context)


def main() -> NoReturn:
    """Run the command line; an error of the input or the system is one line and exit code 2."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: temporary files are removed
    reuse_freed_memory()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look for them in every installed package
    message, code = "", 0
    try:
        returned = app(standalone_mode=False)
        code = returned if isinstance(returned, int) else 0
    except DdshError as error:
        message, code = str(error), 2
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        text = error.format_message()
        end = "" if text.endswith((".", "?", "!")) else "."
        message, code = f"{text}{end} Try '{context.command_path if context else 'ddsh'} --help'.", 2
    except OSError as error:  # a full disk, a missing permission
        reason = error.strerror or str(error)
        message, code = f"{error.filename}: {reason}." if error.filename else f"{reason}.", 2
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        message = "stopped."
    if message:
        typer.echo(f"ddsh: {' '.join(message.split())}", err=True)
    sys.exit(code)
