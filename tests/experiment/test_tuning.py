import numpy as np
import pytest

from ddsh.datasets import get_protocol, load
from ddsh.errors import InvalidInput
from ddsh.experiment import rate_grid, rates_around, read_spec, tune


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


def test_tuning_finds_the_rate_that_learns_and_survives_the_one_that_diverges():
    sample = load("sample")
    split = get_protocol("sample").split(sample, 0)
    few = type(split)(split.query, split.train[:1200], split.database, split.protocol, 0)
    params = {"n_bits": 12, "backbone": "small-grey", "preset": "scratch", "n_omega": 50, "training": {"epochs": 2}}
    trials = tune("ddsh", params, sample, few, [1e-7, 0.3, 1e30])
    assert trials[0].learning_rate == 0.3
    assert trials[-1].map == 0.0
    with pytest.raises(InvalidInput, match="nothing to tune"):
        tune("lsh", {"n_bits": 8}, sample, few, [0.1])


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


def test_the_range_follows_the_methods_own_rate_and_folds_are_averaged(sample_split):
    sample, split = sample_split
    assert rates_around(0.05) == pytest.approx([0.005, 0.0158, 0.05, 0.158, 0.5], rel=1e-2)
    few = type(split)(split.query, split.train[::10], split.database, split.protocol, 0)
    params = {"n_bits": 8, "backbone": "small-grey", "preset": "scratch", "n_omega": 20, "training": {"epochs": 1}}
    trials = tune("ddsh", params, sample, few, [0.3], n_folds=2)
    assert len(trials) == 1
    assert 0.1 < trials[0].map < 1


@pytest.fixture(scope="module")
def sample_split():
    sample = load("sample")
    return sample, get_protocol("sample").split(sample, 0)
