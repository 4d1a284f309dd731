"""Image search from end to end: images in, similar images out."""

import json
import os
import shutil
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from small_photos import COLOURS, draw, huge_png, touch

import ddsh
from ddsh import ImageSearch
from ddsh.errors import ArtefactError, BrokenImage, DdshError, InvalidInput, UnknownName
from ddsh.index import INDEXES
from ddsh.look import Look
from ddsh.methods.lsh import LSH
from ddsh.model import Model
from ddsh.search import Busy, LabelChange, QueryCode
from ddsh.search.local import LocalWriter, write_lock


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB"))


def code_of(model, path):
    return Model.load(model).encode([path])


def test_an_indexed_image_finds_itself_first_and_then_by_distance_and_id(search, photos, model):
    target = photos / "red" / "3.png"
    hits = search.query(target, k=18)
    assert hits[0].distance == 0
    assert str(target) in {hit.path for hit in hits if hit.distance == 0}
    assert [(hit.distance, hit.id) for hit in hits] == sorted((hit.distance, hit.id) for hit in hits)
    asked = code_of(model, target)
    for hit in hits:
        found = code_of(model, hit.path)
        assert hit.distance == int(asked.hamming(found)[0, 0]) == len(hit.flipped)
        assert hit.bits == "".join(map(str, found.bits()[0].tolist()))
        assert all(found.bits()[0, bit] != asked.bits()[0, bit] for bit in hit.flipped)


def test_path_bytes_array_and_id_ask_for_the_same(search, photos):
    target = photos / "green" / "2.png"
    expected = [(hit.id, hit.distance) for hit in search.query(target)]
    for query in (str(target), target.read_bytes(), pixels(target), search.id_of(target)):
        assert [(hit.id, hit.distance) for hit in search.query(query)] == expected


def test_more_than_there_is_returns_what_there_is(search):
    assert len(search.query(1, k=10_000)) == len(search) == 18


def test_a_radius_leaves_out_what_is_farther_away(search):
    everything = search.query(1, k=100)
    for radius in (0, 3, 16, 1000):
        expected = [hit for hit in everything if hit.distance <= radius]
        assert search.query(1, k=100, radius=radius) == expected
    assert search.query(1, k=2, radius=16) == everything[:2]


def test_a_label_leaves_out_images_without_it(tmp_path, model, photos):
    files = sorted(photos.rglob("*.png"))
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(files, labels=[(path.parent.name, "any") for path in files])
        hits = search.query(files[0], k=100, label="red")
        assert {hit.labels for hit in hits} == {("any", "red")}
        assert len(hits) == 6
        assert search.info().labels == {"any": 18, "blue": 6, "green": 6, "red": 6}
        with pytest.raises(UnknownName, match="Did you mean 'red'"):
            search.query(files[0], label="rad")
        search.remove([hits[0].id])
        assert len(search.query(files[0], k=100, label="red")) == 5


def test_every_index_gives_the_same_answers(tmp_path, model, photos):
    answers = []
    for name in (*INDEXES, "auto"):
        with ImageSearch.create(tmp_path / name, model, index=name) as search:
            search.add(photos)
            answers.append([(hit.id, hit.distance) for hit in search.query(5, k=12)])
    assert all(answer == answers[0] for answer in answers)


def test_an_unknown_index_is_refused_before_anything_is_made(tmp_path, model):
    with pytest.raises(UnknownName, match="Did you mean 'exact'"):
        ImageSearch.create(tmp_path / "index", model, index="exakt")
    assert not (tmp_path / "index").exists()


def test_images_that_are_there_are_not_coded_again(search, photos):
    again = search.add(photos)
    assert (len(again.known), again.added, again.encoded) == (18, (), 0)
    shutil.copy(photos / "red" / "0.png", photos / "red" / "copy.png")
    copied = search.add(photos)
    assert (len(copied.added), copied.encoded) == (1, 0)
    copy = search.entry(copied.added[0])
    assert copy.sha256 == search.entry(search.id_of(photos / "red" / "0.png")).sha256
    assert {hit.id for hit in search.query(copy.id, radius=0)} >= {copy.id, search.id_of(photos / "red" / "0.png")}


def test_adding_a_changed_file_codes_it_again_and_keeps_its_id(search, photos, rng):
    path, picture = photos / "red" / "0.png", draw(rng, (0, 250, 250))
    number = search.id_of(path)
    Image.fromarray(picture).save(path)
    touch(path)
    report = search.add(photos)
    assert (report.changed, len(report.known), report.encoded) == ((number,), 17, 1)
    assert number in {hit.id for hit in search.query(picture, radius=0)}
    with sqlite3.connect(search.folder / "catalogue.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM contents").fetchone() == (18,)
    connection.close()


