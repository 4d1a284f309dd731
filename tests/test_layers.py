"""The house: imports go down only, names occur once, private names stay at home."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ddsh"
LAYERS = [
    {"errors"},
    {"memory", "plugins", "sandbox", "storage"},
    {"codes", "labels", "images", "matlab"},
    {"backbones"},
    {"methods", "datasets", "index"},
    {"calibration", "look"},
    {"model", "export"},
    {"evaluation"},
    {"experiment", "report", "search"},
    {"distributed"},
    {"cli", "service"},
    {"__main__"},
]
ALLOWED_SIDEWAYS = {("cli", "service"), ("model", "export"), ("export", "model")}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name != "__init__.py")
TREES = {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def _home(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imported(path):
    """The parts of ddsh that a module imports."""
    for node in ast.walk(TREES[path]):
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
    with pytest.raises(AttributeError, match="No ddsh attribute nothing"):
        _ = ddsh.nothing


def test_every_public_name_of_the_indexes_is_offered():
    from ddsh import index

    assert set(index.__all__) <= set(dir(index))


def test_a_module_name_occurs_once():
    names = Counter(path.stem for path in MODULES)
    assert [name for name, count in names.items() if count > 1 and name not in ("__init__", "base", "registry")] == []


def test_a_class_name_occurs_once():
    nodes = (node for tree in TREES.values() for node in ast.walk(tree))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_private_names_are_imported_only_inside_their_package(path):
    package = ("ddsh", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(TREES[path]):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("ddsh"):
            continue
        parts = node.module.split(".")
        for place, part in enumerate(parts):
            assert not part.startswith("_") or package[:place] == tuple(parts[:place]), node.module
        for alias in node.names:
            assert not alias.name.startswith("_") or alias.name.startswith("__"), f"{node.module}.{alias.name}"


def test_every_public_module_says_what_it_offers():
    for path, tree in TREES.items():
        is_private = any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(SOURCE).parts)
        if is_private or not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body):
            continue
        assigned = [
            node.targets[0].id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        ]
        assert "__all__" in assigned, f"{path.relative_to(SOURCE)} has no __all__"


def test_the_first_line_of_a_module_fits_in_72_characters():
    long = {
        str(path.relative_to(SOURCE)): first
        for path, tree in TREES.items()
        if len(first := (ast.get_docstring(tree) or "").split("\n")[0]) > 72 or not first
    }
    assert long == {}


def test_nothing_that_is_not_on_windows_is_imported_at_the_top():
    for path, tree in TREES.items():
        names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        assert not names & {"fcntl", "resource", "pwd", "grp", "termios"}, path
