"""Every example, the notebook and the example package work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddsh.cli import app

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SPARK = ROOT / "examples" / "encode_on_spark.py"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
RUN_NOTEBOOK = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
assert not [output for output in outputs if output.get("name") == "stderr"], outputs
print(len(outputs))
"""


def run(*arguments, cwd, timeout=300):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    outcome = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path != SPARK], ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    assert run("-W", "error", path, cwd=tmp_path)


@pytest.mark.cluster
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java (Debian: openjdk-17-jre-headless)")
def test_the_example_of_spark_runs_on_a_cluster(tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    said = run(SPARK, cwd=tmp_path, timeout=900)
    assert said.splitlines() == ["40 images encoded in 4 shards", "the codes are those of this process: True"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    assert int(run("-c", RUN_NOTEBOOK, path, cwd=tmp_path)) >= 5


def test_the_readme_of_the_examples_names_all_of_them():
    text = (ROOT / "examples" / "README.md").read_text()
    for path in [*EXAMPLES, *NOTEBOOKS]:
        assert f"`{path.name}`" in text


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The folder into which the example package is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    run("-m", "pip", "install", *options, "--target", folder, ROOT / "examples" / "ddsh-example-plugin", cwd=folder)
    return folder


@pytest.fixture
def with_plugin(plugin, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(plugin)
    monkeypatch.chdir(tmp_path)


def ddsh(*words):
    app(list(words), standalone_mode=False)


@pytest.mark.usefixtures("with_plugin")
def test_ddsh_lists_what_an_installed_package_adds(capsys):
    ddsh("methods", "--markdown")
    assert "`median`" in capsys.readouterr().out
    ddsh("data", "list")
    assert "stripes" in capsys.readouterr().out


@pytest.mark.usefixtures("with_plugin")
@pytest.mark.parametrize("method", ["median", "ddsh_example_plugin.median:MedianHash"])
def test_ddsh_trains_a_method_of_another_package_on_its_dataset(method, capsys):
    ddsh("train", "stripes", "--method", method, "--bits", "8", "--out", "model")
    ddsh("evaluate", "model", "stripes")
    assert "8" in capsys.readouterr().out


@pytest.mark.usefixtures("with_plugin")
@pytest.mark.parametrize("backbone", ["tiny", "ddsh_example_plugin.tiny:build"])
def test_ddsh_trains_a_backbone_of_another_package(backbone):
    options = ["--method", "dsh", "--bits", "8", "--epochs", "1"]
    ddsh("train", "stripes", *options, "--backbone", backbone, "--out", "model")
    ddsh("evaluate", "model", "stripes")


@pytest.mark.usefixtures("with_plugin")
def test_an_experiment_names_methods_backbones_and_datasets_of_another_package():
    Path("own.toml").write_text("""
dataset = "stripes"
protocol = "own"
bits = [8]
seeds = [0]

[methods.median]

[methods.by-path]
method = "ddsh_example_plugin.median:MedianHash"

[methods.on-features]
method = "median"
backbone = "tiny"
""")
    ddsh("reproduce", "own.toml", "--results", "results")
    assert len(list(Path("results", "own").glob("*-8bits-seed0.json"))) == 3
