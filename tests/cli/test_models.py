import json
import shutil
import sys

import numpy as np
import pytest

from ddsh.errors import ArtefactError
from ddsh.model import Model

OWN_METHOD = """
from dataclasses import replace
from ddsh import LSH
class Mine(LSH):
    card = replace(LSH.card, name="mine")
"""

AS_GIVEN = ("--queries-per-class", 3, "--epochs", 1, "--batch-size", 8)
"""Options of a small training run; nothing is adapted, so nothing is said about it."""


def test_a_model_is_trained_and_used(ddsh, model, photos, tmp_path, fails_in_one_line):
    facts = json.loads((model / "model.json").read_text())
    assert facts["method"] == "lsh"
    assert len(facts["about"]["split"]) == 64
    outcome = ddsh("encode", model, photos, "--out", tmp_path / "codes.npz")
    assert outcome.returncode == 0, outcome.stderr
    with np.load(tmp_path / "codes.npz") as codes:
        assert codes["packed"].shape == (24, 1)
        assert len(codes["labels"]) == len(codes["names"]) == 24
    fails_in_one_line(ddsh("train", photos, "--method", "lsh", "--out", model), "holds a model already")


def test_a_method_on_features_gets_them_from_the_backbone(ddsh, photos, table, tmp_path):
    backbone = ("--backbone", "efficientnet-lite0", "--image-size", 32)
    options = ("--method", "itq", "--bits", 3, *backbone, "--cache-dir", tmp_path / "kept", "--out", tmp_path / "itq")
    outcome = ddsh("train", table, *options)
    assert outcome.returncode == 0, outcome.stderr
    assert any((tmp_path / "kept").iterdir())
    outcome = ddsh("encode", tmp_path / "itq", photos, "--out", tmp_path / "codes.npz", "--device", "cpu")
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(ddsh("evaluate", tmp_path / "itq", table, "--json").stdout)
    assert (found["backbone"]["name"], found["backbone"]["image_size"]) == ("efficientnet-lite0", 32)


def test_a_deep_method_is_trained_with_options_of_its_backbone_and_training(ddsh, photos, tmp_path):
    options = ("--method", "dpsh", "--bits", 8, "--backbone", "small", "--image-size", 16, "--epochs", 2)
    outcome = ddsh("train", photos, *options, "--learning-rate", 0.01, "--device", "cpu", "--out", tmp_path / "deep")
    assert outcome.returncode == 0, outcome.stderr
    facts = json.loads((tmp_path / "deep" / "model.json").read_text())
    assert (facts["backbone"]["name"], facts["backbone"]["image_size"]) == ("small", 16)
    assert (facts["params"]["training"]["epochs"], facts["params"]["training"]["learning_rate"]) == (2, 0.01)
    assert len(facts["about"]["history"]) == 2
    assert not (tmp_path / "deep" / "checkpoints").exists()
    outcome = ddsh("export", tmp_path / "deep", "--onnx", tmp_path)
    assert (outcome.returncode, outcome.stderr.count("\n")) == (2, 1)
    assert "is a folder" in outcome.stderr