def test_copies_that_are_added_together_are_coded_once(tmp_path, model, photos):
    for number in range(5):
        shutil.copy(photos / "red" / "0.png", photos / f"copy{number}.png")
    with ImageSearch.create(tmp_path / "index", model) as search:
        report = search.add(photos)
        assert (len(report.added), report.encoded) == (23, 18)
        assert (search.info().n_images, search.info().n_contents) == (23, 18)


def test_a_broken_file_is_listed_and_the_others_are_added(tmp_path, model, photos):
    (photos / "text.png").write_text("no image")
    (photos / "empty.jpg").touch()
    whole = (photos / "red" / "0.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    (photos / "huge.png").write_bytes(huge_png())
    with ImageSearch.create(tmp_path / "index", model) as search:
        report = search.add([photos, tmp_path / "nowhere.png"])
        assert len(report.added) == len(search) == 18
        reasons = {skipped.path: skipped.reason for skipped in report.broken}
        assert {path.rsplit("/", 1)[1] for path in reasons} == {
            "text.png", "empty.jpg", "cut.png", "huge.png", "nowhere.png",
        }  # fmt: skip
        assert reasons[str(photos / "empty.jpg")] == "the file is empty"
        assert reasons[str(tmp_path / "nowhere.png")] == "does not exist"


def test_an_image_of_a_size_that_the_model_cannot_take_is_listed(search, tmp_path):
    Image.new("RGB", (20, 30)).save(tmp_path / "large.png")
    report = search.add(tmp_path / "large.png")
    assert "20 x 30 pixels" in report.broken[0].reason
    with pytest.raises(InvalidInput, match="the model takes 768"):
        search.query(tmp_path / "large.png")


def test_a_name_that_is_no_text_is_listed(search, tmp_path, photos):
    strange = bytes(tmp_path / "x") + b"\xff.png"
    shutil.copy(photos / "red" / "0.png", strange)
    report = search.add(tmp_path)
    assert search.id_of(os.fsdecode(strange)) is None
    assert [skipped.reason for skipped in report.broken] == ["the name is not text in UTF-8; rename the file"]


def test_images_without_a_file_are_kept_as_one(search, rng, photos):
    picture = draw(rng, (10, 200, 200))
    upload = (photos / "red" / "1.png").read_bytes() + b" "
    report = search.add(
        [picture, upload, b"nothing"], labels=["mine", None, None], metadata=[{"from": "me"}, None, None]
    )
    assert len(report.added) == 2
    assert len(report.broken) == 1
    mine, uploaded = search.entries(report.added)
    assert (mine.labels, mine.metadata) == (("mine",), {"from": "me"})
    assert np.array_equal(pixels(mine.path), picture)
    assert (search.folder / "images").samefile(uploaded.path.rsplit("/", 1)[0])
    assert search.query(picture, k=1)[0].distance == 0
    assert len(search.add([picture]).known) == 1
    search.remove([mine.id])
    assert len(list((search.folder / "images").iterdir())) == 1


def test_the_whole_folder_can_be_moved(search, rng, tmp_path):
    picture = draw(rng, (10, 200, 200))
    kept = search.add(picture).added[0]
    search.close()
    (tmp_path / "index").rename(tmp_path / "elsewhere")
    with ImageSearch.open(tmp_path / "elsewhere") as moved:
        assert np.array_equal(pixels(moved.entry(kept).path), picture)
        assert moved.query(kept, k=1)[0].distance == 0
        assert moved.thumbnail(kept)[:2] == b"\xff\xd8"


def test_labels_and_metadata_of_a_known_image_are_replaced_only_if_given(search, photos):
    path = photos / "red" / "0.png"
    search.add([path], labels=["warm"], metadata=[{"taken": 1999}])
    search.add([path])
    entry = search.entry(search.id_of(path))
    assert (entry.labels, entry.metadata) == (("warm",), {"taken": 1999})
    search.add([path], labels=[["hot", "red"]], metadata=[{}])
    entry = search.entry(search.id_of(path))
    assert (entry.labels, entry.metadata) == (("hot", "red"), {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": ["a"]}, "2 images but 1 labels"),
        ({"labels": [" ", "a"]}, "A label is a line"),
        ({"labels": ["a\nb", "a"]}, "A label is a line"),
        ({"labels": ["a" * 201, "a"]}, "A label is a line"),
        ({"metadata": [{"x": float("nan")}, None]}, "Metadata must be JSON"),
        ({"metadata": [{"x": object()}, None]}, "Metadata must be JSON"),
        ({"metadata": [{"x": "y" * 70_000}, None]}, "the limit is 65,536"),
    ],
)
def test_labels_and_metadata_that_cannot_be_kept_are_refused_in_one_line(search, photos, options, words):
    files = sorted(photos.rglob("*.png"))[:2]
    with pytest.raises(InvalidInput, match=words) as caught:
        search.add(files, **options)
    assert "\n" not in str(caught.value)


def test_removing_is_all_or_nothing(search):
    with pytest.raises(InvalidInput, match="1 of 3 ids are not in the index, such as 99"):
        search.remove([1, 2, 99])
    assert len(search) == 18
    assert search.remove([1, 2, 2]) == 2
    assert len(search) == 16
    assert not {1, 2} & {hit.id for hit in search.query(3, k=100)}
    with pytest.raises(InvalidInput, match="No image has the id 1"):
        search.query(1)
    with pytest.raises(InvalidInput, match="No image has the id 1"):
        search.entry(1)


def test_the_id_of_a_removed_image_is_never_given_again(search, photos):
    last = max(hit.id for hit in search.query(1, k=100))
    path = search.entry(last).path
    search.remove([last])
    assert search.add(path).added == (last + 1,)


def test_the_last_image_can_be_removed_and_an_empty_index_finds_nothing(search, photos):
    search.remove(search.ids(limit=1000))
    assert len(search) == 0
    assert search.query(photos / "red" / "0.png") == []
    assert search.duplicates() == []
    assert search.info().n_codes == 0
    with ImageSearch.open(search.folder) as opened:
        assert opened.query(photos / "red" / "0.png", radius=3) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k must be an integer, 1 or more; got 0"),
        ({"k": -1}, "got -1"),
        ({"k": 1.5}, "got 1.5"),
        ({"radius": -1}, "radius must be 0 or more; got -1"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_in_one_line(search, options, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        search.query(1, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"<svg/>", huge_png()])
def test_a_query_that_is_no_image_is_refused_in_one_line(search, tmp_path, content):
    (tmp_path / "query.png").write_bytes(content)
    for query in (content, tmp_path / "query.png"):
        with pytest.raises(BrokenImage) as caught:
            search.query(query)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("query", [True, None, 1.5, np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), "/no/such/file"])
def test_a_query_of_another_kind_is_refused(search, query):
    with pytest.raises(DdshError):
        search.query(query)


def test_a_model_that_is_not_the_indexes_own_is_refused(search, model, other_model):
    with pytest.raises(ArtefactError, match="was made with another model") as caught:
        ImageSearch.open(search.folder, model=other_model)
    assert "\n" not in str(caught.value)
    with ImageSearch.open(search.folder, model=model) as opened:
        assert len(opened) == 18


def test_a_model_folder_that_was_swapped_is_refused(search, other_model):
    for name in ("model.json", "model.safetensors"):
        shutil.copy(other_model / name, search.folder / "model" / name)
    with pytest.raises(ArtefactError, match="than its own model folder"):
        ImageSearch.open(search.folder)


def test_weights_are_read_when_an_image_is_encoded_and_must_be_the_indexes_own(search, other_model, photos):
    weights, known = search.folder / "model" / "model.safetensors", next(photos.rglob("*.png"))
    shutil.copy(other_model / weights.name, weights)
    with ImageSearch.open(search.folder) as opened:
        assert [hit.id for hit in opened.query(1, k=1)] == [1]
        assert opened.query(known, k=1)[0].match == "file"
        with pytest.raises(ArtefactError, match=r"not the file that model\.json describes"):
            opened.query(np.zeros((20, 20, 3), np.uint8))


def test_a_catalogue_of_another_model_is_refused(search, tmp_path, other_model):
    search.close()
    with ImageSearch.create(tmp_path / "other", other_model):
        pass
    shutil.copy(tmp_path / "other" / "catalogue.sqlite", search.folder / "catalogue.sqlite")
    with pytest.raises(ArtefactError, match="than its catalogue"):
        ImageSearch.open(search.folder)


def test_the_same_weights_with_another_preprocessing_are_another_model(tmp_path, deep_model):
    facts = json.loads((deep_model / "model.json").read_text())
    shutil.copytree(deep_model, tmp_path / "model")
    facts["backbone"]["image_size"] = 31  # as many pixels come out of the last block as with 28
    (tmp_path / "model" / "model.json").write_text(json.dumps(facts))
    with ImageSearch.create(tmp_path / "index", deep_model), pytest.raises(ArtefactError, match="another model"):
        ImageSearch.open(tmp_path / "index", model=tmp_path / "model")


def test_features_of_a_network_are_taken_where_the_model_was_trained_on_them(tmp_path, rng):
    backbones = pytest.importorskip("ddsh.backbones")
    pictures = [rng.integers(0, 256, (20 + number, 40, 3), np.uint8) for number in range(4)]
    models = {size: Model(LSH(n_bits=20), backbones.Backbone("small", image_size=size)) for size in (32, 40)}
    for size, trained in models.items():
        trained.fit(pictures).save(tmp_path / f"{size}")
    with ImageSearch.create(tmp_path / "index", tmp_path / "32") as search:
        search.add(pictures)
        found = {hit.id: hit.bits for hit in search.query(1)}
        assert search.info().preprocessing["features"] == "small"
    expected = models[32].encode(pictures).bits().tolist()
    assert [found[number] for number in sorted(found)] == ["".join(map(str, bits)) for bits in expected]
    with pytest.raises(ArtefactError, match="another model"):
        ImageSearch.open(tmp_path / "index", model=tmp_path / "40")


def test_a_folder_that_is_in_use_is_not_taken(search, model, tmp_path):
    with pytest.raises(InvalidInput, match="exists and is not empty"):
        ImageSearch.create(search.folder, model)
    (tmp_path / "empty").mkdir()
    with ImageSearch.create(tmp_path / "empty", model) as made:
        assert len(made) == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", "nonsense", '{"version": 99}'])
def test_a_folder_that_is_no_index_is_refused_in_one_line(tmp_path, content):
    with pytest.raises(ArtefactError, match="holds no search index"):
        ImageSearch.open(tmp_path)
    (tmp_path / "search.json").write_text(content)
    with pytest.raises(ArtefactError) as caught:
        ImageSearch.open(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_damaged_catalogue_is_refused_in_one_line(search):
    search.close()
    path = search.folder / "catalogue.sqlite"
    for content in (b"nonsense" * 1000, b""):
        path.write_bytes(content)
        with pytest.raises(ArtefactError, match="catalogue") as caught:
            ImageSearch.open(search.folder)
        assert "\n" not in str(caught.value)


def test_a_second_writer_is_told_to_wait_and_readers_are_not(search, photos):
    with write_lock(search.folder, 0), ImageSearch.open(search.folder, wait=0.05) as other:
        with pytest.raises(Busy, match="is being changed by process"):
            other.add(photos)
        with pytest.raises(Busy):
            other.remove([1])
        assert len(other.query(1, k=100)) == 18
    with ImageSearch.open(search.folder, wait=0.05) as other:
        assert other.remove([1]) == 1


def test_a_reader_sees_what_another_one_wrote(search, tmp_path, rng):
    with ImageSearch.open(search.folder) as reader:
        assert len(reader.query(1, k=100)) == 18
        new = search.add(draw(rng, (5, 5, 5))).added[0]
        assert new in {hit.id for hit in reader.query(1, k=100)}
        search.remove([new, 2])
        assert not {new, 2} & {hit.id for hit in reader.query(1, k=100)}


def test_searches_go_on_in_threads_while_images_come_and_go(search, rng):
    pictures = [draw(rng, (5, 100, 5)) for _ in range(30)]
    problems, done = [], threading.Event()

    def ask():
        try:
            while not done.is_set():
                hits = search.query(1, k=100)
                assert len(hits) >= 18
                assert len({hit.id for hit in hits}) == len(hits)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for start in range(0, 30, 10):
        search.remove(search.add(pictures[start : start + 10]).added)
    done.set()
    for thread in threads:
        thread.join(30)
    assert not problems


def test_progress_counts_every_image(search, photos):
    seen = []
    search.add(photos, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 18) for number in range(1, 19)]


def test_more_images_than_a_batch_are_added_in_order(tmp_path, model, rng):
    pictures = [draw(rng, (rng.integers(256), 100, 100)) for _ in range(300)]
    with ImageSearch.create(tmp_path / "index", model) as search:
        report = search.add(pictures)
        assert len(report.added) == 300
        assert search.info().generation == 3
        for place in (0, 127, 128, 299):
            assert np.array_equal(pixels(search.entry(report.added[place]).path), pictures[place])


def test_a_network_sees_images_of_any_size_as_the_method_itself_does(tmp_path, deep_model, rng):
    sizes = [(28, 28, 3), (300, 200, 3), (17, 90, 1), (1, 1, 3)]
    pictures = [rng.integers(0, 256, size, np.uint8) for size in sizes]
    with ImageSearch.create(tmp_path / "index", deep_model) as search:
        ids = search.add(pictures).added
        method = Model.load(deep_model).method
        expected = method.encode([pixels(search.entry(number).path) for number in ids])
        found = {hit.id: hit.bits for hit in search.query(pictures[0])}
    assert [found[number] for number in ids] == ["".join(map(str, bits)) for bits in expected.bits().tolist()]


@pytest.fixture
def pairs(tmp_path, pair_model, photos):
    with ImageSearch.create(tmp_path / "pairs", pair_model) as made:
        made.add(photos)
        yield made


def test_both_codes_order_the_results_by_one_distance(pairs, pair_model, photos):
    query = photos / "red" / "0.png"
    codes = Model.load(pair_model).encode_pair([hit.path for hit in sorted(pairs.query(query), key=lambda hit: hit.id)])
    asked = Model.load(pair_model).encode_pair([query])
    label, look = asked.label.hamming(codes.label)[0].astype(int), asked.look.hamming(codes.look)[0].astype(int)
    both = look + label * np.where(label <= 6, 4 * np.clip(look - 26, 0, 12), 48)
    for by, keys in {"both": (look, both), "label": (look, label), "look": (label, look)}.items():
        result = pairs.query(query, by=by)
        assert result.by == by
        assert [hit.id - 1 for hit in result] == np.lexsort((np.arange(18), *keys)).tolist()
        assert [hit.distance for hit in result] == sorted(keys[-1].tolist())
        assert [(hit.label_distance, hit.look_distance) for hit in result] == [
            (label[hit.id - 1], look[hit.id - 1]) for hit in result
        ]
        assert pairs.query(query, k=5, by=by) == result[:5]
        middle = result[9].distance
        assert pairs.query(query, by=by, radius=middle) == [hit for hit in result if hit.distance <= middle]
    assert pairs.query(query) == pairs.query(query, by="both")
    assert pairs.info().n_bytes == 18 * (2 + 16)


@pytest.mark.parametrize("by", ["both", "label", "look"])
def test_the_file_itself_is_the_first_hit_even_among_images_with_the_same_code(tmp_path, by, monkeypatch):
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(12):
        Image.fromarray(draw(rng, (90, 90, 90))).save(tmp_path / "photos" / f"{number:02}.png")
    shutil.copy(tmp_path / "photos" / "05.png", tmp_path / "photos" / "08.png")
    model = Model(LSH(4), "small").fit([tmp_path / "photos" / "00.png"])
    monkeypatch.setattr(LSH, "_project", lambda self, items: np.ones((len(items), 4)))
    monkeypatch.setattr(Look, "project", lambda self, parts: np.ones((len(parts[0]), 128)))
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(tmp_path / "photos")
        for query in (9, tmp_path / "photos" / "08.png", str(tmp_path / "photos" / "08.png")):
            hits = search.query(query, k=3, by=by)
            assert [hit.id for hit in hits] == ([9, 6, 1] if query == 9 else [6, 9, 1])
            assert [hit.is_identical for hit in hits] == [True, True, False]
            assert {hit.distance for hit in hits} == {0}
        assert search.query((tmp_path / "photos" / "11.png").read_bytes(), k=1, by=by)[0].id == 12


def test_an_image_that_is_indexed_is_not_encoded_again(pairs, photos, monkeypatch):
    monkeypatch.setattr(Model, "encode_pair", lambda *_: pytest.fail("encoded"))
    assert pairs.query(photos / "red" / "0.png")[0].path == str(photos / "red" / "0.png")


def test_copies_of_the_query_keep_to_the_label_that_is_asked_for(pairs, photos):
    path = photos / "red" / "0.png"
    copied = shutil.copy(path, photos / "copy.png")
    pairs.add([path, copied], labels=["one", "two"])
    assert [hit.path for hit in pairs.query(path, label="two")] == [str(copied)]


def test_images_without_labels_and_without_a_trained_model_are_found_by_their_look(tmp_path, photos):
    model = Model(None, "small").fit(photos)
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(photos)
        shutil.copy(photos / "red" / "0.png", photos / "copy.png")
        search.add(photos)
        assert repr(search) == f"ImageSearch(19 images, 128 bits, {str(tmp_path / 'index')!r})"
        result = search.query(photos / "red" / "1.png")
        assert (result.by, result[0].path, result.n_bits) == ("look", str(photos / "red" / "1.png"), 128)
        assert [hit.label_distance for hit in result] == [None] * 19
        with pytest.raises(InvalidInput, match="no label bits"):
            search.query(1, by="label")
        assert [{Path(entry.path).name for entry in group} for group in search.duplicates(tolerance=0)] == [
            {"0.png", "copy.png"}
        ]
    with ImageSearch.open(tmp_path / "index") as again:
        assert again.query(photos / "red" / "1.png") == result


def test_an_index_goes_on_with_a_model_that_got_look_bits_for_it(tmp_path, photos, pair_model):
    bare = Model(LSH(16), "small", look_bits=0).fit(photos)
    bare.save(tmp_path / "bare")
    ImageSearch.create(tmp_path / "index", Model.load(tmp_path / "bare").fit_look(photos)).close()
    with ImageSearch.open(tmp_path / "index", model=tmp_path / "bare") as search:
        assert (search.n_bits, search.look_bits) == (16, 128)
    with pytest.raises(ArtefactError, match="another model"):
        ImageSearch.open(tmp_path / "index", model=pair_model)


@pytest.mark.parametrize("by", ["labels", "", None])
def test_an_unknown_order_is_refused(search, by):
    with pytest.raises(InvalidInput, match="by must be one of both, label, look"):
        search.query(1, by=by)


@settings(max_examples=12)
@given(st.lists(st.sampled_from(["add", "remove", "open", "query"]), max_size=8), st.integers(0, 2**32 - 1))
def test_any_sequence_of_changes_leaves_index_and_catalogue_in_step(tmp_path_factory, model, steps, seed):
    rng = np.random.default_rng(seed)
    search = ImageSearch.create(tmp_path_factory.mktemp("steps") / "index", model)
    expected = {}
    for step in steps:
        if step == "add":
            pictures = [draw(rng, (rng.integers(256), 100, 100)) for _ in range(rng.integers(1, 4))]
            expected |= dict(zip(search.add(pictures).added, pictures, strict=True))
        elif step == "remove" and expected:
            number = int(rng.choice(list(expected)))
            search.remove([number])
            del expected[number]
        elif step == "open":
            search.close()
            search = ImageSearch.open(search.folder)
        hits = search.query(draw(rng, (0, 0, 0)), k=100)
        assert {hit.id for hit in hits} == set(expected)
    search.close()


def test_image_search_is_a_name_of_the_package():
    assert ddsh.ImageSearch is ImageSearch


def test_an_image_is_called_by_its_file_or_where_it_has_none_by_its_number(tmp_path, model, rng):
    pixels = draw(rng, (200, 0, 0))
    file = tmp_path / "cat.png"
    Image.fromarray(pixels).save(file)
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add([file, 255 - pixels])
        assert [search.entry(number).name for number in search.ids()] == ["cat.png", f"image {search.ids()[1]}"]


def test_labels_are_given_and_taken_and_the_report_says_what_changed(search):
    search.change_labels(LabelChange((1, 2), add=("dog",)))
    report = search.change_labels([LabelChange((1, 2, 3, 99), add=("dog", "cat"), remove=("bird",))])
    assert report.missing == (99,)
    assert set(report.changes) == {LabelChange((1, 2), add=("cat",)), LabelChange((3,), add=("cat", "dog"))}
    assert [entry.labels for entry in search.entries([1, 3])] == [("cat", "dog")] * 2
    assert [hit.id for hit in search.query(1, label="dog")] == [hit.id for hit in search.query(1, label="cat")]
    assert search.change_labels([LabelChange((1, 2, 3), add=("dog", "cat"))]).changes == ()
    search.change_labels([change.inverse() for change in reversed(report.changes)])
    assert [entry.labels for entry in search.entries([1, 2, 3])] == [("dog",), ("dog",), ()]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (LabelChange((1,), add=("",)), "A label is"),
        (LabelChange((1,), add=("a\nb",)), "A label is"),
        (LabelChange((1,), add=("a",), remove=("a",)), "given and taken"),
        (LabelChange(("1",), add=("a",)), "An id is"),
    ],
)
def test_invalid_label_changes_change_nothing(search, change, word):
    with pytest.raises(InvalidInput, match=word):
        search.change_labels([LabelChange((2,), add=("dog",)), change])
    assert search.entry(2).labels == ()


