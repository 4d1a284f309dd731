"""The catalogue: transactions, states and the changes between them."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from ddsh import ImageSearch
from ddsh.errors import ArtefactError, InvalidInput
from ddsh.search import LabelChange
from ddsh.search.catalogue import Catalogue, State
from ddsh.search.store import Content, Entry


@pytest.fixture
def catalogue(tmp_path):
    Catalogue.create(tmp_path / "catalogue.sqlite", "model")
    with Catalogue(tmp_path / "catalogue.sqlite") as opened:
        yield opened


def put(catalogue, path, byte):
    sha256 = bytes([byte]) * 32
    if not catalogue.has_content(sha256):
        catalogue.put_content(Content(sha256, 10, 4, 5, bytes([byte]), b"tiny"))
    return catalogue.add(path, sha256, 123)


def test_changes_since_a_state_are_what_was_added_replaced_and_removed(catalogue, tmp_path):
    with catalogue.transaction():
        one, two, three = (put(catalogue, tmp_path / f"{byte}.png", byte) for byte in (1, 2, 3))
    state = catalogue.state()
    with catalogue.transaction():
        catalogue.remove([one])
    with catalogue.transaction():
        four = put(catalogue, tmp_path / "4.png", 4)
        catalogue.replace(two, bytes([3]) * 32, 456)
    changes = catalogue.changes(state)
    assert changes.gone.tolist() == [one, two, four]
    assert changes.ids.tolist() == [two, four]
    assert changes.packed.tolist() == [[3], [4]]
    assert catalogue.codes().ids.tolist() == [two, three, four]
    assert catalogue.count_changes(state) == 3
    assert catalogue.changes(catalogue.state()).gone.tolist() == []


def test_restoring_many_images_is_restoring_each(tmp_path):
    contents = {n: Content(bytes([n // 2]) * 32, 10, 4, 5, bytes([n // 2]), b"tiny") for n in range(1, 6)}
    entries = [
        Entry(n, path, contents[n].sha256.hex(), 10, 4, 5, n, labels, {"n": n} if n % 2 else {})
        for n, path, labels in (
            (5, "{}/images/5.png", ("cat", "dog", "cat")),
            (2, "{}/a/../2.png", ()),
            (3, "{}//3.png", ("dog",)),
            (4, "/elsewhere/4.png", ("é",)),
            (1, "{}-not/1.png", ()),
        )
    ]
    found = []
    for name in ("many", "each"):
        (tmp_path / name).mkdir()
        Catalogue.create(tmp_path / name / "catalogue.sqlite", "model")
        mine = [entry._replace(path=entry.path.format(tmp_path / name)) for entry in entries]
        with Catalogue(tmp_path / name / "catalogue.sqlite") as catalogue:
            with catalogue.transaction():
                put(catalogue, tmp_path / name / "first.png", 1)  # has content 1 and id 1
            with catalogue.transaction():
                catalogue.remove([1])
            state = catalogue.state()
            with catalogue.transaction():
                if name == "many":
                    catalogue.restore_all(mine, contents)
                for entry in mine if name == "each" else ():
                    if not catalogue.has_content(contents[entry.id].sha256):
                        catalogue.put_content(contents[entry.id])
                    catalogue.restore(entry)
            changes = catalogue.changes(state)
            assert not catalogue.problems()
            shown = [
                entry._replace(path=entry.path.replace(str(tmp_path / name), "{}"))
                for entry in catalogue.entries(range(1, 6))
            ]
            found.append((shown, changes.ids.tolist(), changes.packed.tolist(), catalogue.label_counts()))
            with pytest.raises(ArtefactError, match="UNIQUE"), catalogue.transaction():
                catalogue.restore_all(mine[:1], contents)
    assert found[0] == found[1]
    assert found[0][1:] == ([1, 2, 3, 4, 5], [[0], [1], [1], [2], [2]], {"cat": 1, "dog": 2, "é": 1})


def test_a_block_that_fails_leaves_nothing(catalogue, tmp_path):
    state = catalogue.state()

    def fail():
        with catalogue.transaction():
            put(catalogue, tmp_path / "1.png", 1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (catalogue.count(), catalogue.state()) == (0, state)


def test_a_block_that_changes_nothing_is_no_new_state(catalogue):
    state = catalogue.state()
    with catalogue.transaction():
        catalogue.remove([5])
    assert catalogue.state() == state


def test_a_state_of_another_history_or_a_forgotten_one_is_not_known(catalogue, tmp_path):
    first = catalogue.state()
    for byte in (1, 2):
        with catalogue.transaction():
            put(catalogue, tmp_path / f"{byte}.png", byte)
    last = catalogue.state()
    assert catalogue.has_state(first)
    assert not catalogue.has_state(State(last.generation, "0" * 16))
    catalogue.forget_before(last)
    assert not catalogue.has_state(first)
    assert catalogue.has_state(last)


def test_a_reader_sees_one_state_while_another_writes(catalogue, tmp_path):
    with Catalogue(tmp_path / "catalogue.sqlite") as reader, reader.reading():
        assert reader.count() == 0
        with catalogue.transaction():
            put(catalogue, tmp_path / "1.png", 1)
        assert reader.count() == 0
    assert catalogue.count() == 1


def test_labels_go_with_their_image_and_contents_with_their_last(catalogue, tmp_path):
    with catalogue.transaction():
        one, two = (put(catalogue, tmp_path / f"{number}.png", 7) for number in (1, 2))
        catalogue.set_labels(one, ["b", "a", "a"])
    assert catalogue.entries([two, one, 99])[1].labels == ("a", "b")
    assert catalogue.label_counts() == {"a": 1, "b": 1}
    with catalogue.transaction():
        catalogue.remove([one])
    assert catalogue.label_counts() == {}
    assert catalogue.count_contents() == (1, 1)
    with catalogue.transaction():
        catalogue.remove([two])
    assert not catalogue.has_content(bytes([7]) * 32)


def test_labels_that_stay_are_not_written_again(catalogue, tmp_path):
    image = put(catalogue, tmp_path / "a", 1)
    catalogue.set_labels(image, [str(number) for number in range(200)])
    before = catalogue._connection.total_changes
    catalogue.set_labels(image, [str(number) for number in range(1, 201)])
    assert catalogue._connection.total_changes - before < 20
    assert catalogue.labels_of(image) == tuple(sorted(str(number) for number in range(1, 201)))
    assert catalogue.problems() == []


def test_a_database_of_another_kind_or_version_is_refused_in_one_line(tmp_path):
    path = tmp_path / "catalogue.sqlite"
    with pytest.raises(ArtefactError, match="cannot be used"):
        Catalogue(path)
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(ArtefactError, match="is not a catalogue"):
        Catalogue(path)
    path.unlink()
    Catalogue.create(path, "model")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(ArtefactError, match="has version 9"):
        Catalogue(path)


def _flip(catalogue, sql):
    """Change a value as a damaged disk does: behind the back of the triggers."""
    with sqlite3.connect(catalogue) as connection:
        connection.create_function("checksum", -1, lambda *_: None)
        kept = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, *_ in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(sql)
        for (trigger,) in kept:
            connection.execute(trigger)
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE contents SET code = x'ffff' WHERE id = 1",
        "UPDATE contents SET width = width + 1 WHERE id = 1",
        "UPDATE images SET metadata = '{\"a\": 1}' WHERE id = 1",
        "UPDATE images SET path = path || 'x' WHERE id = 1",
        "UPDATE images SET content = 2 WHERE id = 1",
    ],
)
def test_a_changed_value_is_refused_by_name_and_found_by_verify(search, sql):
    assert search.verify() == []
    search.close()
    _flip(search.folder / "catalogue.sqlite", sql)
    with ImageSearch.open(search.folder) as damaged:
        with pytest.raises(ArtefactError, match=r"catalogue\.sqlite is damaged \(image 1 does not fit"):
            damaged.query(1, k=100)
        problems = damaged.verify()
    assert len(problems) == 1
    assert "row 1 of" in problems[0]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE labels SET label = 'gveen' WHERE image = 3", "the labels of image 3 do not fit"),
        ("DELETE FROM labels WHERE image = 3", "the labels of image 3 do not fit"),
        ("UPDATE labels SET label = 'gveen' WHERE image = 4", "label 'green' has lost images"),
        ("UPDATE labels SET image = 7 WHERE image = 4", "label 'green' has lost images"),
        ("UPDATE label_totals SET n_images = 19 WHERE label = 'blue'", "with label 'blue' does not fit"),
        ("DELETE FROM images WHERE id = 5", "entries are missing"),
    ],
)
def test_lost_labels_and_images_are_refused_and_found_by_verify(search, sql, message):
    search.change_labels([LabelChange([3, 5], add=["blue"]), LabelChange([4, 6], add=["green"])])
    assert search.verify() == []
    search.close()
    _flip(search.folder / "catalogue.sqlite", sql)

    def read(damaged):
        damaged.entry(3)
        damaged.query(1, k=100, label="green")
        damaged.info()
        damaged.query(1, k=100)

    with ImageSearch.open(search.folder) as damaged:
        with pytest.raises(ArtefactError, match=message):
            read(damaged)
        assert damaged.verify()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE images SET path = 'other.png' WHERE id = 3", "image 3 does not fit its checksum"),
        ('UPDATE images SET metadata = \'{"by": "mx"}\' WHERE id = 4', "image 4 does not fit its checksum"),
        ("UPDATE labels SET label = 'gveen' WHERE image = 4", "label 'green' has lost images"),
        ("DELETE FROM labels WHERE label = 'green'", "label 'green' has lost images"),
        ("UPDATE label_totals SET label = 'gveen'", "with label 'gveen' does not fit"),
    ],
)
def test_words_are_not_looked_up_in_changed_values(search, sql, message):
    search.change_labels([LabelChange([4, 6], add=["green"])])
    for word in ("green", "png", "nowhere"):
        search.query(1, text=word)
    search.close()
    _flip(search.folder / "catalogue.sqlite", sql)
    with ImageSearch.open(search.folder) as damaged, pytest.raises(ArtefactError, match=message):
        damaged.query(1, text="green")


@pytest.mark.parametrize("version", [1, 2])
def test_a_catalogue_without_checksums_gets_them(search, caplog, version):
    search.change_labels([LabelChange([1, 2], add=["green"]), LabelChange([2], add=["blue"])])
    search.close()
    with sqlite3.connect(search.folder / "catalogue.sqlite") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            if version == 1 or name.startswith("labels_"):
                connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DROP TABLE label_totals")
        connection.execute("ALTER TABLE images DROP COLUMN label_sum")
        for table in ("images", "contents") if version == 1 else ():
            connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with ImageSearch.open(search.folder) as opened:
        assert "gets checksums" in caplog.text
        assert opened.verify() == []
        opened.add(np.zeros((16, 16, 3), np.uint8), labels=["green"], metadata=[{"n": 1}])
        opened.remove([2])
        assert opened.verify() == []
        assert len(opened.query(1, k=100)) == 18
        assert (len(opened.query(1, k=100, label="green")), opened.info().labels["green"]) == (2, 2)


def test_metadata_that_no_response_can_hold_is_refused_and_left_out_if_it_is_there(search, caplog):
    nested: list = []
    for _ in range(300):
        nested = [nested]
    for metadata in ({"a": "\ud800"}, {"\udfff": 1}, {"a": nested}):
        with pytest.raises(InvalidInput, match="Metadata has"):
            search.add(np.zeros((16, 16, 3), np.uint8), metadata=[metadata])
    with Catalogue(search.folder / "catalogue.sqlite") as catalogue, catalogue.transaction():
        catalogue.set_metadata(1, '{"a": "\\ud800"}')
        catalogue.set_metadata(2, "{")
    assert search.entry(1).metadata == search.entry(2).metadata == {}
    assert "metadata of image 1 is left out" in caplog.text


def test_a_kept_image_that_changed_is_found(search):
    number = search.add(np.zeros((16, 16, 3), np.uint8)).added[0]
    path = Path(search.entry(number).path)
    path.write_bytes(b"x")
    assert "content has changed" in search.verify()[0]
    path.unlink()
    assert "No such file" in search.verify()[0]
