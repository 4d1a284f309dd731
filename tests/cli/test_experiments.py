import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
def folder(tmp_path, monkeypatch):
    """The working folder, with an experiment."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_experiment_is_found_by_name_made_once_and_cut_down_by_options(ddsh, fails_in_one_line, folder):
    first = ddsh("reproduce", "tiny", "--quick", "--bits", 8, "--seeds", 1)
    assert first.returncode == 0, first.stderr
    assert "lsh, 8 bits, seed 0: MAP 0." in first.stdout
    assert "1 results written to results/quick/tiny" in first.stdout
    [path] = (folder / "results" / "quick" / "tiny").iterdir()
    before = path.read_bytes()
    second = ddsh("reproduce", "experiments/tiny.toml", "--quick", "--only", "lsh", "--data", folder)
    assert "1 of 4 results exist" in second.stdout, second.stderr
    assert "3 results written" in second.stdout
    third = ddsh("reproduce", "tiny", "--quick")
    assert third.stdout == "Nothing to do: all 4 results are in results/quick/tiny\n"
    assert path.read_bytes() == before
    content = json.loads(before)
    assert content.keys() >= {"method", "n_bits", "dataset", "protocol", "seed", "split", "params", "scores"}
    assert content.keys() >= {"seconds", "versions", "peak_memory", "machine", "bits"}
    refused = ddsh("reproduce", "tiny", "--quick", "--backbone", "small-grey")
    fails_in_one_line(refused, "holds lsh with other parameters (backbone: lsh-", "--force")


def test_what_cannot_be_run_is_answered_in_one_line(ddsh, fails_in_one_line, folder):
    fails_in_one_line(ddsh("reproduce", "tinny"), "Did you mean 'tiny'")
    fails_in_one_line(ddsh("reproduce", "tiny", "--only", "lhs"), "Did you mean 'lsh'")
    fails_in_one_line(ddsh("reproduce", "tiny", "--image-size", 28), "--backbone")
    fails_in_one_line(ddsh("reproduce", "tiny", "--results", "experiments/tiny.toml"), "is a file")
    (folder / "experiments" / "tiny.toml").write_text("dataset = 3\n")
    fails_in_one_line(ddsh("reproduce", "tiny"), "tiny.toml: ", "methods")


def test_a_run_that_fails_ends_with_a_line_that_says_so(ddsh, folder):
    deep = '[methods.ddsh]\nbackbone = "small-grey"\nn_omega = 5000\n'
    (folder / "experiments" / "tiny.toml").write_text(SPEC + deep)
    outcome = ddsh("reproduce", "tiny", "--quick", "--bits", 8, "--seeds", 1)
    assert outcome.returncode == 2
    reason, end = outcome.stderr.splitlines()
    assert reason.startswith("ddsh: ddsh, 8 bits, seed 0: n_omega is 5000")
    assert end == "ddsh: 1 of 2 runs failed; the results of the others are in results/quick/tiny."


@pytest.mark.parametrize(("jobs", "how"), [(1, signal.SIGINT), (2, signal.SIGINT), (1, signal.SIGTERM)])
def test_an_interrupted_experiment_says_how_to_continue_and_keeps_only_its_checkpoint(folder, jobs, how):
    deep = '[methods.deep]\nmethod = "ddsh"\nbackbone = "small-grey"\ntraining = { epochs = 100000 }\n'
    (folder / "experiments" / "tiny.toml").write_text(SPEC + deep)
    command = [PROGRAM, "reproduce", "tiny", "--quick", "--bits", "8", "--seeds", "2", "--only", "deep"]
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [*command, "--jobs", str(jobs)],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder / "tmp"), "DDSH_LOG_SECONDS": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoints = folder / "results" / "quick" / "tiny" / "deep-8bits-seed0.checkpoints"
    try:
        deadline = time.monotonic() + 240
        while not list(checkpoints.glob("*.safetensors")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert any((folder / "tmp").glob("ddsh-*"))
        process.send_signal(how)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err == "ddsh: interrupted, 0 of 2 results exist; run the same command to continue.\n"
    assert not any((folder / "tmp").glob("ddsh-*"))
    assert list(checkpoints.glob("*.safetensors"))


@pytest.fixture
def results(tmp_path, monkeypatch):
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
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def test_results_are_listed_as_mean_and_deviation_over_seeds(ddsh, results):
    outcome = ddsh("results")
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
def test_results_are_written_for_other_programs(ddsh, results, options, lines):
    outcome = ddsh("results", "results", "--experiment", "one", "--method", "a_b", *options)
    for line in lines:
        assert line in outcome.stdout.splitlines()
    assert "0.9000" not in outcome.stdout


def test_results_are_filtered_and_listed_as_csv_and_json(ddsh, results):
    table = list(csv.DictReader(io.StringIO(ddsh("results", "--csv", "--bits", 12).stdout)))
    assert [(line["experiment"], line["label"], line["n_seeds"]) for line in table] == [
        ("one", "a_b", "2"),
        ("one", "lsh", "1"),
    ]
    assert (float(table[0]["map_mean"]), table[1]["map_deviation"]) == (pytest.approx(0.6), "")
    found = json.loads(ddsh("results", "--json", "--experiment", "two").stdout)
    assert [(one["file"], one["scores"]["map"]) for one in found] == [("results/two/a_b-24bits-seed0.json", 0.9)]


def test_files_that_do_not_belong_are_one_line_each_and_never_a_crash(ddsh, results):
    folder = results / "one"
    (folder / "cut.json").write_text((folder / "lsh-12bits-seed0.json").read_text()[:50])
    (folder / "package.json").write_text('{"name": "something else"}')
    other = json.loads((folder / "lsh-12bits-seed0.json").read_text()) | {"split": "other", "n_bits": 8}
    (folder / "lsh-8bits-seed0.json").write_text(json.dumps(other))
    outcome = ddsh("results", "--csv")
    assert outcome.returncode == 0
    assert len(outcome.stdout.splitlines()) == 5
    cut, foreign, mixed = outcome.stderr.splitlines()
    assert "cut.json" in cut
    assert "package.json is damaged" in foreign
    assert "different splits" in mixed


def test_wrong_use_of_results_is_answered_in_one_line(ddsh, fails_in_one_line, results):
    fails_in_one_line(ddsh("results", "nowhere"), "nowhere is not a folder")
    fails_in_one_line(ddsh("results", "--experiment", "won"), "Unknown experiment 'won'")
    fails_in_one_line(ddsh("results", "--csv", "--json"), "Choose one")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_log_shows_runs_and_time_left(program, folder, jobs):
    outcome = program("reproduce", "tiny", "--quick", "--jobs", jobs, cwd=folder, DDSH_LOG_SECONDS="0.001")
    assert outcome.returncode == 0, outcome.stderr
    lines = outcome.stderr.splitlines()
    assert lines[0].startswith("ddsh: Runs: ")
    assert any("of 4 done" in line for line in lines)
    assert lines[-1].startswith("ddsh: Runs: finished in 0:0")


def test_the_device_of_an_experiment_is_chosen(ddsh, fails_in_one_line, folder):
    deep = '[methods.deep]\nmethod = "dpsh"\nbackbone = { name = "small-grey", device = "cuda" }\n'
    (folder / "experiments" / "tiny.toml").write_text(SPEC + deep)
    options = ("--quick", "--bits", 8, "--seeds", 1)
    outcome = ddsh("reproduce", "tiny", *options, "--device", "cpu")
    assert outcome.returncode == 0, outcome.stderr
    [path] = (folder / "results" / "quick" / "tiny").glob("deep-*.json")
    assert json.loads(path.read_text())["machine"]["device"] == "cpu"


def test_two_methods_are_compared_on_the_splits_that_both_have(ddsh, fails_in_one_line):
    results = Path(__file__).parents[2] / "results"
    done = ddsh("compare", "ddsh", "dpsh", "--results", results, "--experiment", "map-cifar10")
    assert done.returncode == 0, done.stderr
    assert "map-cifar10: MAP of ddsh minus MAP of dpsh" in done.stdout
    assert done.stdout.count("+0.0") == 4
    found = json.loads(ddsh("compare", "ddsh", "dpsh", "--results", results, "--json").stdout)
    assert {one["n_bits"] for one in found if one["experiment"] == "map-cifar10"} == {12, 24, 32, 48}
    assert all(one["seed_p"] is not None for one in found if one["experiment"] == "map-cifar10")
    files = [results / "map-cifar10" / f"{name}-12bits-seed0.json" for name in ("ddsh", "dpsh")]
    assert json.loads(ddsh("compare", *files, "--json").stdout)[0]["seeds"] == [0]
    fails_in_one_line(ddsh("compare", "ddsh", "dpshh", "--results", results), "Did you mean 'dpsh'")


def test_tune_tries_settings_writes_the_best_and_continues(ddsh, photos, tmp_path, fails_in_one_line):
    for copy in range(4):  # the held-out part needs some images of each class
        for path in photos.rglob("*.jpg"):
            target = tmp_path / "more" / path.parent.name / f"{copy}-{path.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    options = ("--methods", "dpsh", "--bits", 8, "--backbone", "small", "--epochs", 1, "--device", "cpu", "--seeds", 1)
    call = ("tune", tmp_path / "more", *options, "--budget", 2, "--results", tmp_path / "r")
    outcome = ddsh(*call)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.count("validation MAP") == 2
    [settings] = (tmp_path / "r").rglob("settings.toml")
    assert "Best of 2 trials" in settings.read_text()
    files = sorted(path.name for path in settings.parent.glob("*.json"))
    assert files == ["dpsh-8bits-seed0.json", "dpsh-learning_rate-0.9-8bits-seed0.json"]
    before = settings.read_text()
    again = ddsh(*call)
    assert again.returncode == 0, again.stderr
    assert settings.read_text() == before
    fails_in_one_line(ddsh(*call, "--held-out", 40), "own-held-out-30")
    rates = ddsh(*call, "--paper-range", "--folds", 2)
    assert rates.returncode == 0, rates.stderr
    assert "dpsh-learning_rate-1e-06: validation MAP" in rates.stdout
    fails_in_one_line(ddsh("tune", tmp_path / "more", "--methods", "lsh"), "lsh does not train a network")
    fails_in_one_line(ddsh("tune", photos, "--low", -1), "0 < low <= high")
    fails_in_one_line(ddsh("tune", photos, "--like", "map-svhn", "--backbone", "small"), "leave out --backbone")
