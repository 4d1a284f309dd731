"""Every example runs and says something."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path):
    outcome = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout
