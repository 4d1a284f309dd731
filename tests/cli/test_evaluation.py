import json
from typing import get_args, get_type_hints

import numpy as np
import pytest

from ddsh.cli import evaluation
from ddsh.evaluation.metrics import APConvention
from ddsh.evaluation.scores import Ties


@pytest.fixture
def codes(tmp_path, rng):
    centres = rng.choice([-1, 1], (3, 16))
    for name, n in (("query", 20), ("database", 200)):
        labels = rng.integers(0, 3, n)
        noise = np.where(rng.random((n, 16)) < 0.1, -1, 1)
        np.savez(tmp_path / f"{name}.npz", signs=centres[labels] * noise, labels=labels)
    return tmp_path / "query.npz", tmp_path / "database.npz"


def test_score_prints_a_table(ddsh, codes):
    outcome = ddsh("score", *codes)
    assert outcome.returncode == 0
    assert "20 queries, 200 items, 16 bits" in outcome.stdout
    assert "MAP (whole ranking, ties expected)" in outcome.stdout
    assert "success rate within radius 2" in outcome.stdout


def test_score_prints_json_with_every_option(ddsh, codes):
    options = ["--top-k", 50, "--ties", "stable", "--ap-convention", "min_k", "--precision-at", 7, "--radius", 3]
    outcome = ddsh("score", *codes, *options, "--json")
    found = json.loads(outcome.stdout)
    assert (found["top_k"], found["ties"], found["ap_convention"]) == (50, "stable", "min_k")
    assert list(found["precision_at"]) == ["7"]
    assert list(found["success_rate"]) == ["3"]
    assert 0 < found["map_low"] <= found["map"] <= found["map_high"] <= 1


def test_score_offers_the_choices_of_the_library():
    options = get_type_hints(evaluation.score)
    assert get_args(options["ties"]) == get_args(Ties)
    assert get_args(options["ap_convention"]) == get_args(APConvention)


def test_a_model_is_scored_on_the_split_that_it_was_trained_on(ddsh, model, table, fails_in_one_line):
    trained = json.loads((model / "model.json").read_text())
    found = json.loads(ddsh("evaluate", model, table, "--json").stdout)
    assert found["split"] == trained["about"]["split"]
    assert "MAP (whole ranking" in ddsh("evaluate", model, table, "--device", "cpu").stdout
    fails_in_one_line(ddsh("evaluate", model, table, "--seed", 5), "another split")


def test_a_model_is_scored_on_the_first_ranks_alone(ddsh, model, table):
    whole = json.loads(ddsh("evaluate", model, table, "--json").stdout)
    first = json.loads(ddsh("evaluate", model, table, "--top-k", 2, "--json").stdout)
    assert (whole["scores"].get("top_k"), first["scores"]["top_k"]) == (None, 2)
    assert first["split"] == whole["split"]
    assert "MAP (top 2" in ddsh("evaluate", model, table, "--top-k", 2).stdout


def test_a_changed_dataset_is_named_as_the_cause(ddsh, model, table, fails_in_one_line):
    rows = table.read_text().splitlines()
    table.write_text("\n".join(rows[:-1]))
    fails_in_one_line(ddsh("evaluate", model, table), "its images or labels have changed since")


def test_a_model_is_scored_on_other_images_with_another_number_of_queries(ddsh, model, table, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(table.read_text())
    found = json.loads(ddsh("evaluate", model, other, "--queries-per-class", 1, "--json").stdout)
    assert (found["scores"]["n_query"], found["protocol"]) == (2, "own-custom")


def test_images_without_any_label_cannot_be_scored(ddsh, model, table, fails_in_one_line):
    other = table.with_name("other.csv")
    rows = [row.split(",")[0] for row in table.read_text().splitlines()[1:]]
    other.write_text("path,label\n" + "".join(f"{path},\n" for path in rows))
    fails_in_one_line(ddsh("evaluate", model, other), "no image has a label")
