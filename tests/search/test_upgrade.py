"""Upgrades: all images encoded anew with another model, switched at once."""

import multiprocessing
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_photos import COLOURS, draw

from ddsh import ImageSearch, Model
from ddsh.errors import ArtefactError, Busy, InvalidInput
from ddsh.methods.lsh import LSH
from ddsh.search import LabelChange
from ddsh.search.local import LocalStagedCodes, LocalStore


@pytest.fixture
def search(tmp_path, model, photos):
    """An index of 18 photos with labels and metadata, one of them without a file of the user."""
    with ImageSearch.create(tmp_path / "index", model) as made:
        files = sorted(photos.rglob("*.png"))
        made.add(files, labels=[path.parent.name for path in files], metadata=[{"n": n} for n in range(len(files))])
        made.remove([2])
        made.add(draw(np.random.default_rng(5), (9, 90, 200)), labels=["own"])
        yield made


def entries(search):
    return search.entries(search.ids())


def fresh_results(tmp_path, model, search):
    """Distances in an index that was made with the model from the start, by path."""
    with ImageSearch.create(tmp_path / "fresh", model) as made:
        made.add([entry.path for entry in entries(search)])
        return {hit.path: (hit.distance, hit.bits) for hit in made.query(entries(search)[5].path, k=100)}


def results(search):
    return {hit.path: (hit.distance, hit.bits) for hit in search.query(entries(search)[5].path, k=100)}


@pytest.mark.parametrize("which", ["other_model", "pair_model"])
def test_an_upgraded_index_finds_what_a_new_one_finds_and_keeps_ids_labels_and_metadata(
    request, tmp_path, search, which
):
    target = request.getfixturevalue(which)
    before = entries(search)
    report = search.upgrade(target)
    assert (report.n_images, report.encoded, report.removed) == (18, 18, ())
    assert entries(search) == before
    assert search.fingerprint == Model.load(target).fingerprint
    assert results(search) == fresh_results(tmp_path, target, search)
    with ImageSearch.open(search.folder, model=target) as again:
        assert results(again) == results(search)
        assert again.add(draw(np.random.default_rng(6), (1, 1, 1))).encoded == 1
        assert len(again.query(1, k=100)) == 19


def test_an_open_index_follows_the_upgrade_of_another_process(search, pair_model, other_model, photo):
    with ImageSearch.open(search.folder) as reader:
        assert len(reader.query(photo, k=100)) == 18
        for target in (pair_model, other_model):
            search.upgrade(target)
            assert reader.query(photo, k=100) == search.query(photo, k=100)
            assert reader.query(1, k=100) == search.query(1, k=100)
            assert reader.info() == search.info()
        search.upgrade(pair_model)
        assert reader.query(photo, by="look").by == "look"
        search.upgrade(other_model)
        reader.add(draw(np.random.default_rng(7), (1, 2, 3)), labels=["late"])
        assert reader.query(photo, k=100) == search.query(photo, k=100)
        assert len(search) == 19


@pytest.fixture
def photo():
    return draw(np.random.default_rng(8), (200, 60, 50))


def test_changes_during_the_encoding_are_kept(search, pair_model):
    def interfere(done, total):
        if done == total:
            with ImageSearch.open(search.folder) as other:
                other.change_labels(LabelChange((1,), add=("while encoding",)))
                other.add(draw(np.random.default_rng(7), (1, 2, 3)), labels=["new"])
                other.remove([3])

    report = search.upgrade(pair_model, on_progress=interfere)
    assert (report.n_images, report.encoded) == (18, 19)
    assert "while encoding" in search.entry(1).labels
    assert len(search.query(1, k=1, label="new")) == 1
    assert 3 not in search.ids()


def test_an_index_without_look_bits_gets_them_and_keeps_its_label_bits(tmp_path, photos, pair_model):
    old = Model(Model.load(pair_model).method, "small", 0)
    with ImageSearch.create(tmp_path / "index", old) as search:
        search.add(photos)
        before = {hit.id: hit.bits for hit in search.query(1, k=100)}
        report = search.upgrade(look_bits=64)
        assert (report.n_bits, report.look_bits, report.encoded) == (16, 64, 18)
        assert {hit.id: hit.bits for hit in search.query(1, k=100)} == before
        assert search.query(1, by="look", k=100)[1].look_distance > 0
        with pytest.raises(InvalidInput, match="lacks only similarities"):
            search.upgrade()


def test_the_same_model_and_a_model_on_pixels_are_refused(search, model):
    with pytest.raises(InvalidInput, match="nothing to upgrade"):
        search.upgrade(model)
    with pytest.raises(InvalidInput, match="no look bits"):
        search.upgrade()


def test_missing_and_changed_files_prevent_the_switch_unless_they_are_to_be_removed(search, photos, other_model):
    before = results(search)
    (photos / "red" / "0.png").unlink()
    shutil.copy(photos / "red" / "1.png", photos / "red" / "2.png")
    gone = sorted(search.id_of(photos / "red" / name) for name in ("0.png", "2.png"))
    with pytest.raises(InvalidInput, match=r"2 of 18 files are missing or changed, such as .*0\.png; refresh"):
        search.upgrade(other_model)
    assert results(search) == before
    report = search.upgrade(other_model, remove_missing=True)
    assert (sorted(report.removed), report.encoded, report.n_images) == (gone, 0, 16)
    assert len(search.query(1, k=100)) == 16


