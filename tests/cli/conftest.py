import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddsh.cli import main

PROGRAM = Path(sys.executable).with_name("ddsh")


@dataclass(frozen=True)
class Outcome:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ddsh(capsys, monkeypatch):
    """Run the command line in this process, which starts faster than the program."""
    monkeypatch.delenv("DDSH_DATA", raising=False)
    monkeypatch.setenv("DDSH_LOG_SECONDS", "0")

    def run(*arguments):
        before, sys.argv = sys.argv, ["ddsh", *map(str, arguments)]
        try:
            with pytest.raises(SystemExit) as caught:
                main()
        finally:
            sys.argv = before
        return Outcome(caught.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def program():
    """Run the installed program in its own process."""

    def run(*arguments, cwd=None, **environment):
        plain = {name: value for name, value in os.environ.items() if name != "DDSH_DATA"}
        command = [PROGRAM, *map(str, arguments)]
        environment = plain | {"DDSH_LOG_SECONDS": "0"} | environment
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=300)

    return run


@pytest.fixture(scope="session")
def fails_in_one_line():
    """Check for exit code 2 and one line on standard error that contains these words."""

    def check(outcome, *words):
        assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1), outcome
        for word in words:
            assert word in outcome.stderr

    return check


@pytest.fixture
def photos(tmp_path, rng):
    """Small images in a folder per class."""
    for number in range(24):
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def table(tmp_path, photos):
    """The same images in a table with labels."""
    path = tmp_path / "photos.csv"
    rows = [f"{photo.relative_to(tmp_path)},{photo.parent.name}" for photo in sorted(photos.rglob("*.jpg"))]
    path.write_text("path,label\n" + "\n".join(rows))
    return path


@pytest.fixture
def model(tmp_path, table, ddsh):
    """The folder of a trained model."""
    outcome = ddsh("train", table, "--method", "lsh", "--bits", 8, "--out", tmp_path / "model")
    assert outcome.returncode == 0, outcome.stderr
    return tmp_path / "model"


@pytest.fixture(scope="session")
def full_disk(tmp_path_factory):
    """A folder on a tiny file system with almost no space left."""
    folder = tmp_path_factory.mktemp("full")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)
