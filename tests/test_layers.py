"""Imports go down only: a module may import what lies below it, never what lies above or beside it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ddsh"
LAYERS = [
    {"errors", "lazy"},
    {"storage"},
    {"codes", "labels", "images"},
    {"backbones"},
    {"methods", "datasets", "index"},
    {"model", "export"},
    {"evaluation"},
    {"experiment", "report", "search", "distributed"},
    {"cli", "service"},
    {"__main__"},
]
ALLOWED_SIDEWAYS = {("cli", "service"), ("model", "export")}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name != "__init__.py")


def _home(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imported(path):
    """The parts of ddsh that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "ddsh" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below_it(path):
    home = _home(path)
    assert home in LEVEL, f"{home} has no place in LAYERS"
    for other in _imported(path):
        below = LEVEL[other] < LEVEL[home]
        assert other == home or below or (home, other) in ALLOWED_SIDEWAYS, f"{home} must not import {other}"


def test_importing_ddsh_loads_nothing_heavy():
    code = "import sys, ddsh; print(*sorted(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {
        "numpy",
        "scipy",
        "sklearn",
        "torch",
        "faiss",
        "matplotlib",
        "PIL",
        "typer",
        "fastapi",
        "uvicorn",
    }


def test_every_public_name_of_ddsh_can_be_imported():
    import ddsh

    for name in ddsh.__all__:
        assert getattr(ddsh, name) is not None
        assert name in dir(ddsh)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ddsh.nothing
