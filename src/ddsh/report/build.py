"""Build a report: read a folder of results, draw figures, write the page."""

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from joblib import Parallel, cpu_count, delayed
from markupsafe import Markup

from ddsh.errors import ArtefactError, MissingExtra, UnknownName
from ddsh.evaluation.result import Result, read_results
from ddsh.report.case_study import CaseFigure, CaseStudy, case_figure, case_study
from ddsh.report.charts import FORMATS, Chart, Kind, make_charts
from ddsh.report.paper import Paper, read_paper
from ddsh.report.runs import read_runs
from ddsh.report.score_tables import (
    bit_health_table,
    headline,
    map_table,
    parameters_table,
    provenance,
    runs_table,
)
from ddsh.report.sections import Section, make_sections, missing_runs
from ddsh.report.style import Style, Styles, count_of, make_styles, printable
from ddsh.report.sweep import sweep_chart, sweep_table
from ddsh.report.text_table import TextTable
from ddsh.storage import atomic_write

__all__ = ["PAGE", "Report", "read_folder", "write_report"]

PAGE = "index.html"
SHEETS = "images"
FIGURE_FOLDER = "figures"
_RESULT_FILES = (".json", ".md")
_MAX_NAME = 60
_MIN_PER_PROCESS = 8  # figures that are drawn while another process starts
_RESERVED = ("contents", "problems", "tip")
_RANKING = ("map", "precision-recall-by-rank", "precision-recall-by-radius", "precision-at-k", "success-rate")


@dataclass(frozen=True)
class Report:
    """Files of a report, and what is wrong with its results.

    Parameters
    ----------
    page : path
        The HTML file.
    figures : tuple of path
        Files of the figures.
    sheets : tuple of path
        Images of case studies, which the page loads when needed.
    problems : tuple of str
        One line each.
    n_runs : int
        Number of results in the page.
    """

    page: Path
    figures: tuple[Path, ...]
    sheets: tuple[Path, ...]
    problems: tuple[str, ...]
    n_runs: int


class Renderers(NamedTuple):
    """Functions that need matplotlib: charts and case studies as files, and SVG for the page."""

    chart: Callable[[Chart, Styles, Iterable[str]], dict[str, bytes]]
    case_figure: Callable[[CaseFigure, Iterable[str]], dict[str, bytes]]
    panels: Callable[[bytes, Chart, Styles, str], list[Markup]]
    sample: Callable[[Style, Kind, str], Markup]

    @classmethod
    def load(cls) -> "Renderers":
        """Import matplotlib, or raise an error that says how to install it."""
        try:
            from ddsh.report.plot import draw_case_figure, draw_chart
            from ddsh.report.svg import inline_panels, inline_sample
        except ModuleNotFoundError as error:
            if error.name != "matplotlib":
                raise
            raise MissingExtra("A report", "matplotlib", "report") from error
        return cls(draw_chart, draw_case_figure, inline_panels, inline_sample)


