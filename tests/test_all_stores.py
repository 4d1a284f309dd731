"""One contract for every store."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "search"))

from small_photos import COLOURS, draw, touch, write_photos

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, Busy, InvalidInput, UnknownName
from ddsh.index import ExactIndex
from ddsh.index.pairs import PairIndex
from ddsh.methods.lsh import LSH
from ddsh.model import Model
from ddsh.search import ImageSearch, LabelChange
from ddsh.search.address import create_store, has_store, open_store
from ddsh.search.store import Content, Entry, Filter, SearchManifest
from ddsh.search.store_copy import copy_store

KINDS = ["local", "postgres", "milvus"]
N = 150


@pytest.fixture(params=KINDS)
def address(request, tmp_path, monkeypatch):
    """Where a store can be made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "local":
        return str(tmp_path / "store")
    if request.param == "postgres":
        pytest.importorskip("psycopg", reason="psycopg is not installed")
        return request.getfixturevalue("postgres")
    pytest.importorskip("pymilvus", reason="pymilvus is not installed")
    return f"milvus://{tmp_path}/store.db"


def manifest(n_bits, look_bits, index="auto"):
    return SearchManifest(fingerprint="ab" * 32, n_bits=n_bits, look_bits=look_bits, preprocessing={}, index=index)


def save_nothing(folder):
    folder.mkdir(exist_ok=True)
    (folder / "model.json").write_text("{}")


