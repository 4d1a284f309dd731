"""What the documentation says of the code is what the code says."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ddsh.evaluation.records import read_results

from ddsh.cli.tables import methods_table
from ddsh.methods import METHODS, get_method

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_table_of_methods_is_made_from_their_cards():
    table = methods_table([get_method(name).card for name in METHODS]).to_markdown()
    assert table in (ROOT / "docs" / "methods.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", ["adding-a-dataset", "adding-a-backbone"])
def test_the_code_of_a_page_runs(name, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{name}.md").read_text(), re.DOTALL)
    command = [sys.executable, "-W", "error", "-c", "\n".join(blocks)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr


def test_tables_in_the_pages_are_those_of_the_results():
    records, _ = read_results(ROOT / "results")
    spec = importlib.util.spec_from_file_location("fill_tables", ROOT / "docs" / "fill_tables.py")
    fill_tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fill_tables)
    for page in fill_tables.PAGES:
        assert "| DDSH |" in page.read_text()
        assert fill_tables.filled(page.read_text(), records) == page.read_text(), (
            f"{page.name} is old; run: make tables"
        )
