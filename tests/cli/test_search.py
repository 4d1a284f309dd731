import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddsh import ImageSearch
from ddsh.methods.lsh import LSH
from ddsh.model import Model
from ddsh.search import LabelChange


def _save_lsh(folder, seed):
    rng = np.random.default_rng(0)
    Model(LSH(n_bits=16, seed=seed)).fit(rng.integers(0, 256, (30, 12, 12, 3), np.uint8)).save(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return _save_lsh(tmp_path_factory.mktemp("model") / "lsh", 0)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("photos")
    for label in ("cat", "dog"):
        (folder / label).mkdir()
        for number in range(5):
            Image.fromarray(rng.integers(0, 256, (12, 12, 3), np.uint8)).save(folder / label / f"{number}.png")
    (folder / "cat" / "broken.png").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory, program, model, photos):
    """An index that is only read."""
    folder = tmp_path_factory.mktemp("made") / "index"
    outcome = program("index", model, photos, "--out", folder)
    assert outcome.returncode == 0, outcome.stderr
    return folder, outcome.stdout


@pytest.fixture
def index(made, tmp_path):
    """An index that may be changed."""
    return shutil.copytree(made[0], tmp_path / "index")


def test_indexing_says_what_it_did_and_lists_broken_files(made):
    assert "10 added" in made[1]
    assert "broken.png: not a JPEG" in made[1]
    assert "10 images of 16 bits" in made[1]


def test_indexing_again_goes_on_and_another_model_is_refused(ddsh, fails_in_one_line, index, model, photos, tmp_path):
    outcome = ddsh("index", "create", model, photos, "--out", index)
    assert "0 added, 10 known" in outcome.stdout
    fails_in_one_line(
        ddsh("index", _save_lsh(tmp_path / "other", 1), photos, "--out", index), "was made with another model"
    )


