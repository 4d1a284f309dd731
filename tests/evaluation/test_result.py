import json
import os
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.errors import ArtefactError
from ddsh.evaluation import Result, Spread, read_results, summarise


def _content(**changes):
    scores = {"map": 0.5, "map_low": 0.4, "map_high": 0.6, "precision_at": {"100": 0.7}, "success_rate": {"2": 0.9}}
    return {
        "experiment": "x",
        "label": "ours",
        "method": "ddsh",
        "n_bits": 12,
        "dataset": "sample",
        "protocol": "sample",
        "network": "small-grey",
        "seed": 0,
        "split": "a" * 64,
        "params": {"n_bits": 12},
        "scores": scores,
        "seconds": 3.0,
    } | changes


@pytest.fixture
def write(tmp_path):
    def to_file(name, content):
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to_file


def test_a_result_of_old_is_read_though_keys_are_absent(write):
    record = Result.read(write("x/a.json", _content()))
    assert (record.experiment, record.label, record.method, record.n_bits) == ("x", "ours", "ddsh", 12)
    assert (record.dataset, record.protocol, record.network, record.seed) == ("sample", "sample", "small-grey", 0)
    found = record.metric("precision_at_100"), record.metric("success_within_2")
    assert (record.map, *found, record.seconds) == (0.5, 0.7, 0.9, 3.0)
    assert (record.metric("nothing"), record.split) == (None, "a" * 64)
    assert [record.bits, record.outputs, record.examples, record.machine, record.commit] == [None] * 5
    assert (record.peak_memory, record.history, record.params) == (None, [], {"n_bits": 12})


def test_a_result_of_old_has_its_network_and_its_training_in_the_words_of_today(write):
    training = {"passes": 3, "final_rate": 0.1, "batch_size": 8}
    network = {"network": "cnn-f", "image_size": 64, "n_frozen": 5, "training": training, "device": "cpu"}
    facts = {"image_size": None, "weights": "w", "history": [{"pass": 1, "loss": 0.5}]}
    backbone = {"name": "cnn-f", "image_size": 64, "weights": "w", "n_frozen": 5}
    epochs = {"epochs": 3, "final_lr": 0.1, "batch_size": 8}
    own = Result.read(
        write("x/a.json", _content(network="cnn-f", params={"n_bits": 12, "preset": None, **network}, **facts))
    )
    assert own.params == {"n_bits": 12, "training": epochs}
    extension = {"n_bits": 12, "extension": network}
    within = Result.read(write("x/b.json", _content(network="cnn-f", params=extension, **facts)))
    assert within.params == {"n_bits": 12, "extension": {"training": epochs}}
    for result in (own, within):
        assert (result.network, result.backbone.model_dump()) == ("cnn-f", result.backbone.model_dump() | backbone)
        assert [(record.epoch, record.loss) for record in result.history] == [(1, 0.5)]
    pixels = Result.read(write("x/c.json", _content(network="pixels")))
    assert (pixels.network, pixels.backbone) == ("pixels", None)


def test_a_result_of_another_version_is_refused(write):
    with pytest.raises(ArtefactError, match="has version 77; this ddsh reads version"):
        Result.read(write("x/a.json", _content(version=77)))


def test_a_copy_with_other_facts_leaves_the_first_as_it_was_and_is_written(write, tmp_path):
    first = Result.read(write("x/a.json", _content()))
    copied = first.with_facts(experiment="y", seed=3)
    copied.write(tmp_path / "b.json")
    assert (first.experiment, first.seed) == ("x", 0)
    assert (copied.path, copied.examples) == (tmp_path / "b.json", None)
    read = Result.read(tmp_path / "b.json")
    assert (read.experiment, read.seed, read.label, read.map) == ("y", 3, "ours", 0.5)


