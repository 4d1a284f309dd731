import subprocess
from pathlib import Path

import pytest

from ddsh.experiment import commit_of, this_machine

NOBODY = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]


@pytest.fixture
def package(tmp_path):
    """A package that git keeps."""
    folder = tmp_path / "src" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    for arguments in (["init", "-q"], ["add", "."], [*NOBODY, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", tmp_path, *arguments], check=True)
    return folder


def test_a_commit_is_told_and_changes_of_the_code_make_it_dirty(package, tmp_path):
    commit = commit_of(package)
    assert len(commit) == 40
    (tmp_path / "results.json").write_text("{}")
    assert commit_of(package) == commit
    (package / "new.py").write_text("")
    assert commit_of(package) == f"{commit}-dirty"


def test_code_that_git_does_not_keep_has_no_commit(package, tmp_path):
    installed = package.parents[1] / "site-packages" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert commit_of(installed) is None
    assert commit_of(Path("/")) is None
    assert commit_of(tmp_path / "missing") is None


def test_a_machine_is_described():
    machine = this_machine("cpu")
    assert machine.device == "cpu"
    assert machine.cores >= 1
    assert machine.memory > 1_000_000
    assert machine.cpu
    assert machine.system.count("-") >= 2
