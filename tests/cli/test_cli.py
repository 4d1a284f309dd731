"""The command line as a user meets it: the installed program, run in its own process."""

import json
import os
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

PROGRAM = Path(sys.executable).with_name("ddsh")


def ddsh(*arguments, **environment):
    plain = {name: value for name, value in os.environ.items() if name != "DDSH_DATA"}
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=plain | environment, timeout=120
    )


def _fails_in_one_line(outcome, *words):
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    assert outcome.stderr.count("\n") == 1
    for word in words:
        assert word in outcome.stderr


@pytest.fixture
def codes(tmp_path, rng):
    centres = rng.choice([-1, 1], (3, 16))
    for name, n in (("query", 20), ("database", 200)):
        labels = rng.integers(0, 3, n)
        noise = np.where(rng.random((n, 16)) < 0.1, -1, 1)
        np.savez(tmp_path / f"{name}.npz", signs=centres[labels] * noise, labels=labels)
    return tmp_path / "query.npz", tmp_path / "database.npz"


def test_score_prints_a_table(codes):
    outcome = ddsh("score", *codes)
    assert outcome.returncode == 0
    assert "20 queries, 200 items, 16 bits" in outcome.stdout
    assert "MAP (whole ranking, ties expected)" in outcome.stdout
    assert "success rate within radius 2" in outcome.stdout


