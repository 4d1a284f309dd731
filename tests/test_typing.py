"""Type checkers see real types behind every public name, and an error behind a wrong one."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ddsh

USES = [
    "ddsh.DDSH(32)",
    'ddsh.Model("itq")',
    'ddsh.Model("itq").encode("photos")',
    'ddsh.Model.load("folder")',
    'ddsh.Backbone("small").features("photos")',
    'ddsh.load("sample")',
    'ddsh.load("sample").labels',
    'ddsh.evaluate("lsh", "sample")',
    'ddsh.evaluate("lsh", "sample").scores.map',
    'ddsh.ImageSearch.open("folder").query(1)',
    "ddsh.LSH(8).fit([[1.0]])",
    "ddsh.LSH(8).fit([[1.0]]).encode([[1.0]])",
    'ddsh.methods.get_method("lsh")',
    'ddsh.index.get_index("exact")',
    'ddsh.experiment.read_spec("file.toml")',
    'ddsh.evaluation.read_results("results")',
]
EXPRESSIONS = [f"ddsh.{name}" for name in ddsh.__all__] + USES
# Parameters and array shapes may be anything; a name or a result may not.
UNTYPED = re.compile(r"^(Any|Unknown)$|^\(.*\) -> (Any|Unknown)$|^def \(.*\) -> Any$")


@pytest.fixture
def program(tmp_path):
    lines = ["import ddsh", *(f"reveal_type({expression})" for expression in EXPRESSIONS), "ddsh.nothing"]
    path = tmp_path / "program.py"
    path.write_text("\n".join(lines) + "\n")
    return path


def _check(command, folder):
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder).stdout


def test_mypy_sees_a_type_behind_every_public_name(program, tmp_path):
    cache = Path(__file__).parents[1] / ".mypy_cache"
    found = _check(["mypy", "--strict", "--cache-dir", str(cache), str(program)], tmp_path)
    revealed = re.findall(r'Revealed type is "(.*)"', found)
    assert len(revealed) == len(EXPRESSIONS), found
    assert [one for one in zip(EXPRESSIONS, revealed, strict=True) if UNTYPED.match(one[1])] == []
    assert 'has no attribute "nothing"' in found


def test_pyright_sees_a_type_behind_every_public_name(program, tmp_path):
    pytest.importorskip("basedpyright", reason="basedpyright is not installed")
    found = json.loads(_check(["basedpyright", "--outputjson", "--pythonpath", sys.executable, str(program)], tmp_path))
    messages = [one["message"] for one in found["generalDiagnostics"]]
    revealed = [match[1] for one in messages if (match := re.search(r'^Type of ".*" is "(.*)"$', one, re.DOTALL))]
    assert len(revealed) == len(EXPRESSIONS), messages
    assert [one for one in zip(EXPRESSIONS, revealed, strict=True) if UNTYPED.match(one[1])] == []
    assert any('"nothing" is not a known attribute' in one for one in messages)
