"""What several test files share."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: two threads each would fight for the cores

from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("ddsh", deadline=None, derandomize=True, database=None)
settings.load_profile("ddsh")


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
