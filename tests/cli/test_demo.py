import json

import pytest


@pytest.fixture(scope="module")
def shown(tmp_path_factory, program):
    """Output and folder of a short demo."""
    folder = tmp_path_factory.mktemp("demos") / "demo"
    outcome = program("demo", "--out", folder, "--bits", 16, "--epochs", 2, "--device", "cpu")
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout, folder


def test_demo_trains_ddsh_and_compares_it_with_a_random_projection(shown):
    _, folder = shown
    random, learned = (json.loads((folder / "results/demo" / f"{name}.json").read_text()) for name in ("lsh", "ddsh"))
    assert random["split"] == learned["split"]
    assert 0.2 < random["scores"]["map"] < 0.5
    assert learned["history"][-1]["objective"] < learned["history"][0]["objective"]
    assert learned["backbone"]["name"] == "small-grey"
    assert "DDSH" in (folder / "report/index.html").read_text()


def test_demo_ends_with_an_index_that_can_be_searched(shown, ddsh):
    printed, folder = shown
    assert f"serve {folder / 'index'}" in printed
    found = json.loads(ddsh("search", folder / "index", 3, "-k", 4, "--json").stdout)
    assert [hit["id"] for hit in found[0]["hits"]].count(3) <= 1
    assert len(found[0]["hits"]) == 4


def test_the_model_of_the_demo_can_be_evaluated_on_its_split(shown, ddsh):
    _, folder = shown
    found = json.loads(ddsh("evaluate", folder / "model", "sample", "--json").stdout)
    learned = json.loads((folder / "results/demo/ddsh.json").read_text())
    assert found["scores"]["map"] == pytest.approx(learned["scores"]["map"], abs=1e-6)


def test_demo_does_not_touch_a_folder_of_other_files(ddsh, tmp_path, fails_in_one_line):
    (tmp_path / "thesis.tex").touch()
    fails_in_one_line(ddsh("demo", "--out", tmp_path), "--out")
    assert (tmp_path / "thesis.tex").exists()
