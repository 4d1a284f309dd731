"""Write the tables of results/ into the pages that show them; ``make tables`` runs it.

A page marks the place of an experiment's table by two lines, ``<!-- name -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ddsh.evaluation.result import Result, read_results
from ddsh.report import markdown_table

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "methods.md")
_PLACE = re.compile(r"<!-- (?P<name>[a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(page: str, results: Sequence[Result]) -> str:
    """Return a page with the tables of today's results."""
    return _PLACE.sub(lambda place: f"<!-- {place['name']} -->\n{_table(place['name'], results)}\n<!-- end -->", page)


def _table(name: str, results: Sequence[Result]) -> str:
    return f"\n{markdown_table(results, name).strip()}\n"


def main() -> None:
    """Fill all pages."""
    results, _ = read_results(ROOT / "results")
    for page in PAGES:
        page.write_text(filled(page.read_text(), results))


if __name__ == "__main__":
    main()