def test_the_number_of_labels_of_an_image_is_limited(search):
    names = [f"label {number}" for number in range(1001)]
    changes = [LabelChange((1, 2), add=tuple(names[start : start + 100])) for start in range(0, 1000, 100)]
    search.change_labels(changes)
    assert len(search.entry(1).labels) == 1000
    with pytest.raises(InvalidInput, match="Image 1 would have 1,001 labels; the limit is 1,000"):
        search.change_labels([LabelChange((3,), add=("dog",)), LabelChange((1,), add=("dog",))])
    assert search.entry(3).labels == (), "all changes or none"
    search.change_labels([LabelChange((1,), add=("dog",)), LabelChange((1,), remove=("label 5",))])
    assert len(search.entry(1).labels) == 1000
    with pytest.raises(InvalidInput, match="at most 1,000 labels; got 1,001"):
        search.add(np.zeros((16, 16, 3), np.uint8), labels=[names])


def test_labels_of_an_image_are_read_once_for_all_changes_of_a_request(search, monkeypatch):
    n_read = []
    labels_of = LocalWriter.labels_of
    monkeypatch.setattr(LocalWriter, "labels_of", lambda *given: n_read.append(given[1]) or labels_of(*given))
    search.change_labels([LabelChange((1, 2), add=(f"label {number}",)) for number in range(100)])
    assert n_read == [1, 2]
    assert len(search.entry(2).labels) == 100


