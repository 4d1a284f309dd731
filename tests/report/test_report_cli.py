"""The command as a user meets it: the installed program, run in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("ddsh")


@pytest.fixture
def ddsh(tmp_path):
    def run(*arguments):
        command = [PROGRAM, "report", *map(str, arguments)]
        environment = os.environ | {"DDSH_LOG_SECONDS": "0"}  # a busy machine would log its progress
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)

    return run


def test_a_report_is_written_and_problems_go_to_standard_error(ddsh, put, tmp_path, bare_content):
    put(bare_content("ddsh", 12, 0, seconds=3.0))
    put(bare_content("ddsh", 12, 1))
    put(bare_content("lsh"))
    put("{", "broken.json")
    outcome = ddsh("--out", "here", "--format", "svg")
    assert outcome.returncode == 0
    assert outcome.stdout == "here/index.html: 3 results, 1 files of figures\n"
    lines = outcome.stderr.splitlines()
    assert len(lines) == 2
    assert "broken.json is damaged" in lines[0]
    assert lines[1] == "ddsh: map-cifar10: lsh at 12 bits: seed 1 missing."
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"index.html", "figures", ".figures.json"}
    assert [path.name for path in (tmp_path / "here" / "figures").iterdir()] == ["map-cifar10-cost.svg"]


def test_the_page_alone_is_written_on_request(ddsh, put, tmp_path, bare_content):
    put(bare_content("ddsh", seconds=3.0))
    outcome = ddsh("results", "--page-only")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["index.html"]


def test_the_experiment_asked_for_is_shown_alone(ddsh, put, bare_content, tmp_path):
    put(bare_content("ddsh", experiment="first"), "first.json")
    put(bare_content("ddsh"))
    outcome = ddsh("results", "--experiment", "map-cifar10", "--only", "--page-only")
    assert outcome.stdout == "report/index.html: 1 results, 0 files of figures\n"
    assert "<h2>first</h2>" not in (tmp_path / "report" / "index.html").read_text()


def test_a_markdown_table_is_printed_and_no_file_written(ddsh, put, tmp_path, bare_content):
    put(bare_content("ddsh", score=0.8))
    outcome = ddsh("--markdown", "map-cifar10")
    assert outcome.stdout == "| method | 12 bits |\n| --- | --- |\n| DDSH | **0.800** (0.769) |\n"
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["empty"], "empty holds no results"),
        (["nowhere"], "nowhere is not a folder"),
        (["results", "--format", "gif"], "Unknown format 'gif'"),
        (["results", "--only"], "--only needs --experiment"),
        (["results", "--experiment", "map-cifar"], "Did you mean 'map-cifar10'?"),
        (["results", "--markdown", "map-cifar"], "Did you mean 'map-cifar10'?"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(ddsh, put, tmp_path, arguments, words, bare_content):
    put(bare_content("ddsh"))
    (tmp_path / "empty").mkdir()
    outcome = ddsh(*arguments)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert outcome.stderr.count("\n") == 1
    assert words in outcome.stderr


def test_without_matplotlib_a_table_is_printed_and_a_report_says_what_to_install(put, tmp_path, bare_content):
    put(bare_content("ddsh", seconds=1.0))
    code = "import sys; sys.modules['matplotlib'] = None; from ddsh.cli import main; main()"

    def run(*arguments):
        command = [sys.executable, "-c", code, "report", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    assert "**0.500**" in run("--markdown", "map-cifar10").stdout
    outcome = run()
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert outcome.stderr == "ddsh: A report needs matplotlib. Run: pip install 'ddsh[report]'\n"
