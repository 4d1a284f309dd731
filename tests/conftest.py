"""What several test files share."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: two threads each would fight for the cores

from pathlib import Path

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