def test_removed_images_are_restored_with_id_labels_metadata_and_file(search, photos, rng):
    own = search.add(draw(rng, (5, 6, 7)), labels=["own"], metadata=[{"by": 1}]).added[0]
    search.change_labels(LabelChange((1,), add=("dog",)))
    before, found = search.entries(search.ids()), search.query(1, k=100)
    with ImageSearch.open(search.folder) as reader:
        assert len(reader.query(1, k=100)) == 19
        taken, missing = search.take_out([1, own, 77])
        assert missing == [77]
        assert len(reader.query(2, k=100)) == 17
        assert search.restore(taken) == [1, own]
        assert search.restore(taken) == [], "they are there again"
        assert search.entries(search.ids()) == before
        assert search.query(1, k=100) == reader.query(1, k=100) == found
        assert search.thumbnail(own)
    taken, _ = search.take_out([own, 1])
    search.remove_unused_images()
    assert not Path(search.folder / "images" / Path(taken[1].entry.path).name).exists()
    again = search.add(photos / "blue" / "0.png").added[0]
    assert again not in (1, own)
    assert search.restore(taken) == [own], "the path of the other one is in the index again"


@pytest.fixture
def calibrated(tmp_path, rng):
    """An index with similarities by labels, and images of its kinds that are not in it."""
    images = np.stack([draw(rng, colour) for colour in COLOURS.values() for _ in range(50)])
    labels = np.repeat(np.arange(3), 50)
    new = rng.permutation(150)[:30]
    known = np.setdiff1d(np.arange(150), new)
    model = Model(LSH(16), "small").fit(images[known])
    model.calibrate(images[new], labels[new], images[known], labels[known])
    with ImageSearch.create(tmp_path / "calibrated", model) as made:
        made.add(images[known], labels=[list(COLOURS)[label] for label in labels[known]])
        yield made, images[new]


