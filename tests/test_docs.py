"""The documentation agrees with the code: links, tables, commands and every code block."""

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import typer.main
from PIL import Image

import ddsh
from ddsh.cli import app
from ddsh.evaluation import read_results
from ddsh.experiment import read_spec

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LAYER_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]


@dataclass(frozen=True)
class Block:
    """A fenced code block: its language, the rest of its first line, and its text."""

    language: str
    info: str
    text: str
    line: int

    def attribute(self, name):
        found = re.search(rf'\b{name}(?:="([^"]*)")?(?=\s|$)', self.info)
        return found and (found[1] or "")


def blocks_of(page):
    text = page.read_text()
    fences = re.finditer(r"^```([\w-]*)[ \t]*([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(m[1], m[2], m[3], text[: m.start()].count("\n") + 1) for m in fences]


def load_file(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_id(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder like a reader's: tiny photos in folders and a table, and a model of them."""
    folder = tmp_path_factory.mktemp("reader")
    rng = np.random.default_rng(0)
    lines = ["path,label"]
    for top, n in (("photos", 50), ("more-photos", 3)):
        for colour, label in enumerate(("bird", "cat", "dog")):
            (folder / top / label).mkdir(parents=True)
            for number in range(n):
                pixels = rng.integers(0, 120, (40, 40, 3), np.uint8)
                pixels[..., colour] += 100
                Image.fromarray(pixels).save(folder / top / label / f"{number}.jpg")
                if top == "photos":
                    lines.append(f"{top}/{label}/{number}.jpg,{label}")
    (folder / "photos.csv").write_text("\n".join(lines) + "\n")
    shutil.copytree(folder / "photos", folder / "my-photos")
    shutil.copy(folder / "photos" / "cat" / "0.jpg", folder / "photo.jpg")
    train = ["train", str(folder / "photos"), "--method", "lsh", "--bits", "16", "--out", str(folder / "my-model")]
    app(train, standalone_mode=False)
    return folder


@pytest.fixture
def reader(photos, tmp_path, monkeypatch):
    """A fresh copy of the reader's folder, as the current one."""
    shutil.copytree(photos, tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    shutil.copytree(ROOT / "results" / "sample-ddsh", tmp_path / "results" / "sample-ddsh")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def commands_of(block):
    """Yield the commands of a shell block as lists of words."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words:
            yield words


def check_command(words):
    """Parse a command as the shell would; nothing is run."""
    program, arguments = words[0], words[1:]
    if program == "torchrun":
        arguments = arguments[arguments.index("-m") + 1 :]
        program = arguments.pop(0)
    if program == "ddsh":
        parse(typer.main.get_command(app), "ddsh", arguments)
    elif program == "pip":
        for extra in re.findall(r"ddsh\[([^]]*)\]", " ".join(arguments)):
            assert set(extra.split(",")) <= PROJECT["optional-dependencies"].keys()
    elif program == "make":
        assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for target in arguments)
    elif program == "python":
        assert arguments[0] == "-c" or (ROOT / arguments[0]).exists(), f"there is no {arguments[0]}"
    else:
        assert program in ("curl", "git", "cd"), f"what is {program}?"


def parse(command, name, arguments):
    """Let the command line parse arguments without running the command."""
    context = command.make_context(name, list(arguments))
    if hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", []), *context.args]
        if rest:
            name, command, rest = command.resolve_command(context, rest)
            parse(command, name, rest)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_code_block_of_a_page_works(page, reader):
    blocks = [block for block in blocks_of(page) if block.attribute("notest") is None]
    if any(block.attribute("run") is not None and "--out my-model" in block.text for block in blocks):
        shutil.rmtree("my-model")
    namespace = {"__name__": "__main__"}
    for block in blocks:
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            if name := block.attribute("title"):
                (reader / name).write_text(block.text)
            exec(compile(block.text, place, "exec"), namespace)
        elif block.language == "bash":
            check_shell(block)
        elif block.language == "toml":
            (reader / "experiments" / "block.toml").write_text(block.text)
            if tomllib.loads(block.text).keys() & {"methods", "of"}:
                read_spec(reader / "experiments" / "block.toml")
        elif block.language == "json":
            json.loads(block.text)
        else:
            assert block.language in ("text", "diff", "ini", "nginx"), f"{place}: what is {block.language!r}?"


def check_shell(block):
    """Check every command of a block, and run them if it says so."""
    for words in commands_of(block):
        check_command(words)
        if block.attribute("run") is not None:
            assert words[0] == "ddsh", "only ddsh is run"
            app([*words[1:], *shlex.split(block.attribute("run"))], standalone_mode=False)


def test_few_blocks_are_not_run():
    reasons = [block.attribute("notest") for page in PAGES for block in blocks_of(page)]
    skipped = [reason for reason in reasons if reason is not None]
    assert all(skipped), "say why a block is not run"
    assert len(skipped) <= 5


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_to_a_file_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")) and "/api/" not in target and target != "reference/cli.md":
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_table_of_methods_is_that_of_the_command(capsys):
    app(["methods", "--markdown"], standalone_mode=False)
    table = capsys.readouterr().out.strip()
    assert table.startswith("|")
    assert table in (ROOT / "docs" / "reference" / "methods.md").read_text()


def test_tables_in_the_pages_are_those_of_the_results():
    results, _ = read_results(ROOT / "results")
    fill_tables = load_file(ROOT / "docs" / "fill_tables.py")
    for page in fill_tables.PAGES:
        assert "| 32 bits |" in page.read_text()
        assert fill_tables.filled(page.read_text(), results) == page.read_text(), (
            f"{page.name} is old; run: make tables"
        )


def test_the_table_of_altered_copies_is_that_of_the_benchmark():
    pytest.importorskip("imagehash")
    benchmark = load_file(ROOT / "benchmarks" / "lookalike.py")
    table = benchmark.make_table(json.loads((ROOT / "benchmarks" / "lookalike.json").read_text()))
    page = (ROOT / "docs" / "explanation" / "two-codes.md").read_text()
    assert f"<!-- lookalike -->\n\n{table}\n\n<!-- end lookalike -->" in page


def test_the_table_of_compiled_indexes_is_that_of_the_benchmark(monkeypatch):
    pytest.importorskip("faiss")
    pytest.importorskip("usearch")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = load_file(ROOT / "benchmarks" / "kernels.py")
    tables = benchmark.make_tables(json.loads((ROOT / "benchmarks" / "kernels.json").read_text()))
    page = benchmark.PAGE.read_text()
    assert f"<!-- kernels -->\n\n{tables}\n\n<!-- end kernels -->" in page


def layer_drawing():
    """The layers as text, the top one first."""
    layers = load_file(ROOT / "tests" / "test_layers.py").LAYERS
    return "\n".join(" | ".join(sorted(layer)) for layer in reversed(layers))


@pytest.mark.parametrize("page", LAYER_PAGES, ids=page_id)
def test_the_drawing_of_the_layers_is_that_of_the_layer_test(page):
    drawing = f"<!-- layers -->\n\n```text\n{layer_drawing()}\n```\n\n<!-- end layers -->"
    assert drawing in page.read_text(), f"put this into {page.name}:\n{drawing}"


def test_every_file_in_the_table_of_changes_exists():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.search(r"<!-- changes -->(.*)<!-- end changes -->", page, re.DOTALL)[1].strip().splitlines()[2:]
    assert len(rows) == 15
    for row in rows:
        files = re.findall(r"`([\w/.-]+)`", row.split("|")[2])
        assert 1 <= len(files) <= 3, row
        for file in files:
            new = file.rsplit("/", 1)[-1].startswith("NAME.")
            assert (ROOT / file).exists() or (new and (ROOT / file).parent.is_dir()), f"{file} is not there"


def test_every_dependency_is_explained():
    page = (ROOT / "docs" / "dependencies.md").read_text().lower()
    needed = [*PROJECT["dependencies"]]
    for extra, packages in PROJECT["optional-dependencies"].items():
        if extra not in ("dev", "all"):
            needed += packages
    names = {"torch": "pytorch", "mkdocs-material": "material for mkdocs"}
    for requirement in needed:
        name = re.split(r"[\[<>=~!]", requirement)[0].lower()
        assert names.get(name, name) in page, f"docs/dependencies.md says nothing of {name}"
    assert "gpl" in page


def public_names():
    """Yield the path of every name in the ``__all__`` of a public module."""
    found = [module.name for module in pkgutil.walk_packages(ddsh.__path__, "ddsh.")]
    public = [name for name in found if "._" not in name and not name.startswith("ddsh.cli")]
    for module in map(importlib.import_module, ["ddsh", *public]):
        for name in module.__all__:
            yield f"{module.__name__}.{name}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built documentation."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    outcome = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return folder


def test_every_public_name_is_in_the_api_reference(site):
    pages = load_file(ROOT / "docs" / "reference_pages.py")
    package = pages.load_package()
    anchors = set()
    for page in (site / "reference" / "api").glob("*.html"):
        anchors |= set(re.findall(r'\bid="(ddsh[\w.]*)"', page.read_text()))
    defined = {}
    modules = {module.path for module in pages.public_modules(package)}
    for module in pages.public_modules(package):
        defined |= {f"{module.path}.{name}": place for name, place in pages.public_names(module).items()}
    shown = {defined.get(name, name) for name in anchors} | modules
    missing = [name for name in public_names() if defined.get(name) not in shown]
    assert not missing


def test_the_site_needs_nothing_from_the_web(site):
    for page in site.rglob("*.html"):
        assert not re.findall(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)[^"]*"', page.read_text())
