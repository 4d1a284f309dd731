import json

import pytest

from ddsh.backbones import Backbone
from ddsh.datasets import load
from ddsh.errors import InvalidInput, UnknownName
from ddsh.evaluation import BackboneInfo, Result, Scores
from ddsh.experiment import BackboneSpec, MethodSpec, QuickSpec, Spec, build_model, plan

SPEC = Spec(
    name="x",
    dataset="sample",
    protocol="sample",
    bits=(8, 12),
    seeds=(0,),
    methods=(MethodSpec(label="lsh", method="lsh"),),
)


def _method(label, method, backbone=None, **params):
    return MethodSpec(label=label, method=method, params=params, backbone=BackboneSpec(**backbone or {}))


@pytest.fixture(scope="module")
def sample():
    return load("sample")


@pytest.fixture
def put(tmp_path, sample):
    """Writes the result of a run as the runner would."""

    def write(spec, run, **changes):
        model = build_model(run, spec)
        result = Result(
            experiment=spec.name,
            label=run.label,
            method=run.method,
            n_bits=run.n_bits,
            dataset="sample",
            protocol=spec.protocol,
            backbone=None if model.backbone is None else BackboneInfo(**model.backbone.describe()),
            seed=run.seed,
            split=spec.split_rule().split(sample, run.seed).fingerprint,
            params=model.method.describe_params(),
            scores=Scores(map=0.5, map_low=0.5, map_high=0.5),
        )
        path = spec.folder(tmp_path) / run.file_name
        result.with_facts(**changes).write(path)
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
    assert (todo.missing, todo.n_done) == ((second,), 1)
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
    other_seed = SPEC.replace(seeds=(1,))
    assert len(plan(other_seed, sample, tmp_path).missing) == 2


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"params": {"n_bits": 8, "seed": 0, "colour": 3}}, None),
        ({"params": {"n_bits": 99, "seed": 7}}, None),
        ({"method": "ddsh"}, "method"),
        ({"backbone": BackboneInfo(name="small", image_size=28)}, "backbone"),
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


def test_deep_methods_are_compared_by_all_they_were_trained_with(put, sample, tmp_path):
    deep = _method("deep", "ddsh", {"name": "small-grey"}, preset="scratch", training={"epochs": 3})
    spec = SPEC.replace(methods=(deep,))
    first, second = spec.runs()
    put(spec, first)
    assert plan(spec, sample, tmp_path).missing == (second,)
    longer = deep.model_copy(update={"params": deep.params | {"training": {"epochs": 4}}})
    assert "training" in _refused(spec.replace(methods=(longer,)), sample, tmp_path)
    frozen = deep.model_copy(update={"backbone": BackboneSpec(name="small-grey", n_frozen=2)})
    assert "backbone" in _refused(spec.replace(methods=(frozen,)), sample, tmp_path)


def test_a_preset_that_has_changed_is_noticed(put, sample, tmp_path):
    deep = _method("deep", "ddsh", {"name": "small-grey"}, preset="scratch")
    spec = SPEC.replace(methods=(deep,))
    path = put(spec, next(spec.runs()))
    assert '"solver": "clustering"' in path.read_text()
    path.write_text(path.read_text().replace('"solver": "clustering"', '"solver": "local"'))
    assert "solver" in _refused(spec, sample, tmp_path)


def test_parameters_that_follow_the_code_length_may_differ_between_lengths(put, sample, tmp_path):
    spec = SPEC.replace(methods=(_method("cosdish", "cosdish"),))
    first, second = spec.runs()
    path = put(spec, first)
    assert json.loads(path.read_text())["params"]["n_omega"] == 8
    assert plan(spec, sample, tmp_path).missing == (second,)
    assert plan(spec.with_bits([12]), sample, tmp_path).missing == (second,)


def test_the_backbone_of_an_experiment_goes_to_methods_that_name_none(tmp_path):
    methods = (_method("a", "ddsh"), _method("b", "ddsh", {"name": "small", "image_size": 40}))
    spec = SPEC.replace(methods=methods, backbone=BackboneSpec(name="small-grey", n_frozen=1), bits=(8,))
    first, second = (build_model(run, spec, tmp_path) for run in spec.runs())
    assert first.backbone == Backbone("small-grey", n_frozen=1, cache_dir=tmp_path)
    assert second.backbone == Backbone("small", image_size=40, n_frozen=1, cache_dir=tmp_path)
    assert first.method.trained_backbone is first.backbone
    assert "backbone" not in first.method.describe_params()