def test_similarities_fall_with_the_distance_and_are_shares_of_relevant_images(calibrated):
    search, new = calibrated
    found = [hit for image in new for hit in search.query(image, k=200)]
    curve = search.load_model().calibration.curves["both"]
    for image in new[:5]:
        hits = search.query(image, k=200)
        similar = [hit.similarity for hit in hits]
        assert similar == sorted(similar, reverse=True)
        assert max(similar) <= 100 * curve.shares[0] + 0.1
    assert len({hit.similarity for hit in found}) > 3


def test_the_image_itself_and_copies_of_its_file_are_marked(calibrated):
    search, _ = calibrated
    entry = search.entry(7)
    copy = search.folder.parent / "copy.png"
    copy.write_bytes(Path(entry.path).read_bytes())
    twin = search.add(copy).added[0]
    assert [(hit.id, hit.match, hit.similarity) for hit in search.query(7, k=2)] == [
        (7, "query", 100),
        (twin, "file", 100),
    ]
    assert [hit.match for hit in search.query(copy, k=3)] == ["file", "file", None]


def test_equal_pixels_in_another_file_are_told_from_equal_codes(calibrated, rng):
    search, new = calibrated
    lossless = search.folder.parent / "same.bmp"
    Image.fromarray(new[0]).save(lossless)
    first, bmp = search.add([new[0], lossless]).added
    for query in (first, new[0], lossless):
        found = {hit.id: hit.match for hit in search.query(query, k=5)}
        assert found[first] in ("query", "file", "pixels")
        assert found[bmp] in ("file", "pixels")
    assert {hit.id: hit.match for hit in search.query(first, k=5)}[bmp] == "pixels"
    changed = new[0].copy()
    changed[0, 0] ^= 1
    almost = search.add(changed).added[0]
    assert {hit.id: hit.match for hit in search.query(first, k=5)}[almost] is None, "one pixel differs"
    again = search.query(search.query(new[1], k=1).query, k=3)
    assert all(hit.match is None for hit in again)


