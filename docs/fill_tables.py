"""Write the tables of results/ into README and docs; run by ``make tables``.

A page marks the place of an experiment's table by two lines, ``<!-- name -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ddsh.evaluation.result import Result, read_results
from ddsh.report import markdown_table

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs/explanation/results.md", ROOT / "docs/reference/methods.md")
_PLACE = re.compile(r"<!-- (?P<name>[a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(page: str, results: Sequence[Result]) -> str:
    """Return a page with the tables of the present results."""

    def table(place: re.Match[str]) -> str:
        """Return the table of a place between its two lines."""
        name = place["name"]
        return f"<!-- {name} -->\n\n{markdown_table(results, name).strip()}\n\n<!-- end -->"

    return _PLACE.sub(table, page)


def main() -> None:
    """Fill all pages."""
    results, _ = read_results(ROOT / "results")
    for page in PAGES:
        page.write_text(filled(page.read_text(), results))


if __name__ == "__main__":
    main()