def test_an_extension_that_trains_a_network_gets_the_backbone_of_the_experiment(tmp_path):
    methods = (
        _method("a", "fasth", extension="cnn"),
        _method("b", "fasth", {"name": "small"}, extension={"kind": "cnn", "training": {"epochs": 7}}),
    )
    spec = SPEC.replace(methods=methods, backbone=BackboneSpec(name="small-grey", image_size=30), bits=(8,))
    first, second = (build_model(run, spec, tmp_path) for run in spec.runs())
    assert (first.method.trained_backbone.name, first.backbone.image_size, first.method.inputs) == (
        "small-grey",
        30,
        "images",
    )
    assert (second.method.trained_backbone.name, second.backbone.image_size) == ("small", 30)
    assert second.method.describe_params()["extension"]["training"]["epochs"] == 7
    quick = spec.quicker()
    described = [build_model(run, quick).method.describe_params() for run in quick.runs()]
    assert [params["extension"]["training"]["epochs"] for params in described] == [1, 1]


def test_results_on_validation_are_compared_with_their_kind(put, sample, tmp_path):
    spec = SPEC.replace(protocol="sample-validation")
    first, second = spec.runs()
    put(spec, first, protocol="sample-validation")
    assert plan(spec, sample, tmp_path).missing == (second,)
    put(spec, first, split="f" * 64)
    assert "another split" in _refused(spec, sample, tmp_path)


def test_methods_on_features_get_those_of_the_backbone():
    spec = SPEC.replace(backbone=BackboneSpec(name="small-grey"))
    model = build_model(next(spec.runs()), spec)
    assert model.method.get_params() == {"n_bits": 8, "seed": 0}
    assert model.backbone == Backbone("small-grey")


def test_a_quick_look_trains_for_fewer_epochs():
    deep = _method("ddsh", "ddsh", {"name": "small-grey"}, training={"epochs": 30, "learning_rate": 0.5})
    spec = SPEC.replace(methods=(deep,)).quicker()
    training = build_model(next(spec.runs()), spec).method.training
    assert (training.epochs, training.learning_rate) == (1, 0.5)


def test_a_quick_look_may_have_other_parameters_of_a_row():
    deep = _method("ours", "ddsh", {"name": "small-grey"}, preset="pairs", training={"epochs": 30})
    quick = QuickSpec(epochs=3, methods={"ours": {"training": {"batch_size": 16}}})
    spec = SPEC.replace(methods=(deep,), quick=quick)
    usual, other = (build_model(next(one.runs()), one).method for one in (spec, spec.quicker()))
    assert (usual.preset, usual.training.epochs, usual.training.batch_size) == ("pairs", 30, 64)
    assert (other.preset, other.training.epochs, other.training.batch_size) == ("tuned", 3, 16)


@pytest.mark.parametrize(
    ("method", "kind", "word"),
    [
        (_method("ours", "lhs"), UnknownName, "Did you mean 'lsh'"),
        (_method("ours", "lsh", colour=3), InvalidInput, "lsh has no parameter colour"),
        (_method("ours", "ddsh", {"name": "smal"}), UnknownName, "Did you mean 'small'"),
        (_method("ours", "ddsh", training={"colour": 3}), InvalidInput, "do not fit ddsh"),
        (_method("ours", "ddsh", training=3), InvalidInput, "ours"),
    ],
)
def test_methods_that_cannot_be_are_refused_before_any_work(sample, tmp_path, method, kind, word):
    for spec in (SPEC, SPEC.quicker()):
        with pytest.raises(kind, match=word):
            plan(spec.replace(methods=(method,)), sample, tmp_path)


def test_an_unknown_backbone_for_features_is_refused_before_any_work(sample, tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'cnn-f'"):
        plan(SPEC.replace(backbone=BackboneSpec(name="cnnf")), sample, tmp_path)
