"""The case study as a figure: what it shows, and where the red boxes are."""

import base64
import io
import re
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from ddsh.report import write_report
from ddsh.report.case_study import case_figure
from ddsh.report.paper import read_paper
from ddsh.report.plot import draw_case_figure
from ddsh.report.runs import read_runs
from ddsh.report.sections import make_sections

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
RED = (0xD4, 0x20, 0x2C)
PIXELS_PER_POINT = 200 / 72


@pytest.fixture
def figure(read):
    """The case study of all results written so far."""

    def made():
        [section] = make_sections(read_runs(read()[0])[0], read_paper())
        return case_figure(section, read_paper())

    return made


@pytest.fixture(scope="module")
def files(full_report):
    return {path.suffix: path for path in full_report.figures if path.stem == "map-cifar10-case-study"}


@pytest.fixture(scope="module")
def drawing(files):
    return ElementTree.parse(files[".svg"]).getroot()


def _boxes(drawing):
    """The corners of all red boxes by name, in pixels of the PNG: left, top, right, bottom."""
    boxes = {}
    for group in drawing.iter(f"{SVG}g"):
        if group.get("id", "").startswith("wrong-"):
            numbers = re.findall(r"[\d.]+", group.find(f"{SVG}path").get("d"))
            points = np.array(numbers, float).reshape(-1, 2) * PIXELS_PER_POINT
            boxes[group.get("id")] = (*points.min(0), *points.max(0))
    return boxes


@pytest.fixture
def content_of(new_content):
    """Make a result with such queries; tiles of a row have one colour."""
    return partial(_content_of, new_content)


def _content_of(new_content, queries, **changes):
    side, columns = 4, 3
    rows = np.arange(len(queries), dtype=np.uint8).repeat(side)[:, None, None] * np.full((1, columns * side, 3), 20)
    file = io.BytesIO()
    Image.fromarray(rows.astype(np.uint8)).save(file, "PNG")
    examples = {
        "version": 1,
        "tile": side,
        "columns": columns,
        "sheet": file.getvalue(),
        "queries": [
            {"row": row, "label": label, "hits": [1, 2], "distances": [0, 1], "labels": ["a", "b"], "relevant": right}
            for row, (label, right) in enumerate(queries)
        ],
    }
    return new_content(n_bits=32, examples=examples, **changes)


def test_every_wrong_hit_has_a_box_and_no_other(drawing):
    wrong = {f"wrong-{block}-{row}-{hit}" for block in range(4) for row in range(2) for hit in range(0, 20, 4)}
    assert set(_boxes(drawing)) == wrong


def test_boxes_are_around_the_hits_that_they_are_named_for(drawing, files):
    pixels = np.asarray(Image.open(files[".png"]).convert("RGB"))
    for name, (left, top, right, bottom) in _boxes(drawing).items():
        row, hit = map(int, name.split("-")[2:])
        across, down = round((left + right) / 2), round((top + bottom) / 2)
        assert pixels[down, across].astype(int) == pytest.approx((12 * (hit + 1), 90 * row, 120), abs=12)
        for edge in (pixels[down, round(left)], pixels[down, round(right) - 1], pixels[round(top), across]):
            assert tuple(edge) == RED


def test_wrong_hits_have_a_cross_too_for_those_who_do_not_see_red(drawing, files):
    pixels = np.asarray(Image.open(files[".png"]).convert("RGB"))
    for _, top, right, _ in _boxes(drawing).values():
        corner = pixels[round(top) : round(top) + 18, round(right) - 18 : round(right)]
        assert tuple(corner[9, 8]) == (255, 255, 255)
        assert tuple(corner[9, 3]) == RED


def test_tiles_are_in_the_file_as_large_as_the_results_have_them(drawing):
    images = list(drawing.iter(f"{SVG}image"))
    assert len(images) == 4
    for image in images:
        content = Image.open(io.BytesIO(base64.b64decode(image.get(LINK).partition(",")[2])))
        assert content.height <= 2 * 8 + 2
        assert content.width <= 21 * 9 + 2
        assert "pixelated" in image.get("style")


def test_the_same_results_give_the_same_case_study(put, figure, content_of):
    put(content_of([("cat", [True, False])]))
    kinds = ("svg", "png", "pdf")
    first, second = draw_case_figure(figure(), kinds), draw_case_figure(figure(), kinds)
    assert first == second
    assert set(first) == set(kinds)


def test_methods_that_train_a_network_come_first_and_four_are_shown(put, figure, content_of):
    for label in ("lsh", "itq", "sdh", "ours"):
        put(content_of([("cat", [True, False])], label=label, outputs=None))
    for label in ("dhn", "ddsh"):
        put(content_of([("cat", [True, False])], label=label))
    titles = [title for title, _ in figure().blocks]
    assert titles == ["DDSH, 32 bits", "DHN, 32 bits", "SDH, 32 bits", "ITQ, 32 bits"]


def test_five_queries_are_shown_no_two_of_one_class(put, figure, content_of):
    labels = ["cat", "dog", "cat", "ship", "dog", "frog", "deer", "bird"]
    put(content_of([(label, [number % 2 == 0, True]) for number, label in enumerate(labels)]))
    [(_, strips)] = figure().blocks
    assert [int(strip.tiles[0, 0, 0, 0]) // 20 for strip in strips] == [0, 1, 3, 5, 6]
    assert [strip.relevant for strip in strips] == [
        (True, True),
        (False, True),
        (False, True),
        (False, True),
        (True, True),
    ]


@pytest.mark.parametrize("n_hits", [0, 1])
def test_a_query_that_found_less_than_others_has_a_shorter_strip(put, figure, n_hits, content_of):
    content = content_of([("cat", [True, False]), ("dog", [True, False])])
    lists = ("hits", "distances", "labels", "relevant")
    content["examples"]["queries"][0] |= {name: content["examples"]["queries"][0][name][:n_hits] for name in lists}
    put(content)
    [(_, strips)] = figure().blocks
    assert [len(strip.tiles) for strip in strips] == [1 + n_hits, 3]
    assert draw_case_figure(figure(), ["png"])["png"].startswith(b"\x89PNG")


def test_results_without_examples_have_no_case_study(put, read, figure, tmp_path, new_content):
    put(new_content(examples=None))
    assert figure() is None
    report = write_report(read()[0], tmp_path / "report", formats=["svg"])
    assert not [path for path in report.figures if "case-study" in path.name]
