"""Case studies: queries and the images that each method finds for them, wrong ones marked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ddsh.evaluation.examples import Example, Examples
from ddsh.report.markup import Html, element
from ddsh.report.paper import Paper
from ddsh.report.sections import Section

_OPEN = 3


@dataclass(frozen=True)
class CaseStudy:
    """A case study and the style sheet with its images.

    Parameters
    ----------
    n_bits : int
        Code length.
    html : Html
        The queries and what was found.
    style : str
        CSS with one rule for each sheet of images.
    """

    n_bits: int
    html: Html
    style: str


@dataclass(frozen=True)
class KeptExamples:
    """What the runs of a section kept of their searches.

    Parameters
    ----------
    n_bits : int
        Code length.
    of_label : mapping of str to Examples
        Those of the first seed that has any, line by line.
    """

    n_bits: int
    of_label: Mapping[str, Examples]


def kept_examples(section: Section) -> KeptExamples | None:
    """Return the examples of a section at the length that most labels have, or None where no run kept any."""
    n_bits = section.usual_bits(lambda run: run.examples)
    if n_bits is None:
        return None
    found = {
        cell.label: next(run.examples for run in cell.runs if run.examples)
        for cell in section.in_order(n_bits)
        if any(run.examples for run in cell.runs)
    }
    return KeptExamples(n_bits, found)


def case_study(section: Section, paper: Paper, name: str) -> CaseStudy | None:
    """Return the case study of a section at one code length, or None where no run kept any images.

    Parameters
    ----------
    section : Section
        The results.
    paper : Paper
        How labels are written.
    name : str
        What its style rules start with; no other of the page does.
    """
    kept = kept_examples(section)
    if kept is None:
        return None
    sheets = kept.of_label
    classes = {label: f"{name}-{number}" for number, label in enumerate(sheets)}
    style = "".join(_rule(classes[label], examples) for label, examples in sheets.items())
    rows = dict.fromkeys(query.row for examples in sheets.values() for query in examples.queries)
    cases = (_case(row, sheets, classes, paper, is_open=place < _OPEN) for place, row in enumerate(rows))
    return CaseStudy(kept.n_bits, element("div", *cases, class_="cases"), style)


def _rule(class_: str, examples: Examples) -> str:
    width, height = 100 * examples.columns, 100 * len(examples.queries)
    return f".{class_}{{background-image:url({examples.sheet});background-size:{width}% {height}%}}\n"


def _case(row: int, sheets: Mapping[str, Examples], classes: Mapping[str, str], paper: Paper, *, is_open: bool) -> Html:
    """Return one query with a line for each label that searched for it."""
    found = {label: place for label, examples in sheets.items() if (place := _place(examples, row)) is not None}
    first = next(iter(found))
    query = sheets[first].queries[found[first]]
    image = _tile(sheets[first], classes[first], found[first], 0, class_="query", role="img", aria_label=query.label)
    lines = (_line(sheets[label], classes[label], place, paper.name(label)) for label, place in found.items())
    title = element("summary", image, element("span", query.label), element("small", f"image {row}"))
    return element("details", title, *lines, class_="case", open=is_open)


def _place(examples: Examples, row: int) -> int | None:
    return next((place for place, query in enumerate(examples.queries) if query.row == row), None)


def _line(examples: Examples, class_: str, place: int, name: str) -> Html:
    query = examples.queries[place]
    tiles = (_hit(examples, class_, place, number) for number in range(len(query.hits)))
    right = f"{sum(query.relevant)} of {len(query.relevant)} right"
    head = element("div", element("b", name), " ", element("small", right), class_="who")
    hits = element("div", *tiles, class_="hits", role="img", aria_label=f"{name}: {right}{_wrong(query)}")
    return element("div", head, hits, class_="line")


def _wrong(query: Example) -> str:
    """Return the wrong images in words."""
    wrong = [f"{place} {label}" for place, label, is_right in _numbered(query) if not is_right]
    return f"; wrong: {', '.join(wrong)}" if wrong else ""


def _numbered(query: Example) -> Iterable[tuple[int, str, bool]]:
    return zip(range(1, len(query.hits) + 1), query.labels, query.relevant, strict=True)


def _hit(examples: Examples, class_: str, place: int, number: int) -> Html:
    query = examples.queries[place]
    right = query.relevant[number]
    title = f"{number + 1}: {query.labels[number]}, distance {query.distances[number]}{'' if right else ', wrong'}"
    return _tile(examples, class_, place, number + 1, class_="" if right else "wrong", title=title)


def _tile(examples: Examples, sheet: str, row: int, column: int, *, class_: str, **attributes: str) -> Html:
    """Return one image, cut from its sheet."""
    x = 100 * column / (examples.columns - 1)
    y = 100 * row / max(len(examples.queries) - 1, 1)
    classes = " ".join(filter(None, ("tile", sheet, class_)))
    return element("span", class_=classes, style=f"background-position:{x:.3f}% {y:.3f}%", **attributes)
