"""From a folder of results to a folder with the report."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ddsh.errors import ArtefactError, DdshError, UnknownName
from ddsh.evaluation.records import Record, read_results
from ddsh.report.blocks import Drawn
from ddsh.report.chart import CASE_STUDY, FORMATS, Chart
from ddsh.report.charts import make_charts
from ddsh.report.gallery import Gallery, make_gallery
from ddsh.report.looks import Looks, make_looks
from ddsh.report.markup import Html, printable
from ddsh.report.page import make_page
from ddsh.report.paper import Paper, read_paper
from ddsh.report.runs import read_runs
from ddsh.report.sections import Section, gaps, make_sections
from ddsh.storage import atomic_write

PAGE = "index.html"
_KNOWN_FILES = (".json", ".md")
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Report:
    """A report that was written.

    Parameters
    ----------
    page : path
        The HTML file.
    figures : tuple of path
        The files of the figures.
    problems : tuple of str
        What is wrong with the results, one line each.
    """

    page: Path
    figures: tuple[Path, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Job:
    """A figure to be drawn, and what it is called in the page and as a file."""

    section: Section
    content: Chart | Gallery
    looks: Looks
    name: str


class _Pencils(NamedTuple):
    """What draws: a chart in the page, a chart as files, a case study as files."""

    in_page: Callable[[Chart, Looks, str], Html]
    chart_files: Callable[[Chart, Looks, Sequence[str]], dict[str, bytes]]
    gallery_files: Callable[[Gallery, Sequence[str]], dict[str, bytes]]


def read_folder(folder: Path) -> tuple[list[Record], list[str]]:
    """Read results, and refuse a folder that has none.

    Parameters
    ----------
    folder : path
        A folder of results, or one with a folder for each experiment.

    Returns
    -------
    list of Record
        The results.
    list of str
        What is wrong with its files, one line each.
    """
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a folder; results are made by: ddsh reproduce")
    records, problems = read_results(folder)
    problems = [printable(problem) for problem in [*problems, *_foreign_files(folder)]]
    if not records:
        first = f" ({problems[0]})" if problems else ""
        raise ArtefactError(f"{folder} holds no results{first}; they are made by: ddsh reproduce")
    return records, problems


def write_report(
    records: Sequence[Record],
    out: Path,
    *,
    problems: Iterable[str] = (),
    formats: Sequence[str] = FORMATS,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Write the page and its figures; the same results give the same bytes.

    Parameters
    ----------
    records : sequence of Record
        The results.
    out : path
        Folder for ``index.html`` and ``figures/``; it is made if needed.
    problems : iterable of str
        What is known to be wrong already; the page lists it.
    formats : sequence of {"svg", "png", "pdf"}
        Formats of the figures' files; none for the page alone.
    on_progress : callable, optional
        Told how many figures are drawn, and how many there are.

    Returns
    -------
    Report
        What was written, and all that is wrong.
    """
    _check_formats(formats)
    runs, broken = read_runs(records)
    paper = read_paper()
    sections = make_sections(runs, paper)
    if not sections:
        raise ArtefactError(f"None of {len(records)} results can be shown. {' '.join(broken[:1])}")
    missing = [line for section in sections for line in gaps(section)]
    lines = tuple(map(printable, [*problems, *broken, *missing]))
    jobs = _jobs(sections, paper, with_galleries=bool(formats))
    drawn, paths = _draw(jobs, out / "figures", formats, on_progress)
    parts = [
        Drawn(section, tuple((chart, figure) for owner, chart, figure in drawn if owner is section))
        for section in sections
    ]
    page = out / PAGE
    with atomic_write(page) as file:
        file.write(make_page(parts, lines, paper).encode())
    return Report(page, tuple(paths), lines)


def _jobs(sections: Sequence[Section], paper: Paper, *, with_galleries: bool) -> list[_Job]:
    """Return all figures; case studies only where files are wanted, for the page shows them in its own way."""
    jobs = []
    for section, name in zip(sections, _names(sections), strict=True):
        looks = make_looks(section.labels, paper)
        jobs += [_Job(section, chart, looks, f"{name}-{chart.name}") for chart in make_charts(section)]
        if with_galleries and (gallery := make_gallery(section, paper)):
            jobs.append(_Job(section, gallery, looks, f"{name}-{CASE_STUDY}"))
    return jobs


def _names(sections: Sequence[Section]) -> list[str]:
    """Return a name for each section that no other has and that every file system takes."""
    names: list[str] = []
    for section in sections:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", section.experiment)[:_LONGEST_NAME].strip("-") or "experiment"
        n_before = sum(re.fullmatch(rf"{name}(-\d+)?", other) is not None for other in names)
        names.append(f"{name}-{n_before + 1}" if name in names else name)
    return names


def _draw(
    jobs: Sequence[_Job], folder: Path, formats: Sequence[str], on_progress: Callable[[int, int], None] | None
) -> tuple[list[tuple[Section, Chart, Html]], list[Path]]:
    """Draw all figures, for the page and as files."""
    drawn: list[tuple[Section, Chart, Html]] = []
    paths: list[Path] = []
    pencils = _pencils()
    for n_done, job in enumerate(jobs, start=1):
        if isinstance(job.content, Chart):
            drawn.append((job.section, job.content, pencils.in_page(job.content, job.looks, job.name)))
        for kind, content in _files(job, pencils, formats).items():
            paths.append(folder / f"{job.name}.{kind}")
            with atomic_write(paths[-1]) as file:
                file.write(content)
        if on_progress:
            on_progress(n_done, len(jobs))
    return drawn, paths


def _files(job: _Job, pencils: _Pencils, formats: Sequence[str]) -> dict[str, bytes]:
    if not formats:
        return {}
    if isinstance(job.content, Chart):
        return pencils.chart_files(job.content, job.looks, formats)
    return pencils.gallery_files(job.content, formats)


def _pencils() -> _Pencils:
    """Return what draws; matplotlib is imported here, where it is needed."""
    try:
        from ddsh.report.drawing import draw_files
        from ddsh.report.figures import chart_figure
        from ddsh.report.mosaic import draw_gallery
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise DdshError("A report needs matplotlib. Run: pip install 'ddsh[report]'") from error
    return _Pencils(chart_figure, draw_files, draw_gallery)


def _check_formats(formats: Iterable[str]) -> None:
    for name in formats:
        if name not in FORMATS:
            raise UnknownName("format", name, FORMATS)


def _foreign_files(folder: Path) -> list[str]:
    """Return a line for each file among results that is something else."""
    files = sorted(path for path in [*folder.glob("*"), *folder.glob("*/*")] if path.is_file())
    strange = (path for path in files if path.suffix not in _KNOWN_FILES and not path.name.startswith("."))
    return [f"{path} is no result of ddsh; it is passed over." for path in strange]
