"""Experiments as a user meets them: the installed program, run in its own process."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from one_line import fails_in_one_line

PROGRAM = Path(sys.executable).with_name("ddsh")
SPEC = """
dataset = "sample"
protocol = "sample"
bits = [8, 12]
seeds = [0, 1]
[quick]
n_query = 20
n_train = 150
n_database = 200
[methods.lsh]
"""


@pytest.fixture
def desk(tmp_path):
    """A folder with an experiment."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.toml").write_text(SPEC)
    return tmp_path


def _ddsh(desk, *arguments):
    plain = {name: value for name, value in os.environ.items() if name != "DDSH_DATA"}
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=plain, cwd=desk, timeout=300)


def test_an_experiment_is_found_by_name_made_once_and_cut_down_by_options(desk):
    first = _ddsh(desk, "reproduce", "tiny", "--quick", "--bits", 8, "--seeds", 1)
    assert first.returncode == 0, first.stderr
    assert "lsh, 8 bits, seed 0: MAP 0." in first.stdout
    assert "1 results written to results/quick/tiny" in first.stdout
    [path] = (desk / "results" / "quick" / "tiny").iterdir()
    before = path.read_bytes()
    second = _ddsh(desk, "reproduce", "experiments/tiny.toml", "--quick", "--only", "lsh", "--data", desk)
    assert "1 of 4 results are there" in second.stdout, second.stderr
    assert "3 results written" in second.stdout
    third = _ddsh(desk, "reproduce", "tiny", "--quick")
    assert third.stdout == "Nothing to do: all 4 results are in results/quick/tiny\n"
    assert path.read_bytes() == before
    content = json.loads(before)
    assert content.keys() >= {
        "weights",
        "image_size",
        "peak_memory",
        "commit",
        "machine",
        "bits",
        "outputs",
        "examples",
    }
    refused = _ddsh(desk, "reproduce", "tiny", "--quick", "--network", "small-grey")
    fails_in_one_line(refused, "holds lsh with other parameters (image_size, network: lsh-", "--force")


def test_what_cannot_be_run_is_answered_in_one_line(desk):
    fails_in_one_line(_ddsh(desk, "reproduce", "tinny"), "Did you mean 'tiny'")
    fails_in_one_line(_ddsh(desk, "reproduce", "tiny", "--only", "lhs"), "Did you mean 'lsh'")
    fails_in_one_line(_ddsh(desk, "reproduce", "tiny", "--image-size", 28), "--network")


def test_a_run_that_fails_ends_with_a_line_that_says_so(desk):
    deep = '[methods.ddsh]\nnetwork = "small-grey"\nn_omega = 5000\n'
    (desk / "experiments" / "tiny.toml").write_text(SPEC + deep)
    outcome = _ddsh(desk, "reproduce", "tiny", "--quick", "--bits", 8, "--seeds", 1)
    assert outcome.returncode == 2
    reason, end = outcome.stderr.splitlines()
    assert reason.startswith("ddsh: ddsh, 8 bits, seed 0: n_omega is 5000")
    assert end == "ddsh: 1 of 2 runs failed; the others are in results/quick/tiny."