def test_a_least_similarity_leaves_out_the_others(calibrated):
    search, new = calibrated
    everything = search.query(new[0], k=200)
    for by in ("both", "label", "look"):
        everything = search.query(new[0], k=200, by=by)
        least = everything[60].similarity
        some = search.query(new[0], k=200, by=by, min_similarity=least)
        assert some == [hit for hit in everything if hit.similarity >= least]
    assert len(search.query(new[0], k=200, min_similarity=0)) == len(everything)


def test_an_image_unlike_all_others_is_similar_to_none(tmp_path, rng):
    near = [draw(rng, colour) for colour in COLOURS.values() for _ in range(120)]
    model = Model(None, "small").fit(np.stack(near))
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(near[::3])
        new = search.query(draw(rng, COLOURS["red"]), k=200)
        assert new[0].similarity > 0
        low = model.calibration.unfamiliar / 2
        near_copy = search.query(replace(new.query, familiarity=low), k=1)
        assert near_copy[0].look_distance <= 15
        assert near_copy[0].similarity == new[0].similarity, "a near copy is known, however strange it is"
        far = bytes(byte ^ 0xFF for byte in new.query.code[:4]) + new.query.code[4:]
        strange = replace(new.query, code=far, familiarity=low)
        found = search.query(strange, k=5)
        assert found[0].look_distance > 15
        assert [hit.similarity for hit in found] == [0] * 5
        assert found.nothing_similar
        assert len(search.query(strange, k=5, min_similarity=1)) == 0
        assert search.query(1, k=5)[0].similarity == 100, "an indexed image is known"
        assert not search.query(1, k=5).nothing_similar


