import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ddsh.errors import ArtefactError, UnknownName
from ddsh.report import FIGURES, FORMATS, build, read_folder, write_report

HEADINGS = [
    "Mean average precision",
    "MAP by code length",
    "Precision and recall by rank",
    "Precision and recall by radius",
    "Precision at k",
    "Success rate of lookups",
    "Case study at 32 bits",
    "Bit health",
    "Balance of bits",
    "Distribution of tanh outputs",
    "Training loss",
    "Training objective",
    "MAP by epoch",
    "Cost against accuracy",
    "Provenance",
]
NAMES = {
    "map",
    "precision-recall-by-rank",
    "precision-recall-by-radius",
    "precision-at-k",
    "success-rate",
    "case-study",
    "outputs",
    "bit-balance",
    "training-loss",
    "training-objective",
    "training-map",
    "cost",
}
SWEEP = {"settings"}


class _Elements(HTMLParser):
    """All elements of a page: name, attributes, and the text right inside."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), []))
        if tag not in ("meta", "br"):
            self._open.append(self.found[-1])

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        for _, _, texts in self._open:
            texts.append(data)

    def texts(self, tag, **wanted):
        attributes = {name.rstrip("_"): value for name, value in wanted.items()}
        return ["".join(t) for name, a, t in self.found if name == tag and attributes.items() <= a.items()]


@pytest.fixture(scope="module")
def full_page(full_report):
    return full_report.page.read_text()


@pytest.fixture(scope="module")
def elements(full_page):
    return _Elements(full_page)


def test_every_part_has_its_heading(elements):
    assert elements.texts("h2") == ["map-cifar10"]
    assert elements.texts("h3") == HEADINGS


def test_the_table_has_ours_the_papers_the_difference_and_the_seeds(elements):
    [table] = elements.texts("table", class_="map")
    assert "DDSH★ 0.722 ± 0.014paper 0.769 ▼ -0.0472 seeds of 2★ 0.742 ± 0.014paper 0.835 ▼ -0.0932 seeds of 2" in table
    assert "DSH0.612paper 0.646 ▼ -0.0341 seed of 2" in table
    assert "LSH0.312paper 0.147 ▲ +0.1651 seed of 2" in table
    assert "ours0.4121 seed of 20.4321 seed of 2" in table


def test_a_cell_says_its_tie_bounds_seeds_and_splits_when_pointed_at(elements):
    titles = [attributes["title"] for tag, attributes, _ in elements.found if tag == "td" and "title" in attributes]
    assert (
        "MAP 0.7220 ± 0.0141; worst to best order of ties 0.6220 to 0.8220; seeds 0, 1; splits 00000000, 11111111"
        in titles
    )


def test_all_runs_are_listed_with_bounds_and_origin(elements):
    [table] = elements.texts("table", class_="runs")
    assert table.count("efficientnet-lite0, 112 px, weights 5c7c2dd5") == 10
    assert "DDSH321111111110.75200.65200.852061.03.0 GiB" in table
    assert "01234567-dirty" in table


def test_provenance_names_machine_versions_and_times(elements):
    [facts] = elements.texts("dl")
    assert "A fast one, 2 cores, 8.0 GiB, cpu, Linux" in facts
    assert "ddsh 0.1.0, python 3.11.7" in facts
    assert "10 min in total, 1 min per run" in facts
    assert "seed 0: 00000000; seed 1: 11111111" in facts


def test_parameters_are_listed_without_what_differs_from_run_to_run(elements):
    [table] = elements.texts("table", class_="settings")
    assert "DDSHtraining.epochs = 3" in table
    assert "seed =" not in table
    assert "None" not in table


def test_problems_and_gaps_are_listed_in_the_page(full_report, elements):
    lines = elements.texts("li")
    assert lines == list(full_report.problems)
    assert "broken.json is damaged" in lines[0]
    assert lines[1] == "map-cifar10: dsh, lsh, ours at 12, 32 bits: seed 1 missing."


def test_wrong_images_have_a_box_and_are_named_in_words(elements):
    wrong = [a for tag, a, _ in elements.found if tag == "span" and "wrong" in a.get("class", "").split()]
    assert len(wrong) == 4 * 2 * 5
    assert wrong[0]["title"] == "1: frog, distance 0, wrong"
    strips = [a["aria-label"] for tag, a, _ in elements.found if a.get("class") == "hits"]
    assert strips[0] == "DDSH: 15 of 20 right; wrong: 1 frog, 5 frog, 9 frog, 13 frog, 17 frog"
    assert "cross" in "".join(elements.texts("p"))


def test_every_figure_has_a_description_and_points_have_words(elements):
    pictures = [a for tag, a, _ in elements.found if tag == "svg" and a.get("role") == "img"]
    assert len(pictures) == 2 + 8 * 2 + 3 + 2
    assert pictures[0]["aria-label"] == "MAP by code length, ours: MAP by bits of DDSH, DSH, LSH, ours."
    titles = elements.texts("title")
    assert "DDSH, 12 bits: MAP 0.7220 ± 0.0141" in titles
    assert "DSH, rank 100: precision 0.600, recall 0.500" in titles
    assert "DDSH, 32 bits: success rate 0.742 ± 0.014" in titles


def test_the_page_needs_no_other_file_than_its_sheets(full_report, full_page, elements):
    for _, attributes, _ in elements.found:
        for name in ("src", "href", "srcset", "action"):
            assert attributes.get(name, "#").startswith("#")
    assert not re.search(r"@import|@font-face", full_page)
    sheets = {found for found in re.findall(r"url\(([^)]*)\)", full_page) if not found.startswith("#")}
    assert sheets == {f"images/map-cifar10-case-study-{number}.jpg" for number in (1, 2, 3, 4)}
    assert {path.relative_to(full_report.page.parent).as_posix() for path in full_report.sheets} == sheets
    assert all(path.read_bytes().startswith(b"\xff\xd8") for path in full_report.sheets)
    assert "default-src 'none'" in full_page


def test_names_in_the_page_are_unique_and_all_references_lead_somewhere(full_page, elements):
    names = Counter(a["id"] for _, a, _ in elements.found if "id" in a)
    assert names.most_common(1)[0][1] == 1
    references = {a["href"][1:] for _, a, _ in elements.found if "href" in a} | set(
        re.findall(r"url\(#([^)]+)\)", full_page)
    )
    assert references <= set(names)


def test_figures_follow_the_colours_of_the_page(elements):
    for tag, attributes, _ in elements.found:
        if tag in ("path", "use", "text", "rect"):
            assert not re.search("#[0-9a-f]{6}", attributes.get("style", "") + attributes.get("fill", ""))


def test_every_figure_is_written_in_three_formats(full_report):
    names = Counter(path.stem.removeprefix("map-cifar10-") for path in full_report.figures)
    assert names == dict.fromkeys(NAMES, 3)
    assert set(FIGURES) == NAMES | SWEEP
    starts = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for path in full_report.figures:
        assert path.read_bytes().startswith(starts[path.suffix])
        if path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_same_results_give_the_same_page(full_results, full_report, tmp_path):
    results, problems = read_folder(full_results)
    again = write_report(results, tmp_path, problems=problems, formats=(), first=["map-cifar10"])
    assert again.page.read_bytes() == full_report.page.read_bytes()
    assert again.figures == ()


def test_the_same_results_give_the_same_figures(put, read, tmp_path, bare_content):
    put(bare_content("ddsh", seconds=3.0))
    put(bare_content("lsh", seconds=300.0))
    first, second = (write_report(read()[0], tmp_path / name, formats=FORMATS) for name in ("a", "b"))
    assert [path.name for path in first.figures] == [f"map-cifar10-cost.{kind}" for kind in ("svg", "png", "pdf")]
    for one, other in zip(first.figures, second.figures, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_figures_that_have_not_changed_are_not_drawn_again(put, read, tmp_path, bare_content, monkeypatch):
    put(bare_content("ddsh", seconds=3.0))
    put(bare_content("lsh", seconds=300.0))
    drawn = []

    def draw(styles, job, formats, draw=build._draw_one):
        drawn.append(job.name)
        return draw(styles, job, formats)

    monkeypatch.setattr(build, "_draw_one", draw)
    first = write_report(read()[0], tmp_path)
    page, (figure,) = first.page.read_bytes(), first.figures
    content = figure.read_bytes()
    assert write_report(read()[0], tmp_path).page.read_bytes() == page
    assert drawn == ["cost"]
    figure.write_bytes(content + b"\n")  # changed by others
    assert write_report(read()[0], tmp_path).page.read_bytes() == page
    assert (drawn, figure.read_bytes()) == (["cost"] * 2, content)
    (tmp_path / ".figures.json").write_text("[1]")
    write_report(read()[0], tmp_path)
    put(bare_content("lsh", seconds=3000.0))
    assert write_report(read()[0], tmp_path).page.read_bytes() != page
    assert drawn == ["cost"] * 4
    assert figure.read_bytes() != content


def test_several_processes_draw_the_same_bytes(put, read, tmp_path, bare_content, monkeypatch):
    for bits in (12, 24, 32):
        put(bare_content("ddsh", bits, seconds=3.0))
        put(bare_content("lsh", bits, seconds=300.0))
    alone = write_report(read()[0], tmp_path / "alone")
    monkeypatch.setattr(build, "_MIN_PER_PROCESS", 1)
    monkeypatch.setattr(build, "cpu_count", lambda: 2)
    several = write_report(read()[0], tmp_path / "several")
    assert len(several.figures) > 1
    assert several.page.read_bytes() == alone.page.read_bytes()
    for one, other in zip(alone.figures, several.figures, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_results_of_old_are_shown_though_keys_are_absent(put, page, old_content):
    put(old_content("ddsh", history=[]))
    elements = _Elements(page())
    assert elements.texts("h3") == [
        "Mean average precision",
        "Precision and recall by rank",
        "Precision and recall by radius",
        "Precision at k",
        "Success rate of lookups",
        "Cost against accuracy",
        "Provenance",
    ]
    assert "✓ No problems" in "".join(elements.texts("p", id="problems"))
    assert elements.texts("dl")[0].count("not recorded") == 3


def test_a_result_with_scores_alone_is_shown(put, page, bare_content):
    put(bare_content())
    elements = _Elements(page())
    assert elements.texts("h3") == ["Mean average precision", "Provenance"]
    assert "DDSH★ 0.500paper 0.769 ▼ -0.269" in elements.texts("table", class_="map")[0]


BIT_NUMBERS = ("mean_correlation", "max_correlation", "n_distinct", "n_codes", "collapsed")
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{$",
    "a\0b\ud800c\n",
    "x" * 5000,
    "日本 😀",
    "--",
]


def _hostile(new_content, number, name):
    examples = new_content()["examples"]
    queries = [query | {"label": name, "labels": [name] * 20} for query in examples["queries"]]
    return new_content() | {
        "label": name,
        "experiment": HOSTILE[0],
        "backbone": {"name": name, "weights": name},
        "split": name,
        "seed": number,
        "commit": name,
        "params": {name: {name: name}},
        "versions": {name: name},
        "machine": {"system": name, "cpu": name, "cores": 1, "memory": 1, "device": name},
        "examples": examples | {"queries": queries},
    }


def test_names_from_files_are_shown_as_text_whatever_they_hold(put, page, tmp_path, new_content):
    for number, name in enumerate(HOSTILE):
        put(_hostile(new_content, number, name), f"{number}.json")
    elements = _Elements(page(["svg"]))
    tags = [tag for tag, _, _ in elements.found]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert HOSTILE[0] in elements.texts("h2")
    assert set(HOSTILE[:3]) <= set(elements.texts("th", scope="row"))
    assert max(map(len, elements.texts("th", scope="row"))) <= 121
    for path in (tmp_path / "report" / "figures").iterdir():
        ElementTree.parse(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_experiments_datasets_and_protocols_are_shown_as_text(put, page, name, bare_content):
    put(bare_content("ddsh", experiment=name, dataset=name, protocol=name, network=name, seconds=1.0), "a.json")
    elements = _Elements(page())
    assert [tag for tag, _, _ in elements.found].count("script") == 1
    assert len(elements.texts("h2")[0]) <= 121


def test_what_is_wrong_with_a_folder_is_one_line_each_and_never_a_crash(put, page, bare_content):
    put(bare_content("ddsh"))
    put(bare_content("dsh", split="f" * 64))
    put(bare_content("lsh", bits={"share": [2.0], "entropy": [1.0]} | dict.fromkeys(BIT_NUMBERS, 0)))
    put(bare_content("sdh", bits={"share": "all"}))
    put(bare_content("lsh", seed=1))
    put(json.dumps(bare_content("itq"))[:300], "truncated.json")
    put('{"name": "package"}', "package.json")
    put("notes", "notes.txt")
    put("readme", "README.md")
    lines = _Elements(page()).texts("li")
    assert [re.sub(r".*/", "", line)[:60].strip() for line in lines] == [
        "package.json is damaged (KeyError: 'params'); remove it and",
        "sdh-12bits-seed0.json is damaged (bits.share: Input should b",
        "truncated.json is damaged (JSONDecodeError: Expecting ':' de",
        "dsh-12bits-seed0.json are of different splits of cifar10 (00",
        "notes.txt is not a result of ddsh; it is ignored.",
        "lsh-12bits-seed0.json: bits is inconsistent; it is left out.",
        "map-cifar10: ddsh, dsh at 12 bits: seed 1 missing.",
    ]


def test_a_cell_of_another_split_is_marked(put, page, bare_content):
    put(bare_content("ddsh", score=0.5))
    put(bare_content("dsh", score=0.4))
    put(bare_content("lsh", score=0.8, split="f" * 64))
    [table] = _Elements(page()).texts("table", class_="map")
    assert "LSH0.800paper 0.147 ▲ +0.653⚠ other split" in table
    assert "DDSH★ 0.500" in table


def test_collapsed_codes_are_warned_of_at_every_length(put, page, new_content, bare_content):
    for n_bits in (12, 24, 32):
        health = new_content("ddsh", n_bits)["bits"] | {"collapsed": n_bits == 24}
        put(bare_content("ddsh", n_bits, bits=health))
    text = page()
    shown = text[text.index("<h3>Bit health") : text.index("All code lengths")]
    assert shown.count("⚠ collapsed") == 1
    assert shown.count("✓ ok") == 1


def test_a_quick_look_is_shown_beside_the_paper_but_not_compared(put, page, bare_content):
    put(bare_content("ddsh", protocol="cifar10-quick"))
    [table] = _Elements(page()).texts("table", class_="map")
    assert "paper 0.769" in table
    assert "▼" not in table


def test_experiments_with_names_alike_get_files_of_their_own(put, read, tmp_path, bare_content):
    for number, name in enumerate(["a b", "a/b", "../a-b", "a-b-2"]):
        put(bare_content("ddsh", experiment=name, seconds=1.0), f"{number}.json")
    report = write_report(read()[0], tmp_path / "report", formats=["svg"])
    assert len(set(report.figures)) == 4
    assert {path.parent for path in report.figures} == {tmp_path / "report" / "figures"}
    assert all(path.is_file() for path in report.figures)


def test_a_report_that_cannot_be_written_leaves_the_old_one(put, read, tmp_path, bare_content):
    put(bare_content("ddsh"))
    page = write_report(read()[0], tmp_path / "report", formats=()).page
    before = page.read_bytes()
    with pytest.raises(UnknownName, match="Unknown format 'gif'"):
        write_report(read()[0], tmp_path / "report", formats=["gif"])
    assert page.read_bytes() == before
    assert [path.name for path in page.parent.iterdir()] == ["index.html"]


def test_progress_is_told_figure_by_figure(put, read, tmp_path, bare_content):
    put(bare_content("ddsh", seconds=1.0))
    put(bare_content("ddsh", 24))
    steps = []
    write_report(read()[0], tmp_path / "report", formats=(), on_progress=lambda *step: steps.append(step))
    assert steps == [(1, 2), (2, 2)]


def test_a_folder_without_results_is_refused(tmp_path, put):
    with pytest.raises(ArtefactError, match="nowhere is not a folder"):
        read_folder(tmp_path / "nowhere")
    folder = put("{", "broken.json").parent
    with pytest.raises(ArtefactError, match=r"holds no results \(.*broken.json is damaged"):
        read_folder(folder)


def test_results_none_of_which_can_be_shown_are_refused(put, read, tmp_path, bare_content):
    put(bare_content("ddsh", 5000))
    with pytest.raises(ArtefactError, match="None of 1 results can be shown"):
        write_report(read()[0], tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_package_files_of_the_page_are_there():
    import ddsh.report

    folder = Path(ddsh.report.__file__).parent
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert {"templates/page.html", "templates/page.css", "templates/page.js", "paper.toml"} <= names


@pytest.fixture
def several(put, bare_content):
    """Results of an ablation, two comparisons with the paper and a sweep of settings."""
    for name, dataset in (("ablation", "sample"), ("choose-cifar10", "cifar10"), ("map-cifar10", "cifar10")):
        put(bare_content("ddsh", experiment=name, dataset=dataset, protocol=dataset), f"{name}.json")
    for label in ("dsh", "lsh"):
        put(bare_content(label, experiment="map-svhn", dataset="svhn", protocol="svhn"), f"{label}.json")


def test_comparisons_with_the_paper_come_first_and_choices_last(several, page):
    assert _Elements(page()).texts("h2") == ["map-svhn", "map-cifar10", "ablation", "choose-cifar10"]


def test_the_experiment_asked_for_is_first_or_alone(several, page):
    assert _Elements(page(first=["ablation"])).texts("h2")[:2] == ["ablation", "map-svhn"]
    assert _Elements(page(first=["ablation"], only_first=True)).texts("h2") == ["ablation"]
    with pytest.raises(UnknownName, match="Did you mean 'ablation'"):
        page(first=["ablations"])


def test_the_index_leads_to_every_section_and_its_parts(several, page):
    elements = _Elements(page())
    links = [attributes["href"][1:] for tag, attributes, _ in elements.found if tag == "a"]
    assert {"map-svhn", "map-svhn:provenance", "choose-cifar10"} <= set(links)
    assert set(links) <= {attributes.get("id") for _, attributes, _ in elements.found}


def test_only_the_first_experiment_is_unfolded(put, page, new_content):
    for number, name in enumerate(("map-cifar10", "second")):
        put(new_content(experiment=name), f"{number}.json")
    text = page()
    first, second = text.split('<section id="')[1:]
    assert '<article id="map-cifar10:case-study"><details open>' in first
    assert '<article id="second:case-study"><details>' in second
    assert '<article id="second:table"><details open>' in second


def test_figures_are_svg_files_unless_other_formats_are_asked_for(put, read, tmp_path, bare_content):
    put(bare_content(seconds=1.0))
    assert [path.suffix for path in write_report(read()[0], tmp_path / "a").figures] == [".svg"]
    assert [path.suffix for path in write_report(read()[0], tmp_path / "b", formats=["pdf"]).figures] == [".pdf"]


def test_paths_may_be_strings(put, bare_content, tmp_path):
    put(bare_content())
    results, _ = read_folder(str(tmp_path / "results"))
    assert write_report(results, str(tmp_path / "report"), formats=()).page.is_file()
