"""The wheel and the source archive work in fresh virtual environments with the core dependencies alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from PIL import Image

import ddsh
from ddsh.cli import app

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = [Requirement(one).name for one in PROJECT["dependencies"]]
BUILD_TOOLS = ["hatchling"]
RUN_COMMANDS = """
import contextlib, io, json, sys
from ddsh.cli import main

outcomes = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["ddsh", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            outcomes.append([end.code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(outcomes))
"""


def closure(names):
    """The distributions that some need, extras left out."""
    found, todo = {}, list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = distribution(name)
            needed = map(Requirement, found[name].requires or [])
            todo += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found.values()


class Environment:
    """A virtual environment that sees only the packages it is given, as links to those installed here."""

    def __init__(self, folder, packages):
        venv.create(folder, symlinks=True, with_pip=False)
        self.folder, self.bin = folder, folder / "bin"
        site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        for package in closure(packages):
            for top in {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}:
                target = Path(package.locate_file(top))
                if not (site / top).exists():
                    (site / top).symlink_to(target)

    def install(self, archive):
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet"]
        options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
        run([*pip, *options, str(archive)], self.folder)

    def ddsh(self, commands, cwd):
        """Run commands of ddsh in one process, which saves importing NumPy for each; return code, stdout, stderr."""
        words = json.dumps([list(map(str, command)) for command in commands])
        return json.loads(run([str(self.bin / "python"), "-P", "-c", RUN_COMMANDS, words], cwd).splitlines()[-1])

    def python(self, code, cwd):
        return run([str(self.bin / "python"), "-P", "-W", "error", "-c", code], cwd)


def clean_environment():
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DDSH_DATA")}


def run(command, cwd):
    outcome = subprocess.run(command, cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The wheel, built from the source archive, and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def core(archives, tmp_path_factory):
    """An environment with the wheel and the core dependencies; PyTorch and the like are absent."""
    environment = Environment(tmp_path_factory.mktemp("core") / "venv", CORE)
    environment.install(archives[0])
    return environment


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with codes to score, tiny photos and a result."""
    folder = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(0)
    for name, n in (("query", 5), ("database", 40)):
        np.savez(folder / f"{name}.npz", signs=rng.choice([-1, 1], (n, 16)), labels=np.arange(n) % 4)
    for label in ("cat", "dog"):
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(13):
            pixels = rng.integers(0, 255, (20, 20, 3), np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / label / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory, work):
    """A model with a network, trained where PyTorch is installed."""
    folder = tmp_path_factory.mktemp("deep") / "model"
    options = ["--method", "dsh", "--backbone", "small", "--bits", "4", "--epochs", "1"]
    app(["train", str(work / "photos"), *options, "--out", str(folder)], standalone_mode=False)
    return folder


def test_the_wheel_holds_the_experiments_the_sample_and_the_types(archives):
    names = set(zipfile.ZipFile(archives[0]).namelist())
    assert {f"ddsh/experiments/{path.name}" for path in (ROOT / "experiments").glob("*.toml")} <= names
    assert {"ddsh/py.typed", "ddsh/datasets/sample/NOTICE"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "experiments", "results"))]


def test_the_source_archive_holds_what_builds_and_tests_it(archives):
    with tarfile.open(archives[1]) as source:
        names = {name.split("/", 1)[-1] for name in source.getnames()}
    wanted = ["README.md", "CHANGELOG.md", "LICENSE", "mkdocs.yml", "Makefile", "constraints.txt", "tests/test_docs.py"]
    assert {*wanted, "experiments/sample-ddsh.toml", "examples/score_codes.py"} <= names
    assert not [name for name in names if name.startswith(("results", ".venv", "build"))]


def test_all_names_every_extra_but_docs_and_dev():
    extras = PROJECT["optional-dependencies"]
    [together] = map(Requirement, extras["all"])
    assert together.name == "ddsh"
    assert together.extras == extras.keys() - {"all", "docs", "dev"}


