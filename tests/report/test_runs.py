import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddsh.errors import ArtefactError
from ddsh.evaluation.examples import Examples
from ddsh.evaluation.result import Result
from ddsh.report.runs import read_runs

INCONSISTENT = {
    "history": [{"epoch": 1, "loss": float("inf")}],
    "bits": {"share": [0.5], "entropy": [0.5, 0.5]},
    "outputs": {"edges": [0.0, 1.0], "counts": [1, 2, 3]},
    "seconds": float("nan"),
}


@pytest.fixture
def runs(put):
    """Read the run of a result that was written to a file."""
    return lambda content: read_runs([Result.read(put(content, "r.json"))])


def test_all_parts_of_a_result_are_read(runs, new_content):
    [run], problems = runs(new_content())
    assert problems == []
    assert (run.bits.n_distinct, run.outputs.counts[0], run.machine.cpu) == (4321, 40, "A fast one")
    assert (run.history[1].epoch, run.history[1].loss, run.history[1].objective) == (2, 0.5, 450.0)
    assert (run.by_rank.at[1], run.by_radius.at, run.by_radius.recall[1]) == (10, (0, 1, 2), 0.6)
    assert [query.label for query in run.examples.queries] == ["cat", "ship"]
    assert (run.seconds, run.peak_memory) == (61.0, 3 << 30)
    assert (run.network, run.image_size, run.n_frozen) == ("efficientnet-lite0", 112, 6)


@pytest.mark.parametrize("name", INCONSISTENT)
def test_an_inconsistent_part_is_one_line_and_the_rest_stays(runs, new_content, name):
    content = new_content()
    part = INCONSISTENT[name]
    content[name] = content[name] | part if isinstance(part, dict) else part
    [run], [problem] = runs(content)
    assert problem.endswith(f"r.json: {name} is inconsistent; it is left out.")
    assert not getattr(run, name)
    assert run.by_rank is not None


@pytest.mark.parametrize(
    "change",
    [
        {"sheet": b"<svg></svg>"},
        {"sheet": b"\xff\xd8"},
        {"tile": 7},
        {"tile": 0},
        {"tile": 10**6},
        {"columns": 5},
        {"columns": 1},
        {"queries": []},
        {"queries": [{"row": 1}]},
        {"queries": [{"row": 1, "label": "a", "hits": [1], "distances": [], "labels": ["a"], "relevant": [True]}]},
    ],
)
def test_examples_that_cannot_be_shown_are_left_out(runs, new_content, change):
    content = new_content()
    [run], problems = runs(content | {"examples": content["examples"] | change})
    assert run.examples is None
    assert len(problems) == 1


@pytest.mark.parametrize("change", [{"n_bits": 0}, {"n_bits": 5000}, {"seed": -1}])
def test_a_result_out_of_range_is_left_out(runs, new_content, change):
    found, problems = runs(new_content() | change)
    assert found == []
    assert len(problems) == 1


def test_a_map_above_one_is_left_out(runs, new_content):
    content = new_content()
    found, problems = runs(content | {"scores": content["scores"] | {"map_high": 1.5}})
    assert (found, len(problems)) == ([], 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PATHS = [
    *((name,) for name in ("history", "bits", "outputs", "machine", "seconds", "peak_memory", "versions")),
    ("bits", "share"),
    ("bits", "n_codes"),
    ("outputs", "edges"),
    ("machine", "memory"),
    ("scores", "success_rate"),
    ("scores", "precision_recall"),
    ("scores", "precision_recall", "by_rank"),
    ("scores", "precision_recall", "by_rank", "rank"),
    ("scores", "precision_recall", "by_radius", "recall"),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), value=JSON)
def test_whatever_a_part_holds_the_result_is_refused_or_read(runs, new_content, path, value):
    content = copy.deepcopy(new_content(examples=None))
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    try:
        found, problems = runs(content)
    except ArtefactError:
        return
    assert len(found) == 1
    assert len(problems) <= 2


@given(st.dictionaries(st.sampled_from(["tile", "columns", "queries"]), JSON))
def test_whatever_examples_hold_they_are_refused_or_left_out(tmp_path_factory, new_content, changes):
    content = new_content()
    sheet = content["examples"].pop("sheet")
    try:
        examples = Examples.model_validate({k: v for k, v in (content["examples"] | changes).items() if k != "version"})
    except ValueError:
        return
    examples._jpeg = sheet
    result = Result.model_validate({k: v for k, v in content.items() if k not in ("version", "examples")})
    result._examples = examples
    [run], problems = read_runs([result])
    assert (run.examples is None) == bool(problems)
