from types import SimpleNamespace

import numpy as np
import pytest

from ddsh.datasets import get_protocol, load
from ddsh.errors import InvalidInput, UnknownName
from ddsh.experiment import MethodSpec, Spec, Trial, rate_grid, read_spec, search, write_settings
from ddsh.labels import as_labels


def test_a_specification_becomes_a_grid(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(
        'dataset = "sample"\nprotocol = "sample"\nbits = [8, 12]\nseeds = [0, 1]\n'
        '[methods.plain]\nmethod = "lsh"\n[methods.lsh]\n'
    )
    runs = list(read_spec(path).runs())
    assert len(runs) == len({run.file_name for run in runs}) == 8
    assert {(run.label, run.method) for run in runs} == {("plain", "lsh"), ("lsh", "lsh")}


@pytest.mark.parametrize("text", ["dataset = ", "bits = [1]", 'dataset = "x"\ncolour = "red"', "\0"])
def test_a_specification_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"x\.toml") as caught:
        read_spec(tmp_path / "x.toml")
    assert "\n" not in str(caught.value)


def test_rates_are_spaced_evenly_in_their_logarithm():
    assert rate_grid(1e-6, 1e-2, 5) == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    with pytest.raises(InvalidInput):
        rate_grid(1.0, 0.1, 3)


def test_a_validation_split_holds_training_images_only():
    sample = load("sample")
    split = get_protocol("sample").split(sample, 0)
    validation = split.validation(sample)
    parts = [validation.query, validation.train, validation.database]
    assert [len(part) for part in parts] == [500, 4000, 500]
    assert np.array_equal(np.sort(np.concatenate(parts)), split.train)
    assert not set(split.query) & set(np.concatenate(parts))
    assert sample.labels.take(validation.query).counts() == dict.fromkeys(range(10), 50)
    assert validation.fingerprint != split.fingerprint