def fill(store, n_bits, look_bits, n=N):
    """Add entries around a few codes, so that there are ties; return an index of the same codes."""
    rng = np.random.default_rng(n_bits + look_bits)
    parts = {}
    for name, bits in (("label", n_bits), ("look", look_bits)):
        if bits:
            centres = rng.integers(0, 2, (4, bits))
            noisy = centres[rng.integers(0, 4, n)] ^ (rng.random((n, bits)) < 0.06)
            parts[name] = BinaryCodes.from_bits(noisy)
    codes = CodePair(parts.get("label"), parts.get("look"))
    packed = np.hstack([part.packed for part in parts.values()])
    entries, contents = [], {}
    for place, number in enumerate(range(1, n + 1)):
        sha256 = bytes([number % 256, number // 256]) * 16
        labels = tuple(label for label, every in (("red", 2), ('50% "off"', 3), ("a_b\\c", 5)) if number % every == 0)
        metadata = {"number": number, "note": [None, True, "Straße\0"]} if number % 7 == 0 else {}
        entries.append(Entry(number, f"/photos/IMG {number}.jpg", sha256.hex(), 10, 4, 3, 99, labels, metadata))
        contents[number] = Content(sha256, 10, 4, 3, packed[place].tobytes(), b"tiny" * 4)
    with store.write() as writer, writer.transaction():
        writer.restore_all(entries, contents)
    index = PairIndex(n_bits, look_bits, ExactIndex)
    index.add(codes, list(range(1, n + 1)))
    return index, codes, entries


@pytest.mark.parametrize("bits", [(12, 20), (0, 9), (7, 0)], ids=str)
def test_results_are_those_of_the_exact_index(address, bits):
    with create_store(address, manifest(*bits), save_nothing, 5) as store:
        index, codes, entries = fill(store, *bits)
        orders = ["both", *(name for name, number in zip(("label", "look"), bits, strict=True) if number)]
        filters = {
            Filter(("red",)): lambda entry: "red" in entry.labels,
            Filter(('50% "off"', "a_b\\c")): lambda entry: len({*entry.labels} - {"red"}) > 0,
            Filter(("red", "a_b\\c"), all_labels=True): lambda entry: {"red", "a_b\\c"} <= {*entry.labels},
            Filter(text="img 1"): lambda entry: "1" in entry.path or entry.metadata,  # true is searched as 1
            Filter(text="STRASSE 7.jp"): lambda entry: entry.metadata and "7.jpg" in entry.path,
            Filter(("red",), text="strasse"): lambda entry: entry.metadata and "red" in entry.labels,
        }
        for number in (1, 123):
            query = codes[[number - 1]]
            for by in orders:
                for k, radius, where in [
                    (1, None, None), (10, None, None), (10, 6, None), (None, 5, None), (None, None, None), (9, 0, None),
                    *((20, None, where) for where in filters),
                ]:  # fmt: skip
                    allowed = None
                    if where is not None:
                        allowed = np.array([entry.id for entry in entries if filters[where](entry)])
                        assert store.matching(where).tolist() == allowed.tolist()
                    found = store.search(query, k, by=by, radius=radius, where=where)
                    expected = index.search(query, k, by=by, radius=radius, allowed=allowed)
                    for name in ("ids", "distances", "label_distances", "look_distances"):
                        mine, theirs = getattr(found, name), getattr(expected, name)
                        assert (mine is None) == (theirs is None)
                        assert mine is None or mine.tolist() == theirs.tolist(), (by, k, radius, where)
                    assert found.codes == codes[found.ids - 1]
        with pytest.raises(UnknownName, match="Did you mean 'red'"):
            store.search(query, 3, where=Filter(("rad",)))


def test_entries_and_codes_are_those_that_were_stored(address):
    with create_store(address, manifest(12, 20), save_nothing, 5) as store:
        _, codes, entries = fill(store, 12, 20, 40)
        assert (store.count(), store.generation(), store.count_contents()[0]) == (40, 1, 40)
        assert store.label_counts() == {'50% "off"': 13, "a_b\\c": 8, "red": 20}
    assert has_store(address)
    with open_store(address, 5) as store:
        assert store.entries([7, 99, 3, 14]) == [entries[6], entries[2], entries[13]]
        assert store.ids(36, 3) == [37, 38, 39]
        assert (sorted(store.sample(100, 0)), store.sample(5, 3)) == (list(range(1, 41)), store.sample(5, 3))
        assert store.id_of(Path("/photos/IMG 5.jpg")) == 5
        assert store.ids_with(bytes.fromhex(entries[8].sha256)) == [9]
        known, found = store.codes([4, 99, 2])
        assert (known, found == codes[[3, 1]], store.code_of(99)) == ([4, 2], True, None)
        assert store.contents([3, 99])[3].code == np.hstack([codes.label.packed, codes.look.packed])[2].tobytes()
        ids, pair, copies = store.tiny_copies()
        assert (ids, pair == codes, copies[0]) == (list(range(1, 41)), True, b"tiny" * 4)
        assert store.problems() == []


def relabel_and_remove(writer, relabelled, removed):
    with writer.transaction():
        writer.set_labels(relabelled, ["new"])
        writer.remove(removed)


def test_a_transaction_that_fails_changes_nothing(address):
    with create_store(address, manifest(12, 20), save_nothing, 5) as store:
        fill(store, 12, 20, 5)
        with store.write() as writer, pytest.raises(InvalidInput, match="1 of 2 ids are not in the index, such as 77"):
            relabel_and_remove(writer, 1, [2, 77])
        assert (store.count(), store.generation(), store.entries([1])[0].labels) == (5, 1, ())
        with store.write() as writer, writer.transaction():
            writer.remove([5])
        with store.write() as writer, writer.transaction():
            content = writer.content_of(1)
            assert content is not None
            assert writer.add(Path("/photos/another.jpg"), content.sha256, 1) == 6, "an id was used again"


def test_a_snapshot_shows_one_state_while_another_thread_writes(address):
    if address.startswith("milvus"):
        pytest.skip("Milvus has no snapshots; readers of one process wait for its writer")
    with create_store(address, manifest(12, 20), save_nothing, 5) as store, ThreadPoolExecutor(1) as thread:
        fill(store, 12, 20, 5)

        def remove():
            with open_store(address, 5) as other, other.write() as writer, writer.transaction():
                writer.remove([2])

        with store.snapshot():
            assert store.ids(0, 9) == [1, 2, 3, 4, 5]
            thread.submit(remove).result()
            assert store.ids(0, 9) == [1, 2, 3, 4, 5]
            assert 2 in store.search(store.code_of(1), None).ids
        assert store.ids(0, 9) == [1, 3, 4, 5]


def test_threads_read_at_the_same_time_where_the_store_says_so(address):
    entered, leave = Event(), Event()

    def read(store):
        with store.snapshot():
            store.count()
            entered.set()
            assert leave.wait(60)

    with create_store(address, manifest(12, 0), save_nothing, 5) as store, ThreadPoolExecutor(2) as threads:
        first = threads.submit(read, store)
        assert entered.wait(60)
        entered.clear()
        second = threads.submit(read, store)
        try:
            assert entered.wait(30 if store.parallel_reads else 0.3) == store.parallel_reads
        finally:
            leave.set()
        first.result(60)
        second.result(60)


def test_a_second_store_in_the_same_place_is_refused(address):
    with create_store(address, manifest(12, 20), save_nothing, 5):
        with pytest.raises(InvalidInput, match="choose another"):
            create_store(address, manifest(12, 20), save_nothing, 5)
        with pytest.raises(UnknownName, match="Unknown index"):
            create_store(address, manifest(12, 20, "ball-tree"), save_nothing, 5)


def test_a_place_without_a_store_is_named(address):
    assert not has_store(address)
    with pytest.raises(ArtefactError, match="holds no search index"):
        open_store(address, 5)


def test_a_writer_who_wants_to_be_alone_keeps_others_out(address):
    with create_store(address, manifest(12, 20), save_nothing, 0.1) as store, store.write(alone=True):  # noqa: SIM117
        with open_store(address, 0.1) as other, pytest.raises(Busy, match="is being changed by"), other.write():
            pass


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two models: 16 label bits and 128 look bits, and 12 label bits."""
    rng = np.random.default_rng(1)
    pixels = np.stack([draw(rng, colour) for colour in COLOURS.values() for _ in range(20)])
    folder = tmp_path_factory.mktemp("models")
    Model(LSH(16), "small").fit(pixels).save(folder / "pair")
    Model(LSH(12)).fit(pixels).save(folder / "label")
    return folder


def test_image_search_works_the_same_in_every_store(address, models, tmp_path, rng):
    photos = write_photos(tmp_path / "photos", rng)
    files = sorted(photos.rglob("*.png"))
    labels = [path.parent.name for path in files]
    picture = draw(rng, (100, 90, 80))
    with (
        ImageSearch.create(address, models / "pair") as search,
        ImageSearch.create(tmp_path / "expected", models / "pair") as expected,
    ):
        for each in (search, expected):
            assert len(each.add(files, labels=labels, root=photos).added) == 18
            each.remove([4])
            each.add(picture, metadata=[{"title": "Kept Image"}])
            each.change_labels(LabelChange((3, 99), add=("new",)))
            taken, missing = each.take_out([5, 50])
            assert (missing, each.restore(taken)) == ([50], [5])
        options = [{}, {"k": 3, "offset": 2}, {"label": "new"}, {"text": "kept"}, {"by": "look"}, {"by": "label"}]
        for option in options:
            for query in (7, picture, files[0]):
                mine, theirs = search.query(query, **option), expected.query(query, **option)
                assert [(hit.id, hit.distance, hit.bits, hit.match, hit.labels) for hit in mine] == [
                    (hit.id, hit.distance, hit.bits, hit.match, hit.labels) for hit in theirs
                ], option
        assert search.thumbnail(19) == expected.thumbnail(19)
        assert [[entry.id for entry in group] for group in search.duplicates(16, tolerance=30)] == [
            [entry.id for entry in group] for group in expected.duplicates(16, tolerance=30)
        ]
        assert search.info().labels == expected.info().labels
        assert search.verify() == []
        # Files are followed.
        touch(files[1])
        files[0].rename(photos / "moved.png")
        files[-1].unlink()
        reports = [each.refresh() for each in (search, expected)]
        assert reports[0] == reports[1]
        # Another model.
        assert search.upgrade(models / "label").encoded == expected.upgrade(models / "label").encoded
        assert (search.n_bits, search.look_bits) == (12, 0)
        mine, theirs = search.query(picture), expected.query(picture)
        assert [(hit.id, hit.distance) for hit in mine] == [(hit.id, hit.distance) for hit in theirs]
    with pytest.raises(ArtefactError, match="was made with another model"):
        ImageSearch.open(address, model=models / "pair")
    with ImageSearch.open(address) as search:
        assert (len(search), search.query(picture)[0].id) == (17, 19)
        assert "word" not in search.address


@pytest.mark.parametrize("address", ["postgres", "milvus"], indirect=True)
def test_a_copy_there_and_back_is_the_same_index(address, models, tmp_path, rng, monkeypatch):
    photos = write_photos(tmp_path / "photos", rng)
    start, end = tmp_path / "start", tmp_path / "end"
    with ImageSearch.create(start, models / "pair") as search:
        search.add(photos, labels=[["all"]], metadata=[{"a": [1.5]}])
        search.add(draw(rng, (9, 9, 9)))
        search.remove([3])
        before = search.entries(search.ids())
    assert copy_store(start, address, wait=5) == 18
    assert copy_store(address, end, wait=5) == 18
    with ImageSearch.open(end) as search, ImageSearch.open(start) as original:
        assert search.entries(search.ids())[:-1] == before[:-1]
        mine, theirs = search.query(7), original.query(7)
        assert [(hit.id, hit.distance) for hit in mine] == [(hit.id, hit.distance) for hit in theirs]
        assert (search.verify(), search.refresh().unchanged) == ([], 18)
        search.remove([1])
        search.change_labels(LabelChange((2,), add=("changed",)))
    assert has_store(address)
    with pytest.raises(ArtefactError, match="in 2 entries; copy to a new, empty place"):
        copy_store(end, address, wait=5)