def test_adding_broken_files_alone_fails_and_changes_nothing(ddsh, index, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_text("no image")
    before = ddsh("index", "info", index).stdout
    outcome = ddsh("index", "add", index, tmp_path / "broken")
    assert outcome.returncode == 2
    assert "a.png: not a JPEG, PNG" in outcome.stdout
    assert outcome.stderr == "ddsh: None of the images can be read, so none was added; the list above says why.\n"
    assert ddsh("index", "info", index).stdout == before


def test_images_are_added_removed_and_noticed_when_they_go(ddsh, fails_in_one_line, index, photos, tmp_path):
    mine = shutil.copytree(photos, tmp_path / "mine")
    Image.new("RGB", (12, 12), "teal").save(mine / "dog" / "new.png")
    outcome = ddsh("index", "add", index, mine)
    assert "11 added" in outcome.stdout
    assert ddsh("index", "remove", index, "1", mine / "dog" / "new.png").stdout.startswith("2 images removed, 19 left")
    (mine / "dog" / "0.png").unlink()
    (mine / "dog" / "1.png").rename(mine / "moved.png")
    outcome = ddsh("index", "refresh", index)
    assert "17 unchanged, 0 changed, 1 moved, 1 removed" in outcome.stdout
    facts = json.loads(ddsh("index", "info", index, "--json").stdout)
    assert (facts["n_images"], facts["n_bits"], facts["labels"]) == (18, 16, {"cat": 9, "dog": 9})
    fails_in_one_line(ddsh("index", "remove", index, "nowhere.png"), "nowhere.png is not in the index")
    fails_in_one_line(ddsh("index", "remove", index, "999"), "999")


def test_info_shows_a_table(ddsh, made):
    outcome = ddsh("index", "info", made[0])
    assert "10 (10 different)" in outcome.stdout
    assert "make a new index with" in outcome.stdout, "a model on pixels has no look bits"


def test_a_search_prints_a_table_json_and_a_page(ddsh, made, photos, tmp_path):
    query = photos / "cat" / "3.png"
    table = ddsh("search", made[0], query, "2", "-k", 3).stdout
    assert str(query) in table
    assert table.count("distance") == 2
    one, two = json.loads(ddsh("search", made[0], query, "2", "-k", 3, "--label", "cat", "--json").stdout)
    assert one["hits"][0]["path"] == str(query)
    assert one["hits"][0]["distance"] == 0
    assert len(one["hits"][0]["bits"]) == 16
    assert {label for hit in one["hits"] + two["hits"] for label in hit["labels"]} == {"cat"}
    outcome = ddsh("search", made[0], query, "--radius", 0, "--by", "label", "--html", tmp_path / "found.html")
    assert outcome.returncode == 0
    assert "data:image/jpeg" in (tmp_path / "found.html").read_text()


def test_a_search_says_that_nothing_was_found(ddsh, made, tmp_path):
    Image.new("RGB", (12, 12)).save(tmp_path / "black.png")
    assert "no images found" in ddsh("search", made[0], tmp_path / "black.png", "--radius", 0).stdout


def test_copies_are_shown_in_groups(ddsh, index, photos, tmp_path):
    shutil.copy(photos / "cat" / "3.png", tmp_path / "copy.png")
    ddsh("index", "add", index, tmp_path / "copy.png")
    assert "1 groups of near-duplicates, 2 images in all" in ddsh("duplicates", index).stdout
    (group,) = json.loads(ddsh("duplicates", index, "--radius", 0, "--json").stdout)
    assert [Path(entry["path"]).name for entry in group] == ["3.png", "copy.png"]


def test_a_table_gives_many_labels(ddsh, tmp_path, model, photos):
    rows = [f"{photos}/{name},{labels}" for name, labels in (("cat/0.png", "pet;cat"), ("dog/0.png", "pet"))]
    (tmp_path / "table.csv").write_text("\n".join(["path,labels", *rows, f"{photos}/gone.png,pet"]))
    outcome = ddsh("index", model, tmp_path / "table.csv", "--out", tmp_path / "index", "--kind", "exact")
    assert "2 added" in outcome.stdout
    assert "gone.png: does not exist" in outcome.stdout
    facts = json.loads(ddsh("index", "info", tmp_path / "index", "--json").stdout)
    assert (facts["labels"], facts["index"]) == ({"cat": 1, "pet": 2}, "exact")


def test_images_that_are_not_there_are_refused_before_anything_is_made(ddsh, fails_in_one_line, tmp_path, model):
    outcome = ddsh("index", model, "nothing-like-this", "--out", tmp_path / "index")
    fails_in_one_line(outcome, "nothing-like-this")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("search", "{index}", "{photos}/cat/broken.png"), "not a JPEG"),
        (("search", "{index}", "{photos}/none.png"), "does not exist"),
        (("search", "{index}", "1", "-k", "0"), "k must be"),
        (("search", "{index}", "1", "--radius", "-1"), "radius must be 0 or more"),
        (("search", "{index}", "1", "--label", "cta"), "Did you mean 'cat'?"),
        (("search", "{index}", "77"), "No image has the id 77"),
        (("search", "{photos}", "1"), "holds no search index"),
        (("duplicates", "{index}", "--radius", "-2"), "radius must be 0 or more"),
        (("export", "{model}", "--onnx", "{photos}/x.onnx"), "lsh trained no network"),
        (("index", "{model}", "{photos}"), "--out"),
        (("index", "{photos}", "{photos}", "--out", "{photos}/new"), "holds no model"),
    ],
)
def test_wrong_use_is_one_clear_line(ddsh, fails_in_one_line, made, photos, model, arguments, words):
    places = {"index": made[0], "photos": photos, "model": model}
    fails_in_one_line(ddsh(*(argument.format(**places) for argument in arguments)), words)


def test_the_group_shows_its_commands_when_alone(ddsh, program):
    for outcome in (ddsh("index"), ddsh("index", "--help"), program("index")):
        assert outcome.returncode == 0
        for name in ("create", "add", "remove", "refresh", "info"):
            assert name in outcome.stdout