def test_heavy_packages_are_absent_from_the_core(core, work):
    heavy = ("torch", "lightgbm", "maxflow", "faiss", "matplotlib", "fastapi", "uvicorn", "onnx")
    core.python(f"import importlib.util as u; assert not [name for name in {heavy} if u.find_spec(name)]", work)


def test_the_command_is_installed(core, work):
    assert run([str(core.bin / "ddsh"), "--version"], work).strip() == f"ddsh {ddsh.__version__}"


def test_the_core_scores_lists_trains_and_searches(core, work):
    commands = [("score", "query.npz", "database.npz", "--json"), ("methods",)]
    for method in ("lsh", "itq"):
        commands += [
            ("train", "photos", "--method", method, "--bits", "4", "--out", f"model-{method}"),
            ("evaluate", f"model-{method}", "photos"),
            ("encode", f"model-{method}", "photos", "--out", f"{method}.npz"),
            ("index", f"model-{method}", "photos", "--out", f"index-{method}"),
            ("search", f"index-{method}", "photos/cat/0.png", "-k", "3"),
        ]
    commands.append(("reproduce", "sample-ddsh", "--only", "lsh", "--quick", "--results", "made"))
    outcomes = core.ddsh(commands, work)
    for command, (code, _, complaint) in zip(commands, outcomes, strict=True):
        assert code == 0, f"ddsh {' '.join(command)}: {complaint}"
    assert '"map"' in outcomes[0][1]
    assert "lsh" in outcomes[1][1]
    assert "dpsh needs PyTorch" in outcomes[1][2]


def test_every_missing_extra_is_named_in_one_line(core, work, deep_model):
    result = ROOT / "results" / "sample-ddsh" / "lsh-12bits-seed0.json"
    (work / "results" / "sample-ddsh").mkdir(parents=True)
    shutil.copy(result, work / "results" / "sample-ddsh")
    makes = [
        ("train", "photos", "--method", "lsh", "--bits", "4", "--out", "model"),
        ("index", "model", "photos", "--out", "index"),
    ]
    commands = {
        ("train", "photos", "--method", "ddsh", "--bits", "4", "--out", "deep"): "deep",
        ("train", "photos", "--method", "fasth", "--bits", "4", "--out", "trees"): "methods",
        ("train", "photos", "--method", "cosdish", "--bits", "4", "--out", "cosdish"): "methods",
        ("encode", deep_model, "photos", "--out", "deep.npz"): "deep",
        ("index", "model", "photos", "--kind", "faiss", "--out", "faiss-index"): "search",
        ("export", deep_model, "--onnx", "model.onnx"): "(?:export|deep,export|deep)",
        ("report", "results"): "report",
        ("serve", "index"): "service",
    }
    outcomes = core.ddsh([*makes, *commands], work)
    assert [code for code, _, _ in outcomes[:2]] == [0, 0]
    for (command, extra), (code, _, complaint) in zip(commands.items(), outcomes[2:], strict=True):
        assert code == 2, command
        *_, line = complaint.strip().splitlines()  # what was adapted to few images comes before
        assert re.search(rf"pip install 'ddsh\[{extra}\]'", line), line


def test_the_front_door_names_a_missing_extra(core, work):
    code = "import ddsh\ntry:\n    ddsh.DDSH(32)\nexcept ddsh.DdshError as error:\n    print(error)"
    assert "pip install 'ddsh[deep]'" in core.python(code, work)


def test_the_source_archive_installs_and_runs(archives, work, tmp_path):
    environment = Environment(tmp_path / "venv", [*CORE, *BUILD_TOOLS])
    environment.install(archives[1])
    code = "import ddsh; print(ddsh.evaluate(ddsh.Model(ddsh.LSH(8)), 'sample').scores.map)"
    assert 0.1 < float(environment.python(code, work)) < 1