def test_a_method_from_outside_the_package_is_trained(ddsh, photos, tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(OWN_METHOD)
    monkeypatch.chdir(tmp_path)
    outcome = ddsh("train", photos, "--method", "my_module:Mine", "--bits", 8, "--out", tmp_path / "own")
    sys.modules.pop("my_module", None)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads((tmp_path / "own" / "model.json").read_text())["method"] == "my_module:Mine"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "lsh", "--preset", "paper"), "leave out --preset"),
        (("--method", "lsh", "--epochs", 3, "--learning-rate", 1), "leave out --epochs and --learning-rate"),
        (("--method", "lsh", "--image-size", 32), "also give --backbone"),
        (("--method", "itq", "--backbone", "small", "--n-frozen", 1), "leave out --n-frozen"),
        (("--method", "lhs"), "Did you mean 'lsh'"),
        (("--method", "no_module:Nothing"), "no_module:Nothing cannot be loaded"),
        (("--backbone", "smal"), "Did you mean 'small'"),
        (("--device", "tpu"), "tpu"),
        (("--network", "small"), "--network"),
        (("--memory", "folder"), "--memory"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(ddsh, photos, tmp_path, fails_in_one_line, options, words):
    fails_in_one_line(ddsh("train", photos, *options, "--out", tmp_path / "x"), words)
    assert not (tmp_path / "x").exists()


def test_unlabelled_images_are_encoded_too(ddsh, model, photos, tmp_path):
    (photos / "cat" / "broken.jpg").write_bytes(b"no")
    outcome = ddsh("encode", model, photos / "cat", "--out", tmp_path / "codes.npz")
    assert outcome.returncode == 0, outcome.stderr
    assert "broken.jpg" in outcome.stdout
    with np.load(tmp_path / "codes.npz") as codes:
        assert len(codes["packed"]) == 12
        assert "labels" not in codes
    one = ddsh("encode", model, photos / "cat" / "0.jpg", "--out", tmp_path / "one.npz")
    assert "1 codes of 8 bits" in one.stdout


BOTH = ("--n-query", 1, "--queries-per-class", 1)
SMALL = ("--bits", 8, "--backbone", "small", "--image-size", 16, "--device", "cpu")


def test_ddsh_learns_from_a_few_images_and_says_what_was_adapted(ddsh, photos, tmp_path):
    outcome = ddsh("train", photos, *SMALL, "--out", tmp_path / "few")
    assert outcome.returncode == 0, outcome.stderr
    [line] = [line for line in outcome.stderr.splitlines() if line.startswith("Adapted")]
    assert line.startswith("Adapted to 18 training images: 6 queries instead of 10 per class, n_omega 9, ")
    assert "batch_size 16" in line
    params = json.loads((tmp_path / "few" / "model.json").read_text())["params"]
    assert params["n_omega"] == 9
    assert (params["sampling"], params["start"]) == ("stratified", "labels")
    assert (params["training"]["batch_size"], params["training"]["epochs"]) == (16, 15)
    found = json.loads(ddsh("evaluate", tmp_path / "few", photos, "--json").stdout)
    assert (found["scores"]["n_query"], found["scores"]["n_database"]) == (6, 18)


def test_options_of_the_split_and_the_schedule_are_kept_and_used_again(ddsh, photos, tmp_path, fails_in_one_line):
    options = ("--queries-per-class", 2, "--n-train", 12, "--epochs", 2, "--batch-size", 5, "--learning-rate", 0.02)
    outcome = ddsh("train", photos, *SMALL, *options, "--out", tmp_path / "few")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr.startswith("Adapted to 12 training images: n_omega 6")
    assert "epochs" not in outcome.stderr
    facts = json.loads((tmp_path / "few" / "model.json").read_text())
    assert (facts["params"]["training"]["epochs"], facts["params"]["training"]["batch_size"]) == (2, 5)
    assert facts["about"]["n_train"] == 12
    found = json.loads(ddsh("evaluate", tmp_path / "few", photos, "--json").stdout)
    assert (found["split"], found["protocol"]) == (facts["about"]["split"], "own-custom")
    assert found["scores"]["n_query"] == 4
    fails_in_one_line(ddsh("evaluate", tmp_path / "few", photos, "--n-query", 3), "another split", "--n-query")


def test_unlabelled_images_are_counted_left_out_of_training_and_encoded(ddsh, photos, tmp_path):
    before = ddsh("train", photos, "--method", "lsh", "--out", tmp_path / "before")
    assert "labelled" not in before.stderr
    for number in range(3):
        (photos / "cat" / f"{2 * number}.jpg").rename(photos / f"loose {number}.jpg")
    outcome = ddsh("train", photos, "--method", "lsh", "--bits", 8, "--out", tmp_path / "model")
    assert "21 images are labelled, 3 are not: those are left out here, but can be indexed." in outcome.stderr
    found = json.loads(ddsh("evaluate", tmp_path / "model", photos, "--json").stdout)
    assert found["scores"]["n_query"] + found["scores"]["n_database"] == 21
    assert ddsh("encode", tmp_path / "model", photos, "--out", tmp_path / "codes.npz").returncode == 0
    with np.load(tmp_path / "codes.npz") as codes:
        assert (len(codes["packed"]), len(codes["unlabelled"])) == (24, 3)
    assert "21 queries, 21 items" in ddsh("score", tmp_path / "codes.npz", tmp_path / "codes.npz").stdout
    indexed = ddsh("index", tmp_path / "model", photos, "--out", tmp_path / "index")
    assert "24 added" in indexed.stdout
    assert "cat (9), dog (12)" in ddsh("index", "info", tmp_path / "index").stdout


def test_a_class_of_one_image_stays_in_the_database(ddsh, photos, tmp_path):
    (photos / "bird").mkdir()
    (photos / "cat" / "0.jpg").rename(photos / "bird" / "0.jpg")
    outcome = ddsh("train", photos, *SMALL, "--epochs", 1, "--out", tmp_path / "model")
    assert outcome.returncode == 0, outcome.stderr
    assert "5 queries instead of 10 per class (1 class has none)" in outcome.stderr
    assert "19 training images" in outcome.stderr


def test_files_that_a_table_lists_but_are_missing_are_counted(ddsh, table, tmp_path):
    table.write_text(f"{table.read_text()}\ngone.jpg,cat\ngone too.jpg,dog\n")
    outcome = ddsh("train", table, "--method", "lsh", "--out", tmp_path / "model")
    assert outcome.returncode == 0, outcome.stderr
    assert "2 entries cannot be used and are left out, such as" in outcome.stderr
    assert "gone.jpg (does not exist); see: ddsh data check" in outcome.stderr


@pytest.mark.parametrize(
    ("lines", "options", "words"),
    [
        (["path,label", "photos/cat/0.jpg,a", "photos/cat/2.jpg,a"], (), ("'a' is its only class", "ddsh index")),
        (["path,label", "photos/cat/0.jpg,", "photos/cat/2.jpg,"], (), ("no image has a label", "ddsh index")),
        (["path,label", "photos/cat/0.jpg,a", "photos/cat/2.jpg,b"], (), ("no class has two images",)),
        (["photo,kind", "photos/cat/0.jpg,a"], (), ("expected the columns path and label", "'photo', 'kind'")),
        (["path,label", "gone.jpg,a", "gone too.jpg,b"], (), ("no image can be read",)),
        (
            ["path,label", "photos/cat/0.jpg,a", "photos/cat/2.jpg,b"],
            ("--n-query", 1, "--queries-per-class", 1),
            ("not both",),
        ),
    ],
)
def test_labels_that_cannot_be_learned_from_are_refused_in_one_line(
    ddsh, photos, tmp_path, fails_in_one_line, lines, options, words
):
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    fails_in_one_line(ddsh("train", tmp_path / "labels.csv", *options, "--out", tmp_path / "x"), *words)
    assert not (tmp_path / "x").exists()


def test_folders_that_cannot_be_learned_from_are_refused_in_one_line(ddsh, photos, tmp_path, fails_in_one_line):
    flat = ddsh("train", photos / "cat", "--out", tmp_path / "x")
    fails_in_one_line(flat, "is unlabelled", f"ddsh index {photos / 'cat'} --out my-index")
    shutil.rmtree(photos / "dog")
    one = ddsh("train", photos, "--out", tmp_path / "x")
    fails_in_one_line(one, "'cat' is its only class", f"ddsh index {photos} --out my-index")
    assert ddsh("train", photos, "--method", "lsh", "--out", tmp_path / "x").returncode == 0


def test_a_model_learns_from_a_part_of_the_dataset(ddsh, table, tmp_path, fails_in_one_line):
    rows = table.read_text().splitlines()[1:]
    parts = [f"{row},{'train' if number % 3 else 'database'}" for number, row in enumerate(rows)]
    table.write_text("path,label,part\n" + "\n".join(parts))
    options = ("--method", "lsh", "--out", tmp_path / "model")
    fails_in_one_line(ddsh("train", table, *options, "--part", "test"), "no part 'test' (it has: database, train)")
    assert ddsh("train", table, *options, "--part", "train", "--n-query", 6).returncode == 0
    about = json.loads((tmp_path / "model" / "model.json").read_text())["about"]
    assert about["protocol_options"] == {"n_query": 6, "part": "train"}
    assert 10 <= about["n_train"] <= 16
    assert ddsh("evaluate", tmp_path / "model", table).returncode == 0


@pytest.mark.parametrize("half", [False, True])
def test_twenty_real_photos_in_a_flat_folder_train_and_evaluate(ddsh, data_root, tmp_path, half):
    """Ten photos of dogs and ten of children, listed in a table; in one case half of the labels are empty."""
    lines = (data_root / "flickr8k" / "flickr8k.csv").read_text().splitlines()[1:]
    (tmp_path / "photos").mkdir()
    rows = []
    for label in ("dog", "child"):
        chosen = [line.split(",")[0] for line in lines if line.split(",")[1] == label][:10]
        for number, path in enumerate(chosen):
            name = shutil.copy(data_root / "flickr8k" / path, tmp_path / "photos")
            rows.append(f"{name};{'' if half and number % 2 else label}")
    table = tmp_path / "photos.csv"
    table.write_text("\ufeffFile;Label\r\n" + "\r\n".join(rows))
    options = ("--bits", 16, "--image-size", 64, "--n-frozen", 9, "--device", "cpu")
    outcome = ddsh("train", table, *options, "--out", tmp_path / "model")
    assert outcome.returncode == 0, outcome.stderr
    assert ("10 images are labelled, 10 are not" in outcome.stderr) == half
    found = json.loads(ddsh("evaluate", tmp_path / "model", table, "--json").stdout)
    assert found["scores"]["n_query"] == (2 if half else 4)
    assert found["bits"]["n_distinct"] > 1
    if not half:
        assert found["scores"]["map"] > 0.55


def test_methods_are_listed(ddsh):
    names = {card["name"]: card for card in json.loads(ddsh("methods", "--json").stdout)}
    assert names["ddsh"]["year"] == 2018
    assert names["lsh"]["supervision"] == "none"
    assert "Deep discrete" in ddsh("methods").stdout
    assert "| `lsh` |" in ddsh("methods", "--markdown").stdout


def test_methods_of_plugins_are_listed_and_broken_ones_named(ddsh, tmp_path, monkeypatch):
    (tmp_path / "my_plugin.py").write_text(OWN_METHOD)
    folder = tmp_path / "my_plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[ddsh.methods]\nmine = my_plugin:Mine\nlost = my_plugin:Lost\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = ddsh("methods", "--json")
    assert "mine" in {card["name"] for card in json.loads(outcome.stdout)}
    assert outcome.stderr.startswith("ddsh: lost cannot be loaded")


def test_a_model_that_cannot_be_saved_is_kept_elsewhere(ddsh, photos, tmp_path, monkeypatch, fails_in_one_line):
    save = Model.save

    def fail_at_first(self, folder, about=None):
        monkeypatch.setattr(Model, "save", save)
        raise ArtefactError(f"{folder}/model.safetensors cannot be written (No space left on device).")

    monkeypatch.setattr(Model, "save", fail_at_first)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    options = ("--method", "dpsh", "--bits", 8, "--backbone", "small", "--device", "cpu", *AS_GIVEN)
    outcome = ddsh("train", photos, *options, "--out", tmp_path / "model")
    fails_in_one_line(outcome, "No space left on device", "The trained model is in")
    [kept] = tmp_path.glob("ddsh-model-*")
    assert Model.load(kept).n_bits == 8
    assert ddsh("train", photos, *options, "--out", tmp_path / "model", "--resume").returncode == 0


def test_a_disk_that_gets_full_during_training_costs_no_work(ddsh, photos, full_disk, caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    options = ("--method", "dpsh", "--bits", 8, "--backbone", "small", "--device", "cpu", *AS_GIVEN)
    outcome = ddsh("train", photos, *options, "--out", full_disk / "model")
    assert outcome.returncode == 2
    assert "Training goes on without this checkpoint" in caplog.text
    assert "No space left on device" in outcome.stderr
    [kept] = tmp_path.glob("ddsh-model-*")
    assert str(kept) in outcome.stderr
    assert Model.load(kept).n_bits == 8
    (full_disk / "filler").write_bytes(bytes(48_000))
    filled = ddsh("train", photos, "--method", "lsh", "--queries-per-class", 3, "--out", full_disk / "other")
    assert filled.returncode == 2
    (full_disk / "filler").unlink()