def test_a_full_disk_ends_indexing_in_one_line(ddsh, fails_in_one_line, model, photos, full_disk):
    fails_in_one_line(ddsh("index", model, photos, "--out", full_disk / "index"), "cannot be written", "full")
    assert not (full_disk / "index").exists()


def test_a_folder_is_indexed_without_labels_and_without_a_model(ddsh, fails_in_one_line, photos, tmp_path):
    pytest.importorskip("torch")
    outcome = ddsh("index", photos, "--out", tmp_path / "index", "--backbone", "small", "--look-bits", 64)
    assert outcome.returncode == 0, outcome.stderr
    assert "10 images of 64 look bits" in outcome.stdout
    again = ddsh("index", photos, "--out", tmp_path / "index")
    assert "0 added, 10 known" in again.stdout
    same = ddsh("index", photos, "--out", tmp_path / "index", "--look-bits", 64, "--backbone", "small")
    assert "0 added, 10 known" in same.stdout
    for option, other in {"--look-bits": 128, "--image-size": 999, "--kind": "faiss"}.items():
        outcome = ddsh("index", photos, "--out", tmp_path / "index", option, other)
        fails_in_one_line(outcome, f"got {other}. Leave it out")
    query = photos / "cat" / "3.png"
    (found,) = json.loads(ddsh("search", tmp_path / "index", query, "--by", "look", "--json").stdout)
    first = found["hits"][0]
    assert (first["path"], first["distance"], first["is_identical"]) == (str(query), 0, True)
    assert (first["label_distance"], first["look_distance"]) == (None, 0)
    fails_in_one_line(ddsh("search", tmp_path / "index", query, "--by", "label"), "no label bits")
    assert "none (indexed without labels; search by look)" in ddsh("index", "info", tmp_path / "index").stdout


def test_indexing_with_a_model_without_look_bits_adds_them(ddsh, fails_in_one_line, photos, tmp_path):
    pytest.importorskip("torch")
    Model(LSH(16), "small", look_bits=0).fit(photos / "dog").save(tmp_path / "model")
    for _ in range(2):
        outcome = ddsh("index", tmp_path / "model", photos, "--out", tmp_path / "index")
        assert "10 images of 16 label and 128 look bits" in outcome.stdout, outcome.stderr
    outcome = ddsh("index", tmp_path / "model", photos, "--out", tmp_path / "plain", "--look-bits", 0)
    assert "10 images of 16 bits" in outcome.stdout
    Model(LSH(16), "small", look_bits=64).fit(photos / "dog").save(tmp_path / "other")
    outcome = ddsh("index", tmp_path / "other", photos, "--out", tmp_path / "more", "--look-bits", 32)
    fails_in_one_line(outcome, "The model has 64 look bits; leave out --look-bits 32")
    outcome = ddsh("index", "upgrade", tmp_path / "index", tmp_path / "other", "--look-bits", 32)
    fails_in_one_line(outcome, "The model has 64 look bits")
    table = ddsh("search", tmp_path / "index", "1", "-k", 2).stdout
    assert "label bits" in table
    assert "look bits" in table


def test_what_cannot_be_indexed_is_refused_in_one_line(ddsh, fails_in_one_line, model, photos, tmp_path):
    fails_in_one_line(ddsh("index", model, "--out", tmp_path / "a"), "is a model; also give the images")
    fails_in_one_line(ddsh("index", model, photos, photos, "--out", tmp_path / "a"), "got 3 names")
    fails_in_one_line(
        ddsh("index", model, photos, "--backbone", "small", "--out", tmp_path / "a"), "leave out --backbone"
    )
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_text("no image")
    outcome = ddsh("index", tmp_path / "broken", "--out", tmp_path / "a", "--backbone", "small")
    fails_in_one_line(outcome, "there is nothing to index")
    assert not (tmp_path / "a").exists()