def test_results_are_found_in_a_folder_and_in_folders_of_experiments_but_not_among_quick_ones(write, tmp_path):
    write("a.json", _content(seed=0))
    write("x/b.json", _content(seed=1))
    write("quick/x/c.json", _content(seed=2))
    (tmp_path / "results" / "x" / "b.checkpoints").mkdir()
    records, problems = read_results(tmp_path / "results")
    assert [record.seed for record in records] == [0, 1]
    assert problems == []
    assert [record.seed for record in read_results(tmp_path / "results" / "quick")[0]] == [2]
    assert read_results(tmp_path / "nowhere") == ([], [])


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(_content())[:200],
        "",
        "\0",
        "[" * 100_000,
        "[]",
        "3",
        json.dumps({"name": "package.json"}),
        json.dumps(_content(scores={})),
        json.dumps(_content(scores={"map": float("nan"), "map_low": 0, "map_high": 1})),
        json.dumps(_content(scores={"map": 10**400, "map_low": 0, "map_high": 1})),
        json.dumps(_content(scores=_content()["scores"] | {"precision_at": [1]})),
        json.dumps(_content(scores=_content()["scores"] | {"success_rate": {"2": None}})),
        json.dumps(_content(n_bits="12")),
        json.dumps(_content(params=None)),
        json.dumps(_content(bits=[1])),
        json.dumps(_content(seconds="long")),
    ],
)
def test_a_file_that_is_no_result_is_one_line_and_the_others_are_read(write, tmp_path, content):
    write("x/a.json", _content())
    bad = write("x/bad.json", content)
    records, problems = read_results(tmp_path / "results")
    assert len(records) == len(problems) == 1
    assert str(bad) in problems[0]
    assert "\n" not in problems[0]


def test_a_pipe_does_not_block_the_reader(write, tmp_path):
    folder = write("x/a.json", _content()).parent
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    records, problems = read_results(tmp_path / "results")
    assert (len(records), len(problems)) == (1, 2)


def test_files_that_are_not_utf8_or_not_there_are_refused(write):
    path = write("x/a.json", _content())
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ArtefactError, match="damaged"):
        Result.read(path)
    with pytest.raises(ArtefactError, match="does not exist"):
        Result.read(path.with_name("b.json"))


def test_the_same_run_counts_once(write, tmp_path):
    write("x/a.json", _content())
    write("x/copy.json", _content())
    records, problems = read_results(tmp_path / "results")
    assert len(records) == 1
    assert "same run" in problems[0]


def test_results_of_different_splits_are_reported_once_for_each_seed(write, tmp_path):
    for number, (seed, split) in enumerate([(0, "a"), (0, "b"), (0, "c"), (1, "d"), (1, "d"), (2, "a")]):
        write(f"x/{number}.json", _content(seed=seed, split=split * 64, n_bits=8 + number))
    records, problems = read_results(tmp_path / "results")
    assert len(records) == 6
    assert len(problems) == 1
    assert "different splits" in problems[0]
    assert "aaaaaaaa" in problems[0]
    assert "bbbbbbbb" in problems[0]


def test_results_of_different_experiments_may_have_different_splits(write, tmp_path):
    write("x/a.json", _content())
    write("y/a.json", _content(experiment="y", split="b" * 64))
    assert read_results(tmp_path / "results")[1] == []


def test_seeds_are_summed_up_by_experiment_label_and_length(write, tmp_path):
    for seed, value in enumerate([0.5, 0.6, 0.7]):
        scores = _content()["scores"] | {"map": value}
        write(f"x/12-{seed}.json", _content(seed=seed, scores=scores))
    write("x/8-0.json", _content(n_bits=8, seconds=None))
    short, long = summarise(read_results(tmp_path / "results")[0])
    assert (short.n_bits, long.n_bits, short.seeds, long.seeds) == (8, 12, (0,), (0, 1, 2))
    assert (long.map.mean, long.map.deviation) == (pytest.approx(0.6), pytest.approx(0.1))
    assert long.map.text(2) == "0.60 ± 0.10"
    assert (short.map.deviation, short.map.text(2), short.seconds) == (None, "0.50", None)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_the_spread_is_that_of_a_sample(values):
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.deviation == pytest.approx(statistics.stdev(values))
