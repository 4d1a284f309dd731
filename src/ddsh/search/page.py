"""HTML page of query results: one file with embedded thumbnails."""

import base64
import os
from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from ddsh.errors import BrokenImage
from ddsh.images import thumbnail
from ddsh.search.results import QueryResult

__all__ = ["make_page"]

_SIDE = 160
_TEMPLATES = Environment(
    loader=PackageLoader("ddsh.search"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def make_page(results: Mapping[str, QueryResult]) -> str:
    """Return an HTML page that shows the hits of each query.

    Parameters
    ----------
    results : mapping of str to QueryResult
        The hits, by the path or the id of the query.
    """

    def embed(path: str) -> str | None:
        """Return a thumbnail as base64, or None if the file cannot be read."""
        try:
            return base64.b64encode(thumbnail(path, _SIDE)).decode()
        except BrokenImage:
            return None

    page = _TEMPLATES.get_template("results.html.jinja").render(
        results=results,
        embed=embed,
        is_file=os.path.isfile,  # a query need not be a path
    )
    return page.encode(errors="replace").decode()  # file names may contain bytes that are not text