def test_folds_hold_out_every_training_image_once_and_keep_the_classes(sample_split):
    sample, split = sample_split
    folds = split.folds(sample, 4)
    held = [np.concatenate([fold.query, fold.database]) for fold in folds]
    assert np.array_equal(np.sort(np.concatenate(held)), split.train)
    for fold, part in zip(folds, held, strict=True):
        assert np.array_equal(np.sort(np.concatenate([fold.train, part])), split.train)
        assert abs(len(fold.query) - len(fold.database)) <= 1
        assert set(sample.labels.take(part).counts().values()) == {len(split.train) // 40}
    for bad in (1, len(split.train)):
        with pytest.raises(InvalidInput, match="folds"):
            split.folds(sample, bad)


def test_a_held_out_part_searches_trained_images_too_as_often_as_the_protocol_does(sample_split):
    sample, split = sample_split
    held = get_protocol("sample-held-out-30").split(sample, 0)
    assert (len(held.query), len(held.train)) == (750, 3500)
    assert not set(held.query) & (set(held.train) | set(held.database))
    assert set(held.database) | set(held.query) <= set(split.train)
    share = np.isin(split.database, split.train).mean()
    assert np.isin(held.database, held.train).mean() == pytest.approx(share, abs=0.001)
    assert held.protocol.name == "sample-held-out-30"
    assert held.fingerprint != get_protocol("sample-held-out-20").split(sample, 0).fingerprint


def test_each_seed_of_a_cross_validation_is_one_of_its_parts(sample_split):
    sample, split = sample_split
    rule = get_protocol("sample-folds-4")
    for seed, fold in enumerate(split.folds(sample, 4)):
        assert np.array_equal(rule.split(sample, seed).query, fold.query)
    for name in ("sample-folds", "sample-held-out-x"):
        with pytest.raises(UnknownName):
            get_protocol(name)


LABELS = as_labels([0, 1])
SPEC = Spec(name="x", dataset="sample", protocol="sample", bits=(8,), seeds=(0,), methods=())


def fake_results(score):
    """Execute a trial without training: its score is a function of the parameters that were given."""

    def run(row):
        value = score(row.params)
        scores = SimpleNamespace(average_precision=np.array([value - 0.1, value + 0.1]))
        return None if value is None else [SimpleNamespace(map=value, scores=scores)]

    return run


def rate_and_batch(params):
    training = params.get("training", {})
    rate, batch = training.get("learning_rate", 0.05), training.get("batch_size", 64)
    return 1 - abs(np.log(rate / 1.4)) / 10 - abs(np.log2(batch / 16)) / 10


def test_the_search_grows_its_range_while_the_best_value_lies_at_the_end():
    row = MethodSpec(label="dsh", method="dsh", params={"training": {"learning_rate": 0.05}})
    trials = list(search(row, SPEC, LABELS, 8, fake_results(rate_and_batch)))
    assert [trial.changes.get("training.learning_rate", 0.05) for trial in trials[:5]] == [0.05, 0.15, 0.45, 1.4, 4.2]
    best = max(trials, key=lambda trial: trial.map)
    assert best.changes == {"training.learning_rate": 1.4, "training.batch_size": 16}
    assert best.row.label == "dsh-batch_size-16-learning_rate-1.4"
    assert best.row.params == {"training": {"learning_rate": 1.4, "batch_size": 16}}
    assert best.error == pytest.approx(0.1 / np.sqrt(2))
    assert len(trials) == 8


@pytest.mark.parametrize("method", ["ddsh", "ddsh0", "ddsh-mac", "dsh", "dpsh", "dhn"])
@pytest.mark.parametrize("budget", [1, 8, 30])
def test_no_trial_is_repeated_and_none_is_beyond_the_budget(method, budget):
    row = MethodSpec(label=method, method=method, params={"training": {"epochs": 3}})
    rng = np.random.default_rng(budget)
    trials = list(search(row, SPEC, LABELS, budget, fake_results(lambda _: float(rng.random()))))
    assert len({trial.row.label for trial in trials}) == len(trials) <= budget
    assert all(trial.row.params["training"]["epochs"] == 3 for trial in trials)
    assert trials[0].row == row


def test_the_search_of_a_network_that_learns_codes_leads_into_its_extension():
    row = MethodSpec(label="cosdish-cnn", method="cosdish", params={"extension": "cnn"})
    trials = list(search(row, SPEC, LABELS, 2, fake_results(lambda _: 0.5)))
    assert trials[1].row.params == {"extension": {"kind": "cnn", "training": {"learning_rate": 0.15}}}


def test_a_failed_trial_counts_and_a_method_without_a_network_has_none():
    row = MethodSpec(label="dpsh", method="dpsh")
    trials = list(search(row, SPEC, LABELS, 3, lambda row: None))
    assert [trial.map for trial in trials] == [0, 0, 0]
    with pytest.raises(InvalidInput, match="lsh does not train a network"):
        next(search(MethodSpec(label="lsh", method="lsh"), SPEC, LABELS, 3, fake_results(rate_and_batch)))


def test_multi_label_choices_are_tried_on_multi_label_images_only():
    row = MethodSpec(label="ddsh", method="ddsh")
    tried = {}
    for name, labels in (("single", [0, 1]), ("multi", [[1, 1, 0], [0, 1, 1]])):
        trials = list(search(row, SPEC, as_labels(labels), 8, fake_results(lambda _: 0.5)))
        tried[name] = set().union(*(trial.changes for trial in trials))
    assert "multilabel" in tried["multi"] - tried["single"]
    assert "training.batch_size" in tried["multi"] & tried["single"]


def test_the_best_settings_are_rows_of_an_experiment(tmp_path):
    row = MethodSpec(label="mine", method="dsh", params={"training": {"epochs": 3, "learning_rate": 0.05}})
    trials = {"mine": list(search(row, SPEC, LABELS, 8, fake_results(rate_and_batch)))}
    trials["dpsh"] = [Trial(MethodSpec(label="dpsh", method="dpsh"), {}, 0.5, 0.01)]
    write_settings(tmp_path / "x.toml", SPEC, trials)
    head = 'dataset = "sample"\nprotocol = "sample"\nbits = [8]\nseeds = [0]\n'
    (tmp_path / "y.toml").write_text(head + (tmp_path / "x.toml").read_text())
    mine, dpsh = read_spec(tmp_path / "y.toml").methods
    assert mine.method == "dsh"
    assert mine.params == {"training": {"epochs": 3, "learning_rate": 1.4, "batch_size": 16}}
    assert dpsh.method == "dpsh"
    assert "Best of 8 trials: validation MAP 1.0000" in (tmp_path / "x.toml").read_text()


@pytest.fixture(scope="module")
def sample_split():
    sample = load("sample")
    return sample, get_protocol("sample").split(sample, 0)