def test_an_index_is_upgraded_to_another_model_and_missing_files_are_named(
    ddsh, fails_in_one_line, index, photos, tmp_path
):
    other = _save_lsh(tmp_path / "other", 7)
    copy = shutil.copytree(photos, tmp_path / "photos")
    (copy / "extra.png").write_bytes((copy / "cat" / "0.png").read_bytes() + b" ")
    assert ddsh("index", "add", index, copy / "extra.png").returncode == 0
    (copy / "extra.png").unlink()
    fails_in_one_line(ddsh("index", "upgrade", index, other), "1 of 11 files are missing", "extra.png", "refresh")
    fails_in_one_line(ddsh("index", "upgrade", index), "no look bits", "--backbone")
    before = json.loads(ddsh("search", index, 3, "--json").stdout)[0]["hits"]
    outcome = ddsh("index", "upgrade", index, other, "--remove-missing")
    assert "1 images removed" in outcome.stdout
    assert "10 images of 16 bits" in outcome.stdout
    after = json.loads(ddsh("search", index, 3, "--json").stdout)[0]["hits"]
    assert {hit["id"]: hit["labels"] for hit in after} == {hit["id"]: hit["labels"] for hit in before if hit["id"] < 11}
    assert [hit["bits"] for hit in after] != [hit["bits"] for hit in before]
    fails_in_one_line(ddsh("index", "upgrade", index, other), "nothing to upgrade")


def test_an_index_without_look_bits_gets_them(ddsh, photos, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), np.uint8)
    Model(LSH(n_bits=16), "small", 0).fit(pixels).save(tmp_path / "model")
    ddsh("index", tmp_path / "model", photos, "--out", tmp_path / "index", "--look-bits", 0)
    assert (
        "10 images of 16 label and 64 look bits"
        in ddsh("index", "upgrade", tmp_path / "index", "--look-bits", 64).stdout
    )


def test_labels_of_an_index_train_a_model_that_the_index_is_upgraded_to(ddsh, fails_in_one_line, photos, tmp_path):
    index, model = tmp_path / "index", tmp_path / "model"
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in photos.rglob("?.png"):
        shutil.copy(path, flat / f"{path.parent.name}{path.name}")
    assert ddsh("index", flat, "--out", index, "--backbone", "small").returncode == 0
    options = ("--out", model, "--method", "cosdish", "--bits", 8, "--backbone", "small", "--look-bits", 64)
    fails_in_one_line(ddsh("train", "--from-index", index, *options), "has no labels")
    fails_in_one_line(ddsh("train", *options), "Give DATA or --from-index")
    fails_in_one_line(ddsh("train", photos, "--from-index", index, *options), "Give DATA or --from-index")
    with ImageSearch.open(index) as search:
        ids = {name: search.id_of(flat / name) for name in ("cat0.png", "cat1.png", "dog0.png", "dog1.png")}
        cats = tuple(number for name, number in ids.items() if name.startswith("cat"))
        search.change_labels([LabelChange(cats, add=("cat",))])
        search.change_labels([LabelChange(tuple(set(ids.values()) - set(cats)), add=("dog",))])
    (flat / "cat1.png").unlink()
    outcome = ddsh("train", "--from-index", index, *options)
    assert outcome.returncode == 0, outcome.stderr
    assert "3 of 10 images are labelled, with 2 labels" in outcome.stderr
    assert "1 files cannot be read and are left out, such as" in outcome.stderr
    assert "8 label bits, 64 look bits, trained on 3 images" in outcome.stdout
    outcome = ddsh("index", "upgrade", index, model, "--remove-missing")
    assert "9 images of 8 label and 64 look bits" in outcome.stdout
    hits = json.loads(ddsh("search", index, flat / "dog0.png", "--by", "label", "--json").stdout)[0]["hits"]
    assert hits[0]["labels"] == ["dog"]