@dataclass
class SectionView:
    """A section with everything that the page's template shows of it.

    Parameters
    ----------
    section : Section
        The results.
    name : str
        Unique in the page; anchor of the section, and start of its files' names.
    title : str
        Heading; with dataset and protocol if the experiment has several.
    numbers : list of (str, str, str)
        The most important numbers: name, value, note.
    table : TextTable
        MAP, or the settings of a sweep.
    health : list of TextTable
        Bit health at one code length; then at all, if there are several.
    runs, parameters : TextTable
        Provenance of each run; parameters of each label.
    facts : dict of str to str
        Provenance of the section.
    case_study : CaseStudy or None
        Queries with the images that were found.
    charts : dict
        Figures by name, as HTML parts.
    """

    section: Section
    name: str
    title: str
    numbers: list[tuple[str, str, str]]
    table: TextTable
    health: list[TextTable]
    runs: TextTable
    parameters: TextTable
    facts: dict[str, str]
    case_study: CaseStudy | None
    charts: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_folder(folder: str | os.PathLike[str]) -> tuple[list[Result], list[str]]:
    """Read the results in a folder.

    Parameters
    ----------
    folder : path
        A folder of results, or one with a folder for each experiment.

    Returns
    -------
    list of Result
        The results.
    list of str
        What is wrong with its files, one line each.

    Raises
    ------
    ArtefactError
        If there is no such folder, or no result in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a folder; results are made by: ddsh reproduce")
    results, problems = read_results(folder)
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        is_known = path.suffix in _RESULT_FILES or path.parent.name == "examples"
        if path.is_file() and not is_known and not path.name.startswith("."):
            problems.append(f"{path} is not a result of ddsh; it is ignored.")
    problems = [printable(problem) for problem in problems]
    if not results:
        first = f" ({problems[0]})" if problems else ""
        raise ArtefactError(f"{folder} holds no results{first}; they are made by: ddsh reproduce")
    return results, problems


def write_report(
    results: Sequence[Result],
    out: str | os.PathLike[str],
    *,
    problems: Iterable[str] = (),
    formats: Sequence[str] = ("svg",),
    first: Sequence[str] = (),
    only_first: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Write the page and its figures; the same results give the same bytes.

    Parameters
    ----------
    results : sequence of Result
        The results.
    out : path
        Folder for ``index.html``, ``images/`` and ``figures/``; it is made if needed.
    problems : iterable of str
        Problems found so far; the page lists them.
    formats : sequence of {"svg", "png", "pdf"}
        Formats of the figures' files; none for the page alone.
    first : sequence of str
        Experiments that the page shows first.
    only_first : bool
        Whether to leave out all experiments that are not in `first`.
    on_progress : callable, optional
        Called with the number of figures drawn so far, and of all figures.

    Returns
    -------
    Report
        What was written, and all problems.
    """
    for name in formats:
        if name not in FORMATS:
            raise UnknownName("format", name, FORMATS)
    known = {result.experiment for result in results}
    for name in first:
        if name not in known:
            raise UnknownName("experiment", name, known)
    if first and only_first:
        results = [result for result in results if result.experiment in first]
    runs, malformed = read_runs(results)
    paper = read_paper()
    sections = make_sections(runs, paper, first)
    if not sections:
        raise ArtefactError(f"None of {len(results)} results can be shown. {' '.join(malformed[:1])}")
    missing = [line for section in sections for line in missing_runs(section)]
    lines = tuple(map(printable, [*problems, *malformed, *missing]))
    views = _make_views(sections, paper)
    out = Path(out)
    figures = _draw(views, paper, out / FIGURE_FOLDER, formats, on_progress)
    sheets = []
    for sheet in (sheet for view in views if view.case_study for sheet in view.case_study.sheets):
        sheets.append(out / SHEETS / sheet.file)
        with atomic_write(sheets[-1]) as file:
            file.write(sheet.content)
    with atomic_write(out / PAGE) as file:
        file.write(_render(views, lines).encode())
    return Report(out / PAGE, tuple(figures), tuple(sheets), lines, len(runs))


def _make_views(sections: Sequence[Section], paper: Paper) -> list[SectionView]:
    """Return what the page shows of each section, without figures; names are valid as file names."""
    views: list[SectionView] = []
    names = list(_RESERVED)
    for section in sections:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", section.experiment)[:_MAX_NAME].strip("-") or "experiment"
        n_before = sum(re.fullmatch(rf"{name}(-\d+)?", other) is not None for other in names)
        names.append(f"{name}-{n_before + 1}" if name in names else name)
        title = section.experiment
        if sum(other.experiment == title for other in sections) > 1:
            title = f"{title} ({section.dataset}, {section.protocol})"
        usual = section.usual_bits(lambda run: run.bits)
        known = [cell for cell in section.in_order() if any(run.bits for run in cell.runs)]
        chosen = [cell for cell in known if cell.n_bits == usual or cell.has_collapsed]
        health = [bit_health_table(chosen, "Bit health", paper)] if known and not section.is_sweep else []
        if health and len(known) > len(chosen):
            health.append(bit_health_table(known, "Bit health, all lengths", paper))
        views.append(
            SectionView(
                section=section,
                name=names[-1],
                title=title,
                numbers=headline(section, paper),
                table=sweep_table(section, paper) if section.is_sweep else map_table(section, paper),
                health=health,
                runs=runs_table(section, paper),
                parameters=parameters_table(section, paper),
                facts=provenance(section),
                case_study=None if section.is_sweep else case_study(section, paper, names[-1]),
            )
        )
    return views