def test_pages_of_results_have_the_order_of_one_long_result(calibrated):
    search, new = calibrated
    for options in ({}, {"by": "label"}, {"by": "look"}, {"label": "red"}, {"radius": 120}):
        for query in (new[0], 3):
            whole = search.query(query, k=1000, **options)
            assert not whole.has_more
            paged, more = [], True
            while more:
                page = search.query(query, k=7, offset=len(paged), **options)
                paged += page
                more = page.has_more
            assert paged == list(whole)
    assert len(search.query(3, k=5, offset=500)) == 0


def test_a_query_is_repeated_without_its_image(calibrated, tmp_path, photos):
    search, new = calibrated
    first = search.query(new[0], k=5)
    text = first.query.to_text()
    assert len(text) < 120
    assert search.query(QueryCode.from_text(text), k=5) == first
    path = Path(search.entry(9).path)
    again = search.query(QueryCode.from_text(search.query(path, k=5).query.to_text()), k=5)
    assert [hit.match for hit in again][:2] == ["file", None]
    with pytest.raises(InvalidInput, match="not the code of a query"):
        QueryCode.from_text("AAAA")
    with pytest.raises(InvalidInput, match="another model"):
        search.query(replace(first.query, fingerprint=b"12345678"))
    with pytest.raises(InvalidInput, match="another model"):
        search.query(replace(first.query, code=b"short"))


