import json
import tempfile
from functools import partial

import pytest

from ddsh.datasets import load
from ddsh.errors import InvalidInput
from ddsh.evaluation import Result
from ddsh.experiment import BackboneSpec, MethodSpec, QuickSpec, Spec, run

OPEN = partial(load, "sample")
SPEC = Spec(
    name="x",
    dataset="sample",
    protocol="sample",
    bits=(8,),
    seeds=(0,),
    methods=(MethodSpec(label="lsh", method="lsh"),),
    quick=QuickSpec(n_query=40, n_train=150, n_database=300, epochs=2),
).quicker()
DEEP = MethodSpec(label="deep", method="ddsh", params={"preset": "scratch"}, backbone=BackboneSpec(name="small-grey"))


class Notes:
    """Writes down all that it is told."""

    def __init__(self):
        self.lines = []

    def on_plan(self, what):
        self.lines.append(f"{len(what.missing)} missing, {what.n_done} there")

    def on_begin(self, run):
        self.lines.append(f"begins {run.title}")

    def on_step(self, step):
        self.lines.append("step")

    def on_end(self, record):
        self.lines.append(f"ends {record.label}")

    def on_fail(self, run, reason):
        self.lines.append(f"fails {run.title}: {reason}")


@pytest.fixture
def notes():
    return Notes()


def _read(path):
    return json.loads(path.read_text())


def test_a_result_says_where_it_was_made_and_a_second_call_does_nothing(tmp_path, notes):
    outcome = run(SPEC, OPEN, tmp_path, notes, commit="abc-dirty")
    assert outcome.written == (tmp_path / "quick" / "x" / "lsh-8bits-seed0.json",)
    content = _read(outcome.written[0])
    assert (content["experiment"], content["label"], content["protocol"]) == ("x", "lsh", "sample-quick")
    assert (content["commit"], content["machine"]["device"]) == ("abc-dirty", "cpu")
    assert (content["scores"]["n_query"], content["scores"]["n_database"]) == (40, 300)
    assert Result.read(outcome.written[0]).examples is None
    assert notes.lines == ["1 missing, 0 there", "begins lsh, 8 bits, seed 0", "ends lsh"]
    again = run(SPEC, OPEN, tmp_path, notes)
    assert (again.written, again.n_done, again.failed) == ((), 1, ())
    assert _read(outcome.written[0]) == content


def test_one_run_that_fails_does_not_keep_the_others_from_being_made(tmp_path, notes):
    hopeless = DEEP.model_copy(update={"label": "hopeless", "params": DEEP.params | {"n_omega": 5000}})
    outcome = run(SPEC.replace(methods=(hopeless, *SPEC.methods)), OPEN, tmp_path, notes)
    assert [path.name for path in outcome.written] == ["lsh-8bits-seed0.json"]
    assert outcome.failed[0].startswith("hopeless, 8 bits, seed 0: n_omega is 5000")
    assert notes.lines[2].startswith("fails hopeless")


def test_a_deep_method_is_watched_and_leaves_no_checkpoints(tmp_path, notes):
    outcome = run(SPEC.replace(methods=(DEEP,), examples=SPEC.bits), OPEN, tmp_path, notes)
    content = _read(outcome.written[0])
    assert [one["epoch"] for one in content["history"]] == [1, 2]
    assert notes.lines.count("step") == 2
    assert sum(content["outputs"]["counts"]) == 40 * 8
    assert len(Result.read(outcome.written[0]).examples.queries) == 10
    names = sorted(path.name for path in outcome.written[0].parent.iterdir())
    assert names == ["deep-8bits-seed0.json", "examples"]


def test_methods_on_features_get_those_of_the_experiments_backbone(tmp_path, notes):
    spec = SPEC.replace(backbone=BackboneSpec(name="small-grey", image_size=20))
    cache = tmp_path / "cache"
    content = _read(run(spec, OPEN, tmp_path, notes, cache_dir=cache).written[0])
    assert content["backbone"] == {"name": "small-grey", "image_size": 20, "n_frozen": 0}
    assert any(cache.iterdir())
    with pytest.raises(InvalidInput, match="backbone"):
        run(SPEC, OPEN, tmp_path, notes)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_runs_of_one_call_share_features_in_a_folder_that_is_gone_afterwards(n_jobs, tmp_path, notes, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    seen = []
    notes.on_end = lambda record: seen.append([path.stat().st_size for path in elsewhere.rglob("keys.bin")])
    spec = SPEC.replace(backbone=BackboneSpec(name="small-grey", image_size=20)).with_bits([8, 12])
    together = run(spec, OPEN, tmp_path, notes, n_jobs=n_jobs).written
    assert len(seen[0]) == 1
    assert seen[0][0] >= 340 * 16
    assert seen[1] == seen[0]
    assert not any(elsewhere.iterdir())
    alone = run(spec.with_bits([12]), OPEN, tmp_path / "alone", Notes()).written[0]
    shared = next(path for path in together if path.name == alone.name)
    assert _read(shared)["scores"] == _read(alone)["scores"]


def test_runs_in_processes_of_their_own_give_the_same_results(tmp_path, notes):
    spec = SPEC.with_bits([8, 12])
    alone = run(spec, OPEN, tmp_path / "alone", Notes()).written
    together = run(spec, OPEN, tmp_path / "together", notes, n_jobs=2, commit="c").written
    assert sorted(path.name for path in together) == sorted(path.name for path in alone)
    for path in alone:
        assert _read(tmp_path / "together" / "quick" / "x" / path.name)["scores"] == _read(path)["scores"]
    assert notes.lines == ["2 missing, 0 there", "ends lsh", "ends lsh"]


def test_a_stopped_run_goes_on_from_its_checkpoint(tmp_path, notes):
    class Impatient(Notes):
        def on_step(self, step):
            if step.epoch == 2:
                raise KeyboardInterrupt

    deep = SPEC.replace(methods=(DEEP,))
    with pytest.raises(KeyboardInterrupt):
        run(deep, OPEN, tmp_path, Impatient())
    folder = tmp_path / "quick" / "x"
    assert [path.name for path in folder.iterdir()] == ["deep-8bits-seed0.checkpoints"]
    stopped = _read(run(deep, OPEN, tmp_path, notes).written[0])
    assert notes.lines.count("step") == 1
    whole = _read(run(deep, OPEN, tmp_path / "whole", Notes()).written[0])
    assert stopped["scores"] == whole["scores"]