def _draw(
    views: Sequence[SectionView],
    paper: Paper,
    folder: Path,
    formats: Sequence[str],
    on_progress: Callable[[int, int], None] | None,
) -> list[Path]:
    """Draw every figure that has changed, put it into its view, and write its files; return their paths.

    Many figures are drawn in several processes; their bytes are the same.
    """
    jobs: list[tuple[SectionView, Styles, Chart | CaseFigure]] = []
    for view in views:
        section = view.section
        labels = {run.method for run in section.runs} if section.is_sweep else section.labels
        styles = make_styles(labels, paper)
        charts = [sweep_chart(section)] if section.is_sweep else make_charts(section)
        jobs += [(view, styles, chart) for chart in charts if chart.panels]
        if formats and view.case_study and (figure := case_figure(section, paper)):
            jobs.append((view, styles, figure))
    renderers = Renderers.load()
    from ddsh.report.figure_cache import FigureCache, drawing_key

    cache = FigureCache(folder)
    names = [f"{view.name}-{job.name if isinstance(job, Chart) else 'case-study'}" for view, _, job in jobs]
    keys = [drawing_key(job, styles) for _, styles, job in jobs]
    wanted = [dict.fromkeys(["svg", *formats] if isinstance(job, Chart) else formats) for _, _, job in jobs]
    known = [
        {kind: cache.get(f"{name}.{kind}", key) for kind in kinds}
        for name, key, kinds in zip(names, keys, wanted, strict=True)
    ]
    missing = [place for place, files in enumerate(known) if None in files.values()]
    calls = [delayed(_draw_one)(*jobs[place][1:], wanted[place]) for place in missing]
    n_processes = min(cpu_count(), len(missing) // _MIN_PER_PROCESS)
    drawn = iter(Parallel(max(1, n_processes), return_as="generator")(calls))
    paths: list[Path] = []
    for n_done, ((view, styles, job), name, key, stored) in enumerate(zip(jobs, names, keys, known, strict=True), 1):
        files: Mapping[str, Any] = next(drawn) if None in stored.values() else stored
        if isinstance(job, Chart):
            kind, prefix = job.panels[0].kind, f"figure:{n_done}"
            shown = [style for label, style in styles.items() if label in job.labels]
            view.charts[job.name] = {
                "title": job.title,
                "text": job.text,
                "panels": renderers.panels(files["svg"], job, styles, prefix),
                "legend": [(style, renderers.sample(style, kind, f"{prefix}:key-{style.number}")) for style in shown],
            }
        paths += [cache.put(f"{name}.{kind}", key, files[kind]) for kind in formats]
        if on_progress:
            on_progress(n_done, len(jobs))
    if paths:
        cache.save()
    return paths


def _draw_one(styles: Styles, job: Chart | CaseFigure, formats: Iterable[str]) -> dict[str, bytes]:
    """Draw a figure; called in other processes, if there are many."""
    renderers = Renderers.load()
    return renderers.chart(job, styles, formats) if isinstance(job, Chart) else renderers.case_figure(job, formats)


def _render(views: Sequence[SectionView], problems: Sequence[str]) -> str:
    """Return the page; everything is escaped unless it is marked as HTML."""
    loader = PackageLoader("ddsh.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["count_of"] = count_of
    environment.filters["grouped"] = lambda number: f"{number:,}" if number else "unknown"
    style, script = (loader.get_source(environment, name)[0] for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html").render(
        views=views,
        problems=problems,
        n_runs=sum(len(list(view.section.runs)) for view in views),
        ranking=_RANKING,
        sheet_folder=SHEETS,
        style=Markup(style),  # noqa: S704 -- a file of this package
        script=Markup(script),  # noqa: S704 -- a file of this package
        script_digest=digest,
    )