@pytest.mark.parametrize(("jobs", "how"), [(1, signal.SIGINT), (2, signal.SIGINT), (1, signal.SIGTERM)])
def test_a_stopped_experiment_says_how_to_go_on_and_keeps_its_checkpoint_alone(desk, jobs, how):
    deep = '[methods.deep]\nmethod = "ddsh"\nnetwork = "small-grey"\ntraining = { epochs = 100000 }\n'
    (desk / "experiments" / "tiny.toml").write_text(SPEC + deep)
    command = [PROGRAM, "reproduce", "tiny", "--quick", "--bits", "8", "--seeds", "2", "--only", "deep"]
    (desk / "tmp").mkdir()
    process = subprocess.Popen(
        [*command, "--jobs", str(jobs)],
        cwd=desk,
        env=os.environ | {"TMPDIR": str(desk / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoints = desk / "results" / "quick" / "tiny" / "deep-8bits-seed0.checkpoints"
    try:
        deadline = time.monotonic() + 240
        while not list(checkpoints.glob("*.safetensors")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert any((desk / "tmp").glob("ddsh-*"))
        process.send_signal(how)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err == "ddsh: stopped, 0 of 2 results are there; the same command goes on from there.\n"
    assert not any((desk / "tmp").glob("ddsh-*"))
    assert list(checkpoints.glob("*.safetensors"))


@pytest.fixture
def shelf(tmp_path):
    """A folder of results of two experiments, with some files that do not belong."""
    for experiment, label, n_bits, seed, found in [
        ("one", "a_b", 12, 0, 0.5),
        ("one", "a_b", 12, 1, 0.7),
        ("one", "lsh", 12, 0, 0.2),
        ("two", "a_b", 24, 0, 0.9),
    ]:
        folder = tmp_path / "results" / experiment
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "experiment": experiment, "label": label, "method": "lsh", "n_bits": n_bits, "dataset": "sample",
            "protocol": "sample", "network": "pixels", "seed": seed, "split": f"{seed}", "params": {},
            "scores": {"map": found, "map_low": found, "map_high": found}, "seconds": 1.0,
        }  # fmt: skip
        (folder / f"{label}-{n_bits}bits-seed{seed}.json").write_text(json.dumps(content))
    return tmp_path


def test_results_are_listed_as_mean_and_deviation_over_seeds(shelf):
    outcome = _ddsh(shelf, "results")
    assert outcome.returncode == 0, outcome.stderr
    assert "0.6000 ± 0.1414" in outcome.stdout
    assert "two (sample, protocol sample)" in outcome.stdout


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (["--markdown"], ["| one | a_b | pixels | 12 | 2 | 0.6000 ± 0.1414 |  |  | 1.0 ± 0.0 |"]),
        (["--latex"], [r"one & a\_b & pixels & 12 & 2 & 0.6000 $\pm$ 0.1414 &  &  & 1.0 $\pm$ 0.0 \\", r"\bottomrule"]),
    ],
)
def test_results_are_written_for_other_programs(shelf, options, lines):
    outcome = _ddsh(shelf, "results", "results", "--experiment", "one", "--method", "a_b", *options)
    for line in lines:
        assert line in outcome.stdout.splitlines()
    assert "0.9000" not in outcome.stdout


def test_results_are_filtered_and_listed_as_csv_and_json(shelf):
    table = list(csv.DictReader(io.StringIO(_ddsh(shelf, "results", "--csv", "--bits", 12).stdout)))
    assert [(line["experiment"], line["label"], line["n_seeds"]) for line in table] == [
        ("one", "a_b", "2"),
        ("one", "lsh", "1"),
    ]
    assert (float(table[0]["map_mean"]), table[1]["map_deviation"]) == (pytest.approx(0.6), "")
    found = json.loads(_ddsh(shelf, "results", "--json", "--experiment", "two").stdout)
    assert [(one["file"], one["scores"]["map"]) for one in found] == [("results/two/a_b-24bits-seed0.json", 0.9)]


def test_files_that_do_not_belong_are_one_line_each_and_never_a_crash(shelf):
    folder = shelf / "results" / "one"
    (folder / "cut.json").write_text((folder / "lsh-12bits-seed0.json").read_text()[:50])
    (folder / "package.json").write_text('{"name": "something else"}')
    other = json.loads((folder / "lsh-12bits-seed0.json").read_text()) | {"split": "other", "n_bits": 8}
    (folder / "lsh-8bits-seed0.json").write_text(json.dumps(other))
    outcome = _ddsh(shelf, "results", "--csv")
    assert outcome.returncode == 0
    assert len(outcome.stdout.splitlines()) == 5
    cut, foreign, mixed = outcome.stderr.splitlines()
    assert "cut.json" in cut
    assert "package.json is no result" in foreign
    assert "different splits" in mixed


def test_wrong_use_of_results_is_answered_in_one_line(shelf):
    fails_in_one_line(_ddsh(shelf, "results", "nowhere"), "nowhere is not a folder")
    fails_in_one_line(_ddsh(shelf, "results", "--experiment", "won"), "Unknown experiment 'won'")
    fails_in_one_line(_ddsh(shelf, "results", "--csv", "--json"), "Choose one")