def test_a_copy_of_a_missing_file_suffices(search, photos, other_model):
    shutil.copy(photos / "red" / "0.png", photos / "copy.png")
    search.add(photos / "copy.png")
    (photos / "red" / "0.png").unlink()
    assert search.upgrade(other_model).removed == ()


def test_one_upgrade_at_a_time(search, other_model):
    def interfere(done, total):
        if done == total:
            with ImageSearch.open(search.folder) as other, pytest.raises(Busy, match="being upgraded"):
                other.upgrade(other_model)

    search.upgrade(other_model, on_progress=interfere)


def test_staged_codes_survive_and_torn_ones_are_cut_off(tmp_path):
    path, codes = tmp_path / "codes", {bytes([n]) * 32: bytes([n, 1]) for n in range(5)}
    LocalStagedCodes(path, "f", 2).put(codes)
    assert LocalStagedCodes(path, "f", 2).codes == codes
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert LocalStagedCodes(path, "f", 2).codes == dict(list(codes.items())[: size // 38])
        assert path.stat().st_size % 38 == 0
    path.write_bytes(whole[:38] + b"x" + whole[39:])
    assert len(LocalStagedCodes(path, "f", 2).codes) == 1


def upgrade_and_die(folder, target, moment):
    """Upgrade, and end the process without any cleaning up at a moment; in a process of its own."""
    import os

    stop = lambda *_: os._exit(1)  # noqa: E731
    if moment == "encoding":
        LocalStagedCodes.__contains__ = stop
    if moment == "before the switch":
        LocalStagedCodes.put = stop
    if moment == "after the switch":
        LocalStore._use = _die_if_new(LocalStore._use, target, stop)
    with ImageSearch.open(folder) as search:
        search.upgrade(target)
    os._exit(0)


def _die_if_new(use, target, stop):
    fingerprint = Model.load(target).fingerprint

    def replaced(self, manifest):
        if manifest.fingerprint == fingerprint:
            stop()
        use(self, manifest)

    return replaced


@pytest.mark.parametrize("moment", ["encoding", "before the switch", "after the switch"])
def test_a_killed_upgrade_leaves_one_whole_state_and_can_be_started_again(search, pair_model, moment):
    before, old = results(search), search.fingerprint
    process = multiprocessing.get_context("forkserver").Process(
        target=upgrade_and_die, args=(search.folder, pair_model, moment)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 1
    with ImageSearch.open(search.folder) as opened:
        assert len(opened.query(1, k=100)) == 18
        if moment == "after the switch":
            assert opened.fingerprint == Model.load(pair_model).fingerprint
            opened.change_labels(LabelChange((1,), add=("x",)))
            assert '"look_bits": 128' in (Path(search.folder) / "search.json").read_text()
        else:
            assert opened.fingerprint == old
            assert results(opened) == before
            opened.upgrade(pair_model)
            assert opened.fingerprint == Model.load(pair_model).fingerprint
        assert len(opened.query(1, k=100, by="look")) == 18
    assert sorted(path.name for path in search.folder.glob("model*/codes*")) == [] or moment == "after the switch"


def test_a_catalogue_of_another_model_is_still_refused(search, pair_model):
    with ImageSearch.open(search.folder) as other:
        other.upgrade(pair_model)
    for path in search.folder.glob("model-*"):
        shutil.rmtree(path)
    manifest = search.folder / "search.json"
    manifest.write_text(manifest.read_text().replace(Model.load(pair_model).fingerprint, 64 * "0"))
    with pytest.raises(ArtefactError, match="another model"):
        ImageSearch.open(search.folder)


def test_an_index_of_an_earlier_version_learns_similarities_from_its_labels(tmp_path, rng):
    images = [draw(rng, colour) for colour in COLOURS.values() for _ in range(40)]
    labels = [name for name in COLOURS for _ in range(40)]
    with ImageSearch.create(tmp_path / "index", Model(LSH(16), "small").fit(np.stack(images))) as search:
        search.add(images, labels=labels)
        assert search.query(1)[1].similarity is None
        assert search.info().similarity is None
        with pytest.raises(InvalidInput, match="ddsh index upgrade"):
            search.query(1, min_similarity=50)
        before = [(hit.id, hit.distance) for hit in search.query(1)]
        assert search.upgrade().encoded == 0
        assert [(hit.id, hit.distance) for hit in search.query(1)] == before
        assert search.info().similarity == "labels"
        with pytest.raises(InvalidInput, match="has look bits and similarities"):
            search.upgrade()
    with ImageSearch.open(tmp_path / "index") as again:
        assert again.query(1)[0].similarity == 100
        assert 0 < again.query(1)[-1].similarity <= 100


def test_an_index_without_labels_learns_similarities_from_altered_copies(tmp_path, rng):
    images = [draw(rng, colour) for colour in COLOURS.values() for _ in range(20)]
    model = Model(None, "small").fit(np.stack(images))
    model.calibration = None
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(images)
        search.upgrade()
        assert search.info().similarity == "copies"
