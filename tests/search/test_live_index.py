"""Index files: derived from the catalogue, and rebuilt when they do not fit."""

import shutil

import pytest
from small_photos import draw

from ddsh import ImageSearch
from ddsh.search.catalogue import Catalogue


def saved(search):
    return sorted(path.name for path in (search.folder / "index").iterdir())


def found(folder):
    with ImageSearch.open(folder) as search:
        return [(hit.id, hit.distance) for hit in search.query(1, k=100)]


def test_small_changes_are_not_worth_new_files_and_large_ones_are(search, rng):
    first = saved(search)
    assert len(first) == 1
    search.add(draw(rng, (1, 2, 3)))
    assert saved(search) == first
    search.add([draw(rng, (1, 2, 3)) for _ in range(5)])
    assert saved(search) != first
    assert len(saved(search)) == 1


def test_changes_since_the_files_were_written_are_found(search, rng):
    search.add(draw(rng, (1, 2, 3)))
    assert len(found(search.folder)) == 19


@pytest.fixture
def search_pairs(tmp_path, pair_model, photos):
    with ImageSearch.create(tmp_path / "pairs", pair_model) as made:
        made.add(photos)
        yield made


@pytest.mark.parametrize("code", ["label", "look"])
@pytest.mark.parametrize("damage", ["missing", "code missing", "no manifest", "cut", "as one code", "unfinished"])
def test_files_that_are_damaged_or_missing_are_made_again(search_pairs, damage, code):
    search = search_pairs
    expected = found(search.folder)
    folder = search.folder / "index" / saved(search)[0]
    if damage == "missing":
        shutil.rmtree(folder)
    elif damage == "code missing":
        shutil.rmtree(folder / code)
    elif damage == "no manifest":
        (folder / code / "index.json").unlink()
    elif damage == "cut":
        files = list((folder / code).glob("*.npy"))
        assert files
        for path in files:
            path.write_bytes(path.read_bytes()[:-1])
    elif damage == "as one code":  # as earlier versions wrote them
        for path in (folder / code).iterdir():
            path.rename(folder / path.name)
    else:
        folder.rename(folder.with_name(f".{folder.name}"))
    search.close()
    assert found(search.folder) == expected
    with ImageSearch.open(search.folder) as again:
        again.remove([2])
        assert len(saved(again)) == 1
    assert found(search.folder) == [hit for hit in expected if hit[0] != 2]


def test_old_files_that_were_removed_in_part_are_no_problem(search, rng, monkeypatch):
    def stop(folder, **_):
        next(iter(folder.rglob("*.npy"))).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stop)
        with pytest.raises(KeyboardInterrupt):
            search.add([draw(rng, (1, 2, 3)) for _ in range(5)])
    search.close()
    with ImageSearch.open(search.folder) as again:
        assert len(saved(again)) == 2
        assert again.verify() == []
        assert len(again.query(1, k=100)) == 23
        again.add([draw(rng, (1, 2, 3)) for _ in range(5)])
        assert len(saved(again)) == 1


def test_files_of_another_history_are_not_believed(search, tmp_path):
    """A backup of the catalogue is put back while newer files of the index stay."""
    search.close()
    backup = tmp_path / "backup.sqlite"
    shutil.copy(search.folder / "catalogue.sqlite", backup)
    with ImageSearch.open(search.folder) as opened:
        opened.remove(range(2, 10))
    shutil.copy(backup, search.folder / "catalogue.sqlite")
    assert len(found(search.folder)) == 18
    with Catalogue(search.folder / "catalogue.sqlite") as catalogue:
        with catalogue.transaction():  # as a writer leaves it that is killed before it saves the index
            catalogue.remove([18])
        assert int(saved(search)[0][:12]) == catalogue.state().generation
    assert {number for number, _ in found(search.folder)} == set(range(1, 18))


def test_a_reader_far_behind_catches_up_after_its_state_was_forgotten(search, rng):
    with ImageSearch.open(search.folder) as reader:
        assert len(reader.query(1, k=100)) == 18
        for _ in range(4):
            search.add([draw(rng, (50, 60, 70)) for _ in range(8)])
        search.remove(range(2, 12))
        assert {hit.id for hit in reader.query(1, k=100)} == {hit.id for hit in search.query(1, k=100)}
        assert len(reader.query(1, k=100)) == 40


def test_the_folder_of_index_files_may_be_deleted_at_any_time(search, rng):
    expected = found(search.folder)
    shutil.rmtree(search.folder / "index")
    assert found(search.folder) == expected
    search.add(draw(rng, (1, 2, 3)))
    assert len(found(search.folder)) == 19
    assert len(saved(search)) == 1
    shutil.rmtree(search.folder / "images")
    search.refresh()
    assert search.verify() == []


def test_damaged_files_are_named_in_the_log_and_found_by_verify(search, caplog):
    search.close()
    folder = search.folder / "index" / saved(search)[0]
    array = next(folder.rglob("codes-*.npy"))
    data = bytearray(array.read_bytes())
    data[-1] ^= 1
    array.write_bytes(data)
    with ImageSearch.open(search.folder) as opened:
        assert any(array.name in line and "delete" in line for line in opened.verify())
    array.write_bytes(data[:-1])
    assert len(found(search.folder)) == 18
    assert "rebuilt from the catalogue" in caplog.text
