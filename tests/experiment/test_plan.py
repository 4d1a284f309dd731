import json
from dataclasses import replace
from pathlib import Path

import pytest

from ddsh.datasets import load
from ddsh.errors import InvalidInput, UnknownName
from ddsh.evaluation.results import network_params
from ddsh.experiment import Method, Spec, plan, read_spec
from ddsh.experiment.plan import build

ROOT = Path(__file__).parents[2]
SPEC = Spec("x", "sample", "sample", (8, 12), (0,), (Method("lsh", "lsh", {}),))


@pytest.fixture(scope="module")
def sample():
    return load("sample")


@pytest.fixture
def put(tmp_path, sample):
    """Writes the result of a run as the runner would."""

    def write(spec, run, **changes):
        hasher = build(run, spec)
        params = hasher.describe_params()
        content = {
            "experiment": spec.name,
            "label": run.label,
            "method": run.method,
            "n_bits": run.n_bits,
            "dataset": "sample",
            "protocol": spec.protocol,
            "network": params.get("network", "pixels"),
            "seed": run.seed,
            "split": spec.rule().split(sample, run.seed).fingerprint,
            "params": params,
            "scores": {"map": 0.5, "map_low": 0.5, "map_high": 0.5},
        }
        path = spec.folder(tmp_path) / run.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content | changes))
        return path

    return write


def _refused(*arguments, **options):
    with pytest.raises(InvalidInput) as caught:
        plan(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_only_what_is_missing_is_planned(put, sample, tmp_path):
    first, second = SPEC.runs()
    assert plan(SPEC, sample, tmp_path).missing == (first, second)
    put(SPEC, first)
    todo = plan(SPEC, sample, tmp_path)
    assert (todo.missing, todo.n_there) == ((second,), 1)
    assert plan(SPEC, sample, tmp_path, force=True).missing == (first, second)


def test_a_truncated_result_is_made_again(put, sample, tmp_path):
    first, second = SPEC.runs()
    put(SPEC, second)
    path = put(SPEC, first)
    path.write_text(path.read_text()[:100])
    assert plan(SPEC, sample, tmp_path).missing == (first,)


def test_results_of_another_split_are_not_added_to(put, sample, tmp_path):
    first = next(SPEC.runs())
    put(SPEC, first, split="f" * 64)
    assert "another split of sample (seed 0: ffffffff" in _refused(SPEC, sample, tmp_path)
    assert len(plan(SPEC, sample, tmp_path, force=True).missing) == 2
    assert "another split" in _refused(SPEC.with_bits([12]), sample, tmp_path, force=True)
    other_seed = replace(SPEC, seeds=(1,))
    assert len(plan(other_seed, sample, tmp_path).missing) == 2


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"params": {"n_bits": 8, "seed": 0, "colour": 3}}, None),
        ({"params": {"n_bits": 99, "seed": 7, "device": "cuda"}}, None),
        ({"method": "ddsh"}, "method"),
        ({"network": "small"}, "network"),
        ({"image_size": 28}, "image_size"),
    ],
)
def test_a_result_with_other_parameters_is_not_added_to(put, sample, tmp_path, changes, word):
    first, second = SPEC.runs()
    put(SPEC, first, **changes)
    if word is None:
        assert plan(SPEC, sample, tmp_path).missing == (second,)
    else:
        assert f"other parameters ({word}: lsh-8bits-seed0.json)" in _refused(SPEC, sample, tmp_path)
        assert "other parameters" in _refused(SPEC.with_bits([12]), sample, tmp_path)


def test_deep_methods_are_compared_by_what_they_were_given(put, sample, tmp_path):
    params = {"network": "small-grey", "preset": "scratch", "training": {"epochs": 3}}
    spec = replace(SPEC, methods=(Method("deep", "ddsh", params),))
    first, second = spec.runs()
    path = put(spec, first)
    assert plan(spec, sample, tmp_path).missing == (second,)
    changed = replace(spec, methods=(Method("deep", "ddsh", params | {"training": {"epochs": 4}}),))
    assert "training" in _refused(changed, sample, tmp_path)
    frozen = replace(spec, n_frozen=2)
    content = json.loads(path.read_text())
    del content["params"]["n_frozen"]
    path.write_text(json.dumps(content))
    assert plan(spec, sample, tmp_path).missing == (second,)
    assert "n_frozen" in _refused(frozen, sample, tmp_path)


