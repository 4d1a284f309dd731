import subprocess
import sys

import pytest

from ddsh.cli import models

HEAVY = {"numpy", "scipy", "sklearn", "torch", "PIL", "rich", "matplotlib", "joblib", "faiss", "fastapi"}


def _imports(*arguments):
    """The packages that a command imports."""
    code = (
        f"import sys; sys.argv = ['ddsh', *{list(map(str, arguments))!r}]; from ddsh.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(outcome.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["train", "--help"], ["index"], ["data", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments):
    assert not _imports(*arguments) & HEAVY


def test_results_are_listed_without_torch_and_scikit_learn(tmp_path):
    assert not _imports("results", tmp_path) & {"torch", "sklearn", "matplotlib"}


def test_codes_are_scored_without_torch(tmp_path):
    import numpy as np

    np.savez(tmp_path / "codes.npz", bits=np.eye(4, dtype=np.uint8), labels=[0, 0, 1, 1])
    assert "torch" not in _imports("score", tmp_path / "codes.npz", tmp_path / "codes.npz")


def test_a_model_without_a_network_is_searched_by_id_without_torch(model, photos, tmp_path, ddsh):
    assert ddsh("index", model, photos, "--out", tmp_path / "index").returncode == 0
    assert "torch" not in _imports("search", tmp_path / "index", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demoo"], ["Did you mean 'demo'"]),
        (["demo", "--bit"], ["--bit", "--bits"]),
        (["score", "one.npz"], ["Missing argument", "database"]),
        (["score", "no.npz", "no.npz"], ["no.npz does not exist"]),
        (["score", "a", "b", "--ties", "none"], ["none", "expected"]),
        (["data", "check", "smple"], ["Did you mean 'sample'"]),
        (["data", "check", "/no/such"], ["/no/such does not exist"]),
        (["data", "check", "sample", "--protocol", "smple"], ["Did you mean 'sample'"]),
        (["data", "check", "cifar10"], ["--root DIR", "DDSH_DATA"]),
        (["data", "fetch", "cifar"], ["--root"]),
        (["data", "fetch", "cifar", "--root", "x"], ["Did you mean 'cifar10'"]),
        (["data", "fetch", "nuswide", "--root", "x"], ["ImageList/"]),
    ],
)
def test_wrong_use_is_answered_in_one_line(ddsh, fails_in_one_line, arguments, words):
    fails_in_one_line(ddsh(*arguments), *words)


def test_help_and_version_are_printed(program):
    assert "ddsh 0." in program("--version").stdout
    for arguments in ([], ["--help"], ["data"], ["data", "check", "--help"], ["score", "--help"]):
        outcome = program(*arguments)
        assert outcome.returncode == 0
        assert "Usage: ddsh" in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "sample", "--method", "lsh", "--out", "{file}"], "is a file"),
        (["train", "sample", "--method", "lsh", "--out", "{file}/model"], "Not a directory"),
        (["train", "sample", "--method", "lsh", "--out", "new", "--cache-dir", "{file}"], "is a file"),
        (["encode", "model", "sample", "--out", "{folder}"], "is a folder"),
        (["encode", "model", "sample", "--out", "{file}/codes.npz"], "Not a directory"),
        (["encode", "model", "sample", "--out", "/dev/full"], "not a regular file"),
        (["index", "model", "sample", "--out", "{file}"], "is a file"),
        (["search", "index", "1", "--html", "{folder}"], "is a folder"),
        (["export", "model", "--onnx", "{file}/model.onnx"], "Not a directory"),
        (["reproduce", "sample-ddsh", "--results", "{file}"], "is a file"),
        (["report", "--out", "{file}"], "is a file"),
        (["demo", "--out", "{file}/demo"], "Not a directory"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_first(ddsh, tmp_path, fails_in_one_line, arguments, words):
    (tmp_path / "file").touch()
    places = {"file": tmp_path / "file", "folder": tmp_path}
    fails_in_one_line(ddsh(*(argument.format(**places) for argument in arguments)), words)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "codes.npz"), "ddsh: codes.npz: Permission denied.\n"),
        (OSError(28, "No space left on device"), "ddsh: No space left on device.\n"),
        (TimeoutError("timed out"), "ddsh: timed out.\n"),
    ],
)
def test_an_error_of_the_system_is_one_line(ddsh, model, tmp_path, monkeypatch, error, line):
    def fail(*_):
        raise error

    monkeypatch.setattr("ddsh.storage.write_npz", fail)
    outcome = ddsh("encode", model, tmp_path / "photos", "--out", tmp_path / "codes.npz")
    assert (outcome.returncode, outcome.stderr) == (2, line)


def test_a_bug_keeps_its_traceback(model, tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("ddsh.storage.write_npz", fail)
    with pytest.raises(ZeroDivisionError):
        models.encode(model, str(tmp_path / "photos"), tmp_path / "codes.npz")


def test_a_closed_pipe_ends_the_program_quietly(program):
    command = f"{sys.executable} -m ddsh methods --json | head -n 1"
    outcome = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (outcome.stdout, outcome.stderr) == ("[\n", "")
