"""Command that serves a search index over HTTP."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddsh.cli.options import IndexAddress

if TYPE_CHECKING:
    from ddsh.service import ServerInfo

__all__ = ["serve"]

Host = Annotated[str, typer.Option(help="Name or address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free port.")]
AllowHost = Annotated[list[str] | None, typer.Option(help="Accept requests for this host name; repeatable.")]
TokenFile = Annotated[Path | None, typer.Option(help="File with the token that allows changes (or set DDSH_TOKEN).")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse all changes, even with a token.")]
MaxUpload = Annotated[int, typer.Option(min=1, max=1000, help="Maximum size of an uploaded file, in megabytes.")]
MaxMegapixels = Annotated[int, typer.Option(min=1, max=100, help="Maximum size of an uploaded image, in megapixels.")]
MaxDecode = Annotated[float, typer.Option(help="Maximum CPU time to decode an image, in seconds.")]
Timeout = Annotated[float, typer.Option(help="Seconds to receive a request, and seconds to process it.")]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Threads that encode uploaded images.")]
MaxWaiting = Annotated[int, typer.Option(min=0, max=10_000, help="Uploads that may wait for a thread.")]
MaxConnections = Annotated[int, typer.Option(min=1, help="Maximum number of open connections of a process.")]
MaxPerClient = Annotated[int, typer.Option(min=1, help="The same from one address.")]
Processes = Annotated[int, typer.Option(min=1, max=256, help="Processes that answer requests; each loads the index.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write log lines as JSON.")]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Log every request.")]

_PACKAGES = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
    "cachetools": "cachetools",
    "orjson": "orjson",
}


def serve(
    index: IndexAddress,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: AllowHost = None,
    token_file: TokenFile = None,
    read_only: ReadOnly = False,
    max_upload_mb: MaxUpload = 20,
    max_megapixels: MaxMegapixels = 50,
    max_decode_seconds: MaxDecode = 5,
    timeout: Timeout = 30,
    workers: Workers = 2,
    max_waiting: MaxWaiting = 32,
    max_connections: MaxConnections = 512,
    max_connections_per_client: MaxPerClient = 128,
    processes: Processes = 1,
    access_log: AccessLog = False,
    log_json: LogJson = False,
) -> None:
    """Serve a search index over HTTP: a search page and an API."""
    import os
    from functools import partial
    from importlib.util import find_spec

    from ddsh.errors import MissingExtra

    missing = [package for module, package in _PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise MissingExtra("ddsh serve", " and ".join(missing), "service")

    from ddsh.service import Settings, find_token
    from ddsh.service import serve as serve_index
    from ddsh.service.log_format import configure_logging

    def announce(server: "ServerInfo") -> None:
        """Print the URL, and a warning if other machines can reach it."""
        if not server.is_local:
            typer.echo(
                f"ddsh: warning: other machines can reach {server.url} and see all indexed images.",
                err=True,
            )
        access = "read-only" if server.read_only else "changes need the token"
        n_images = "1 image" if server.n_images == 1 else f"{server.n_images:,} images"
        typer.echo(f"Serving {n_images} ({server.n_bits} bits, {access}) at {server.url}. Press Ctrl-C to stop.")

    configure = partial(configure_logging, as_json=log_json)
    configure()
    settings = Settings(
        token=None if read_only else find_token(os.environ, token_file),
        allowed_hosts=tuple(allow_host or ()),
        max_upload_bytes=max_upload_mb * 10**6,
        max_pixels=max_megapixels * 10**6,
        max_decode_seconds=max_decode_seconds,
        timeout=timeout,
        workers=workers,
        max_waiting=max_waiting,
        max_connections=max_connections,
        max_connections_per_client=max_connections_per_client,
    )
    serve_index(
        index,
        host,
        port,
        settings,
        processes=processes,
        access_log=access_log,
        on_start=announce,
        configure_process=configure,
    )
