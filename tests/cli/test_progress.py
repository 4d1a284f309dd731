import os
import pty
import subprocess
import sys
import time

import pytest

from ddsh.cli.progress import ExperimentProgress, Progress, format_time
from ddsh.errors import InvalidInput
from ddsh.experiment import Plan, Run
from ddsh.methods import TrainingStep

STEP = TrainingStep(
    done=5, total=20, epoch=1, epochs=4, loss=0.25, objective=None, bits_per_second=1000.0, seconds_left=90.0
)
RUNS = tuple(Run("lsh", "lsh", {}, None, 8, seed) for seed in range(4))


def test_a_log_gets_lines_while_the_work_goes_on_and_one_at_the_end(capsys):
    with Progress("Encoding", "images", seconds=0.05) as progress:
        progress.on_count(10, 40)
        time.sleep(0.3)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert 2 <= len(lines) <= 8
    assert lines[0].startswith("ddsh: Encoding: 10 of 40, ")
    assert "images/s" in lines[0]
    assert lines[0].endswith("left")
    assert lines[-1] == "ddsh: Encoding: finished in 0:00:00"


def test_work_that_reports_nothing_is_shown_as_running(capsys):
    with Progress("Training", seconds=0.05):
        time.sleep(0.2)
    assert capsys.readouterr().err.startswith("ddsh: Training: running for 0:00:00\n")


def test_steps_of_a_training_show_epoch_loss_and_time_left(capsys):
    with Progress("Training", seconds=0.05) as progress:
        progress.on_step(STEP)
        time.sleep(0.2)
    line = capsys.readouterr().err.splitlines()[0]
    assert line == "ddsh: Training: epoch 1 of 4, loss 0.2500, 1,000 bits/s, 0:01:30 left"


def test_short_work_writes_nothing(capsys):
    with Progress("Reading files") as progress:
        progress.on_count(1, 1)
    assert capsys.readouterr() == ("", "")


def test_quiet_progress_writes_nothing(capsys):
    with Progress("Training", seconds=0.05, quiet=True) as progress:
        progress.on_step(STEP)
        time.sleep(0.12)
    assert capsys.readouterr() == ("", "")


def test_failed_work_is_not_called_finished(capsys):
    def fail():
        time.sleep(0.12)
        raise RuntimeError

    with pytest.raises(RuntimeError), Progress("Training", seconds=0.05):
        fail()
    assert "finished" not in capsys.readouterr().err


def test_the_interval_comes_from_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("DDSH_LOG_SECONDS", "0")
    with Progress("Training") as progress:
        time.sleep(0.1)
    assert progress.seconds == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("DDSH_LOG_SECONDS", "often")
    with pytest.raises(InvalidInput, match="DDSH_LOG_SECONDS"):
        Progress("Training")


def test_downloads_show_the_file_and_its_size(capsys):
    with Progress("Downloading", seconds=0.05) as progress:
        progress.on_download("cifar.tar.gz", 5_000_000, 170_000_000)
        time.sleep(0.12)
        progress.on_download("other.gz", 1_000_000, None)
        time.sleep(0.12)
    err = capsys.readouterr().err
    assert "ddsh: Downloading: cifar.tar.gz: 5.0 of 170.0 MB\n" in err
    assert "ddsh: Downloading: other.gz: 1.0 MB\n" in err


def test_an_experiment_shows_runs_current_run_and_time_left(capsys):
    with ExperimentProgress(seconds=0.05) as progress:
        progress.on_plan(Plan(RUNS[1:], 1))
        progress.on_begin(RUNS[1])
        progress.on_step(STEP)
        time.sleep(0.2)
        progress.on_fail(RUNS[1], "it\ndiverged")
    out, err = capsys.readouterr()
    assert out == "1 of 4 results exist\n"
    assert err.startswith("ddsh: Runs: 0 of 3 done, 0:01:30 left; "), "the time that the training itself has left"
    assert "left; lsh, 8 bits, seed 1, epoch 1 of 4, loss 0.2500" in err
    assert "ddsh: lsh, 8 bits, seed 1: it diverged\n" in err


def test_a_terminal_gets_a_bar_and_no_log_lines():
    code = (
        "import time; from ddsh.cli.progress import Progress\n"
        "with Progress('Encoding [red]', 'images', seconds=0.05) as progress:\n"
        "    progress.on_count(10, 40); time.sleep(0.3); progress.print('a line')\n"
    )
    main, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=terminal, env=environment)
    os.close(terminal)
    shown = os.read(main, 100_000).decode()
    os.close(main)
    assert (done.returncode, done.stdout) == (0, b"a line\n")
    assert "Encoding [red]" in shown
    assert "10 of 40" in shown
    assert "ddsh:" not in shown


def test_a_notebook_gets_a_bar(monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_jupyter", True, raising=False)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    started = []
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: started.append(bar.disable))
    monkeypatch.setattr("rich.progress.Progress.stop", lambda bar: None)
    with Progress("Training", seconds=0.05) as progress:
        progress.on_step(STEP)
    assert started == [False]


def test_times_are_hours_minutes_and_seconds():
    assert format_time(3725.4) == "1:02:05"