def test_score_prints_json_with_every_option(codes):
    options = ["--top-k", 50, "--ties", "stable", "--ap-convention", "min_k", "--precision-at", 7, "--radius", 3]
    outcome = ddsh("score", *codes, *options, "--json")
    found = json.loads(outcome.stdout)
    assert (found["top_k"], found["ties"], found["ap_convention"]) == (50, "stable", "min_k")
    assert list(found["precision_at"]) == ["7"]
    assert list(found["success_rate"]) == ["3"]
    assert 0 < found["map_low"] <= found["map"] <= found["map_high"] <= 1


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a short demo prints, and its folder."""
    folder = tmp_path_factory.mktemp("desk") / "demo"
    outcome = ddsh("demo", "--out", folder, "--bits", 16, "--epochs", 2)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout, folder


def test_demo_trains_ddsh_and_scores_it_beside_a_random_projection(shown):
    _, folder = shown
    random, learned = (json.loads((folder / "results/demo" / f"{name}.json").read_text()) for name in ("lsh", "ddsh"))
    assert random["split"] == learned["split"]
    assert 0.2 < random["scores"]["map"] < 0.5
    assert learned["history"][-1]["objective"] < learned["history"][0]["objective"]
    assert "DDSH" in (folder / "report/index.html").read_text()


def test_demo_ends_with_an_index_that_can_be_searched(shown):
    printed, folder = shown
    assert f"serve {folder / 'index'}" in printed
    found = json.loads(ddsh("search", folder / "index", 3, "-k", 4, "--json").stdout)
    assert [hit["id"] for hit in found[0]["hits"]].count(3) <= 1
    assert len(found[0]["hits"]) == 4


def test_demo_leaves_a_folder_alone_that_is_not_its_own(tmp_path):
    (tmp_path / "thesis.tex").touch()
    outcome = ddsh("demo", "--out", tmp_path)
    assert outcome.returncode == 2
    assert "--out" in outcome.stderr
    assert (tmp_path / "thesis.tex").exists()


@pytest.fixture
def model(tmp_path, photos):
    table = tmp_path / "photos.csv"
    rows = [f"{path.relative_to(tmp_path)},{path.parent.name}" for path in sorted(photos.rglob("*.jpg"))]
    table.write_text("path,label\n" + "\n".join(rows))
    outcome = ddsh("train", table, "--method", "lsh", "--bits", 8, "--out", tmp_path / "model")
    assert outcome.returncode == 0, outcome.stderr
    return tmp_path / "model"


def test_a_model_is_trained_used_and_scored(model, photos, tmp_path):
    folder = model
    facts = json.loads((folder / "model.json").read_text())
    assert facts["method"] == "lsh"
    assert len(facts["about"]["split"]) == 64
    outcome = ddsh("encode", folder, photos, "--out", tmp_path / "codes.npz")
    assert outcome.returncode == 0, outcome.stderr
    with np.load(tmp_path / "codes.npz") as codes:
        assert codes["packed"].shape == (24, 1)
        assert len(codes["labels"]) == len(codes["names"]) == 24
    found = json.loads(ddsh("evaluate", folder, tmp_path / "photos.csv", "--json").stdout)
    assert found["split"] == facts["about"]["split"]
    _fails_in_one_line(ddsh("evaluate", folder, tmp_path / "photos.csv", "--seed", 5), "another split")
    _fails_in_one_line(ddsh("train", photos, "--method", "lsh", "--out", folder), "holds a model already")
    _fails_in_one_line(ddsh("train", photos, "--method", "lsh", "--preset", "paper", "--out", tmp_path / "x"), "preset")


def test_a_method_on_features_gets_them_from_the_network_that_is_named(photos, model, tmp_path):
    network = ("--network", "efficientnet-lite0", "--image-size", 32)
    options = ("--method", "itq", "--bits", 3, *network, "--memory", tmp_path / "kept", "--out", tmp_path / "itq")
    outcome = ddsh("train", tmp_path / "photos.csv", *options)
    assert outcome.returncode == 0, outcome.stderr
    outcome = ddsh("encode", tmp_path / "itq", photos, "--out", tmp_path / "codes.npz")
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(ddsh("evaluate", tmp_path / "itq", tmp_path / "photos.csv", "--json").stdout)
    assert (found["network"], found["image_size"]) == ("efficientnet-lite0", 32)


def test_unlabelled_images_are_encoded_too(model, photos, tmp_path):
    folder = model
    (photos / "cat" / "broken.jpg").write_bytes(b"no")
    outcome = ddsh("encode", folder, photos / "cat", "--out", tmp_path / "codes.npz")
    assert outcome.returncode == 0, outcome.stderr
    assert "broken.jpg" in outcome.stdout
    with np.load(tmp_path / "codes.npz") as codes:
        assert len(codes["packed"]) == 12
        assert "labels" not in codes
    one = ddsh("encode", folder, photos / "cat" / "0.jpg", "--out", tmp_path / "one.npz")
    assert "1 codes of 8 bits" in one.stdout


def test_methods_are_listed():
    names = {card["name"]: card for card in json.loads(ddsh("methods", "--json").stdout)}
    assert names["ddsh"]["year"] == 2018
    assert names["lsh"]["supervision"] == "none"
    assert "Deep discrete" in ddsh("methods").stdout


def test_an_experiment_runs_what_is_missing(tmp_path):
    spec = tmp_path / "tiny.toml"
    spec.write_text('dataset = "sample"\nprotocol = "sample"\nbits = [8, 16]\nseeds = [0]\n[methods.lsh]\n')
    first = ddsh("reproduce", spec, "--results", tmp_path / "results")
    assert "2 results written" in first.stdout, first.stderr
    files = sorted((tmp_path / "results" / "tiny").iterdir())
    assert [file.name for file in files] == ["lsh-16bits-seed0.json", "lsh-8bits-seed0.json"]
    content = json.loads(files[0].read_text())
    assert content.keys() >= {"method", "n_bits", "dataset", "protocol", "network", "seed", "split", "params"}
    assert content.keys() >= {"scores", "seconds", "versions"}
    assert "Nothing to do" in ddsh("reproduce", spec, "--results", tmp_path / "results").stdout
    spec.write_text("dataset = 3\n")
    _fails_in_one_line(ddsh("reproduce", spec), "missing: bits, methods, protocol, seeds")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demoo"], ["Did you mean 'demo'"]),
        (["demo", "--bit"], ["--bit", "--bits"]),
        (["score", "one.npz"], ["Missing argument", "database"]),
        (["score", "no.npz", "no.npz"], ["no.npz does not exist"]),
        (["score", "a", "b", "--ties", "none"], ["none", "expected"]),
        (["data", "check", "smple"], ["Did you mean 'sample'"]),
        (["data", "check", "/no/such"], ["/no/such does not exist"]),
        (["data", "check", "sample", "--protocol", "smple"], ["Did you mean 'sample'"]),
        (["data", "check", "cifar10"], ["--root DIR", "DDSH_DATA"]),
        (["data", "fetch", "cifar"], ["--root"]),
        (["data", "fetch", "cifar", "--root", "x"], ["Did you mean 'cifar10'"]),
        (["data", "fetch", "nuswide", "--root", "x"], ["ImageList/"]),
    ],
)
def test_wrong_use_is_answered_in_one_line(arguments, words):
    _fails_in_one_line(ddsh(*arguments), *words)


def test_help_and_version_are_there():
    assert "ddsh 0." in ddsh("--version").stdout
    for arguments in ([], ["--help"], ["data"], ["data", "check", "--help"], ["score", "--help"]):
        outcome = ddsh(*arguments)
        assert outcome.returncode == 0
        assert "Usage: ddsh" in outcome.stdout


@pytest.fixture
def photos(tmp_path, rng):
    for number in range(24):
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).save(path)
    return tmp_path / "photos"


def test_check_lists_broken_files_and_strict_refuses_them(photos):
    (photos / "cat" / "bad [red].jpg").write_bytes(b"nothing")
    outcome = ddsh("data", "check", photos)
    assert outcome.returncode == 0
    assert "photos: 24 images" in outcome.stdout
    assert "Broken or left out: 1" in outcome.stdout
    assert "bad [red].jpg" in outcome.stdout
    _fails_in_one_line(ddsh("data", "check", photos, "--strict"), "bad [red].jpg", "1 ")


def test_check_prints_json(photos):
    found = json.loads(ddsh("data", "check", photos, "--json").stdout)
    assert found["class_counts"] == {"cat": 12, "dog": 12}
    assert len(found["split"]) == 64


def test_list_shows_where_datasets_are(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "svhn").mkdir()
    for name in ("train", "test"):
        (tmp_path / "svhn" / f"{name}_32x32.mat").touch()
    found = {
        card["name"]: card["found"]
        for card in json.loads(ddsh("data", "list", "--json", DDSH_DATA=str(tmp_path)).stdout)
    }
    assert found["svhn"] == str(tmp_path / "svhn")
    assert found["cifar10"] is None
    table = ddsh("data", "list").stdout
    assert "with the package" in table
    assert "not found" in table


def test_fetch_from_a_mirror_with_other_content_is_refused(tmp_path):
    served, root = tmp_path / "served", tmp_path / "root"
    served.mkdir()
    (served / "train-images-idx3-ubyte.gz").write_bytes(b"something else")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(served))

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        mirror = f"http://127.0.0.1:{server.server_address[1]}"
        outcome = ddsh("data", "fetch", "mnist", "--root", root, "--mirror", mirror, "--timeout", 2)
        server.shutdown()
        thread.join()
    assert outcome.returncode == 2
    assert outcome.stderr.splitlines()[-1].startswith("ddsh: ")
    assert not (root / "mnist" / "train-images-idx3-ubyte.gz").exists()
