"""Where a benchmark writes its figures."""

from pathlib import Path


def json_file(benchmark: str, *, quick: bool) -> Path:
    """Return the JSON file beside a benchmark, or one in build/ for a quick run, which says less."""
    path = Path(benchmark).resolve().with_suffix(".json")
    if not quick:
        return path
    folder = path.parents[1] / "build"
    folder.mkdir(exist_ok=True)
    return folder / path.name
