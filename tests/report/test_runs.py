import copy
from pathlib import Path

import pytest
from handmade import new_content
from hypothesis import given
from hypothesis import strategies as st

from ddsh.evaluation.records import Record
from ddsh.report.runs import read_runs

BROKEN = {
    "history": [{"loss": 1.0}],
    "bits": {"share": [0.5]},
    "outputs": {"edges": [0, 1], "counts": [1, 2, 3]},
    "machine": {"cores": "two"},
    "seconds": float("nan"),
    "peak_memory": -1,
}


def _runs(content):
    return read_runs([Record(Path("r.json"), content)])


def test_all_parts_of_a_result_are_read():
    [run], problems = _runs(new_content())
    assert problems == []
    assert (run.bits.n_distinct, run.outputs.counts[0], run.machine.cpu) == (4321, 40, "A fast one")
    assert (run.history[1].number, run.history[1].loss, run.history[1].objective) == (2, 0.5, 450.0)
    assert (run.by_rank.place[1], run.by_radius.place, run.by_radius.recall[1]) == (10, (0, 1, 2), 0.6)
    assert [query.label for query in run.examples.queries] == ["cat", "ship"]
    assert (run.seconds, run.peak_memory) == (61.0, 3 << 30)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_part_is_one_line_and_the_rest_stays(name):
    [run], problems = _runs(new_content(**{name: BROKEN[name]}))
    assert problems == [f"r.json: {name} is not what it should be and is left out."]
    assert not getattr(run, name)
    assert run.by_rank is not None


@pytest.mark.parametrize(
    "change",
    [
        {"sheet": "https://example.org/spy.png"},
        {"sheet": "data:image/jpeg;base64,AAAA);}body{display:none"},
        {"sheet": "data:image/svg+xml;base64,AAAA"},
        {"sheet": "data:image/jpeg;base64,AAAA"},
        {"sheet": new_content()["examples"]["sheet"][:400]},
        {"tile": 7},
        {"tile": 0},
        {"tile": 10**6},
        {"columns": 5},
        {"columns": 1},
        {"queries": []},
        {"queries": [{"row": 1}]},
    ],
)
def test_examples_that_could_do_harm_or_do_not_fit_are_left_out(change):
    content = new_content()
    [run], problems = _runs(content | {"examples": content["examples"] | change})
    assert run.examples is None
    assert len(problems) == 1


@pytest.mark.parametrize("change", [{"n_bits": 0}, {"n_bits": 5000}, {"seed": -1}])
def test_a_result_out_of_range_is_left_out(change):
    runs, problems = _runs(new_content() | change)
    assert runs == []
    assert len(problems) == 1


def test_a_map_above_one_is_left_out():
    content = new_content()
    runs, problems = _runs(content | {"scores": content["scores"] | {"map_high": 1.5}})
    assert (runs, len(problems)) == ([], 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PATHS = [
    (name,) for name in ("history", "bits", "outputs", "examples", "machine", "seconds", "peak_memory", "versions")
] + [
    ("bits", "share"),
    ("bits", "n_codes"),
    ("outputs", "edges"),
    ("examples", "queries"),
    ("examples", "columns"),
    ("examples", "sheet"),
    ("machine", "memory"),
    ("scores", "precision_recall"),
    ("scores", "precision_recall", "by_rank"),
    ("scores", "precision_recall", "by_rank", "rank"),
    ("scores", "precision_recall", "by_radius", "recall"),
]


@given(path=st.sampled_from(PATHS), value=JSON)
def test_whatever_stands_in_a_part_the_result_is_still_read(path, value):
    content = copy.deepcopy(new_content())
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    runs, problems = _runs(content)
    assert len(runs) == 1
    assert len(problems) <= 2