def test_filters_by_labels_and_words_agree_with_a_scan(search, photos):
    files = sorted(photos.rglob("*.png"))
    metadata = [{"camera": "Größe 5", "n": number} for number in range(len(files))]
    labels = [[path.parent.name, f"odd {number % 2}"] for number, path in enumerate(files)]
    search.add(files, labels=labels, metadata=metadata)

    def found(**options):
        return sorted(hit.id for hit in search.query(1, k=100, **options))

    entries = search.entries(search.ids())
    assert found(label=["red", "blue"]) == [one.id for one in entries if {"red", "blue"} & set(one.labels)]
    assert found(label=["red", "odd 1"], all_labels=True) == [
        one.id for one in entries if {"red", "odd 1"} <= set(one.labels)
    ]
    assert found(text="3.PNG") == [one.id for one in entries if one.name == "3.png"]
    assert found(text="gröSSe 3.png") == found(text="3.png"), "both words, in any case"
    assert set(found(text="ODD 1")) >= set(found(label="odd 1")), "1 is in names and numbers, too"
    assert found(text="camera") == [], "values count, names of fields do not"
    assert found(text=photos.name) == [], "folders do not count"
    assert found(text="%") == found(text="'") == []
    assert found(label="red", text="3.png") == [
        one.id for one in entries if "red" in one.labels and one.name == "3.png"
    ]
    with pytest.raises(UnknownName):
        found(label=["red", "rde"])


@pytest.mark.parametrize("offset", [-1, 1.5, True])
def test_an_offset_that_makes_no_sense_is_refused(search, offset):
    with pytest.raises(InvalidInput, match="offset must be an integer"):
        search.query(1, offset=offset)