def test_the_network_of_an_experiment_goes_to_methods_on_images_that_name_none(tmp_path):
    methods = (Method("a", "ddsh", {}), Method("b", "ddsh", {"network": "small", "image_size": 40}))
    spec = replace(SPEC, methods=methods, network="small-grey", n_frozen=1, bits=(8,))
    first, second = (build(run, spec, tmp_path).get_params() for run in spec.runs())
    assert (first["network"], first["image_size"], first["n_frozen"], first["n_bits"]) == ("small-grey", None, 1, 8)
    assert (second["network"], second["image_size"], second["n_frozen"]) == ("small", 40, 1)
    assert first["memory"] == str(tmp_path)
    assert "memory" not in build(next(spec.runs()), spec, tmp_path).describe_params()


def test_an_extension_that_trains_a_network_gets_that_of_the_experiment(tmp_path):
    methods = (
        Method("a", "fasth", {"extension": "cnn"}),
        Method("b", "fasth", {"extension": {"kind": "cnn", "network": "small", "training": {"epochs": 7}}}),
    )
    spec = replace(SPEC, methods=methods, network="small-grey", image_size=30, bits=(8,))
    first, second = (network_params(build(run, spec, tmp_path)) for run in spec.runs())
    assert (first["network"], first["image_size"], first["kind"]) == ("small-grey", 30, "cnn")
    assert (second["network"], second["image_size"], second["training"]["epochs"]) == ("small", 30, 7)
    quick = spec.quicker()
    assert [network_params(build(run, quick))["training"]["epochs"] for run in quick.runs()] == [1, 1]


def test_results_on_validation_are_compared_with_their_kind(put, sample, tmp_path):
    spec = replace(SPEC, protocol="sample-validation")
    first, second = spec.runs()
    put(spec, first)
    assert plan(spec, sample, tmp_path).missing == (second,)
    put(spec, first, split="f" * 64)
    assert "another split" in _refused(spec, sample, tmp_path)


def test_methods_on_features_take_no_network():
    spec = replace(SPEC, network="small-grey")
    assert build(next(spec.runs()), spec).get_params() == {"n_bits": 8, "seed": 0}


def test_a_quick_look_trains_for_fewer_passes():
    params = {"network": "small-grey", "training": {"epochs": 30, "learning_rate": 0.5}}
    spec = replace(SPEC, methods=(Method("ddsh", "ddsh", params),)).quicker()
    training = build(next(spec.runs()), spec).training
    assert (training.epochs, training.learning_rate) == (1, 0.5)


@pytest.mark.parametrize(
    ("method", "params", "kind", "word"),
    [
        ("lhs", {}, UnknownName, "Did you mean 'lsh'"),
        ("lsh", {"colour": 3}, InvalidInput, "lsh has no parameter colour"),
        ("ddsh", {"network": "smal"}, UnknownName, "Did you mean 'small'"),
        ("ddsh", {"training": {"colour": 3}}, InvalidInput, "do not fit ddsh"),
        ("ddsh", {"training": 3}, InvalidInput, "ours"),
    ],
)
def test_methods_that_cannot_be_are_refused_before_any_work(sample, tmp_path, method, params, kind, word):
    for spec in (SPEC, SPEC.quicker()):
        with pytest.raises(kind, match=word):
            plan(replace(spec, methods=(Method("ours", method, params),)), sample, tmp_path)


def test_an_unknown_network_for_features_is_refused_before_any_work(sample, tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'cnn-f'"):
        plan(replace(SPEC, network="cnnf"), sample, tmp_path)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_the_results_that_come_with_the_code_fit_their_experiments(sample, path):
    spec = read_spec(path)
    if spec.dataset == "sample":
        plan(spec, sample, ROOT / "results")
