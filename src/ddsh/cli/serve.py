"""The command that serves a search index over HTTP."""

import importlib.util
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddsh.cli.search import Folder
from ddsh.errors import DdshError

if TYPE_CHECKING:
    from ddsh.service import Started

Host = Annotated[str, typer.Option(help="Name or address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
AllowHost = Annotated[list[str] | None, typer.Option(help="A name that requests may be for; repeatable.")]
TokenFile = Annotated[Path | None, typer.Option(help="File with the token that allows changes; or set DDSH_TOKEN.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Allow no changes, even with a token.")]
MaxUpload = Annotated[int, typer.Option(min=1, max=1000, help="Size of the largest image file that is taken.")]
MaxMegapixels = Annotated[int, typer.Option(min=1, max=100, help="Size of the largest image that is decoded.")]
Timeout = Annotated[float, typer.Option(help="Seconds for a request to arrive, and for its answer.")]
Encodes = Annotated[int, typer.Option(min=1, max=256, help="How many uploads are coded at the same time.")]
Waiting = Annotated[int, typer.Option(min=0, max=10_000, help="How many more uploads may wait.")]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Log every request.")]

_NEEDED = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}


def serve(
    index: Folder,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: AllowHost = None,
    token_file: TokenFile = None,
    read_only: ReadOnly = False,
    max_upload_mb: MaxUpload = 20,
    max_megapixels: MaxMegapixels = 50,
    timeout: Timeout = 30,
    encodes: Encodes = 2,
    waiting: Waiting = 32,
    access_log: AccessLog = False,
) -> None:
    """Serve an index: a search page in the browser, and an API."""
    _check_extra()
    from ddsh.service import Settings, find_token
    from ddsh.service import serve as serve_index

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = Settings(
        token=None if read_only else find_token(os.environ, token_file),
        allow_hosts=tuple(allow_host or ()),
        max_upload_bytes=max_upload_mb * 10**6,
        max_pixels=max_megapixels * 10**6,
        timeout=timeout,
        encodes=encodes,
        waiting=waiting,
    )
    serve_index(index, host, port, settings, access_log=access_log, on_start=_announce)


def _check_extra() -> None:
    missing = [name for module, name in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise DdshError(f"The service needs {' and '.join(missing)}. Run: pip install 'ddsh[service]'")


def _announce(started: "Started") -> None:
    if not started.is_local:
        typer.echo(
            f"ddsh: warning: {started.url} may be reached from other machines; whoever reaches it sees the images.",
            err=True,
        )
    changes = "read-only" if started.read_only else "changes need the token"
    typer.echo(f"{started.url}: {started.n_images:,} images of {started.n_bits} bits, {changes}. Ctrl-C stops it.")
