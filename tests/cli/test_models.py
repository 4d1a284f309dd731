import json
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
    options = ("--method", "dpsh", "--bits", 8, "--backbone", "small", "--epochs", 1, "--device", "cpu")
    outcome = ddsh("train", photos, *options, "--out", tmp_path / "model")
    fails_in_one_line(outcome, "No space left on device", "The trained model is in")
    [kept] = tmp_path.glob("ddsh-model-*")
    assert Model.load(kept).n_bits == 8
    assert ddsh("train", photos, *options, "--out", tmp_path / "model", "--resume").returncode == 0


def test_training_on_a_full_disk_is_refused_before_it_starts_or_ends_in_one_line(
    ddsh, photos, full_disk, fails_in_one_line
):
    options = ("--method", "dpsh", "--bits", 8, "--backbone", "small", "--epochs", 1, "--device", "cpu")
    outcome = ddsh("train", photos, *options, "--out", full_disk / "model")
    fails_in_one_line(outcome, "No space left on device")
    (full_disk / "filler").write_bytes(bytes(48_000))
    filled = ddsh("train", photos, "--method", "lsh", "--out", full_disk / "other")
    assert filled.returncode == 2
    (full_disk / "filler").unlink()