def test_a_search_filters_by_labels_and_words_and_marks_the_image_itself(ddsh, fails_in_one_line, made):
    table = ddsh("search", made[0], "2").stdout
    assert table.count("this image") == 1
    found = json.loads(ddsh("search", made[0], "2", "--label", "cat", "--label", "dog", "--json").stdout)[0]
    assert len(found["hits"]) == 10
    assert (found["hits"][0]["match"], found["nothing_similar"]) == ("query", False)
    assert "no images found" in ddsh("search", made[0], "2", "--label", "cat", "--label", "dog", "--all-labels").stdout
    named = json.loads(ddsh("search", made[0], "2", "--text", "3.PNG", "--json").stdout)[0]["hits"]
    assert {Path(hit["path"]).name for hit in named} == {"3.png"}
    rest = json.loads(ddsh("search", made[0], "2", "--offset", 4, "--json").stdout)[0]["hits"]
    assert [hit["id"] for hit in rest] == [hit["id"] for hit in found["hits"]][4:]
    fails_in_one_line(ddsh("search", made[0], "2", "--min-similarity", 50), "not learned", "ddsh index upgrade")
    fails_in_one_line(ddsh("search", made[0], "2", "--text", "\udcff"), "not text")


def test_training_learns_similarities_that_a_search_shows(ddsh, rng, tmp_path):
    for name, colour in {"cat": (200, 90, 60), "dog": (40, 60, 220)}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(140):
            noise = rng.integers(-40, 40, (12, 12, 3))
            pixels = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    options = ["--method", "lsh", "--bits", 16, "--backbone", "small", "--look-bits", 64]
    assert ddsh("train", tmp_path / "photos", *options, "--out", tmp_path / "model").returncode == 0
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    assert content["calibration"]["meaning"] == "labels"
    assert content["about"]["n_calibration"] == content["calibration"]["n_queries"] >= 20
    assert ddsh("index", tmp_path / "model", tmp_path / "photos", "--out", tmp_path / "index").returncode == 0
    assert "label in common" in ddsh("index", "info", tmp_path / "index").stdout
    assert "100 %" in ddsh("search", tmp_path / "index", "1", "-k", 3).stdout
    some = json.loads(ddsh("search", tmp_path / "index", "1", "-k", 99, "--min-similarity", 60, "--json").stdout)[0]
    assert min(hit["similarity"] for hit in some["hits"]) >= 60
    whole = [*options, "--no-calibration", "--out", tmp_path / "whole"]
    assert ddsh("train", tmp_path / "photos", *whole).returncode == 0
    content_whole = json.loads((tmp_path / "whole" / "model.json").read_text())
    assert content_whole["calibration"] is None
    assert content_whole["about"]["n_train"] == content["about"]["n_train"] + content["about"]["n_calibration"]


def test_verify_says_that_all_is_intact_or_what_is_not(ddsh, index):
    assert "10 images, all intact" in ddsh("index", "verify", index).stdout
    array = next((index / "index").rglob("codes-*.npy"))
    data = bytearray(array.read_bytes())
    data[-1] ^= 1
    array.write_bytes(data)
    outcome = ddsh("index", "verify", index)
    assert outcome.returncode == 2
    assert array.name in outcome.stdout
    assert outcome.stderr.count("\n") == 1
    assert "fails in 1 places; restore a backup" in outcome.stderr


def test_a_search_by_id_imports_neither_pytorch_nor_scikit_learn(made):
    code = "import sys; from ddsh.cli import app; app(standalone_mode=False); print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, "search", made[0], "1"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "0.png" in outcome.stdout
    assert not {"torch", "sklearn", "scipy", "numba"} & set(outcome.stderr.split())


def test_store_is_another_way_to_name_the_index(ddsh, index):
    for name in (["--store", index], [f"--store={index}"]):
        assert ddsh("search", "1", "-k", "1", *name, "--json") == ddsh("search", index, "1", "-k", "1", "--json")
