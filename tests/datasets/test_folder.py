"""Folders with one subfolder per class, and folders without labels."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from ddsh.datasets import Dataset, Skipped, is_unlabelled, load_folder, load_unlabelled
from ddsh.errors import DataError
from ddsh.labels import SingleLabels


def make_image(path: Path, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("L", (4, 4), shade).save(path)
    return path


def make_broken(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not an image")
    return path


def names(dataset: Dataset) -> list[str]:
    return [Path(dataset.images.name(row)).name for row in range(len(dataset))]


def the_error(load: Callable[[], object]) -> str:
    """Return the message of the DataError that loading raises; it must be one line."""
    with pytest.raises(DataError) as raised:
        load()
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    make_image(root / "dog" / "2.png", 20)
    make_image(root / "dog" / "1.PNG", 10)
    make_image(root / "cat" / "deep" / "er" / "b.jpg", 40)
    make_image(root / "cat" / "a.webp", 30)
    return root


def test_each_subfolder_is_a_class_and_files_come_in_the_order_of_their_names(photos: Path) -> None:
    dataset = load_folder(photos)
    assert dataset.name == "photos"
    assert dataset.protocol == "own"
    assert dataset.class_names == ("cat", "dog")
    assert names(dataset) == ["a.webp", "b.jpg", "1.PNG", "2.png"]
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.to_array().tolist() == [0, 0, 1, 1]
    assert dataset.class_counts() == {"cat": 2, "dog": 2}
    assert dataset.skipped == ()
    assert dataset.images[2].shape == (4, 4, 3)
    assert dataset.images[2].max() == 10


def test_hidden_files_and_files_that_are_no_images_are_passed_over(photos: Path) -> None:
    make_image(photos / "dog" / "._1.png")
    make_image(photos / "dog" / ".thumbs" / "1.png")
    make_image(photos / ".cache" / "1.png")
    make_image(photos / ".loose.png")
    make_broken(photos / "dog" / ".DS_Store")
    make_broken(photos / "dog" / "notes.txt")
    make_broken(photos / "readme.md")
    dataset = load_folder(photos, strict=True)
    assert names(dataset) == ["a.webp", "b.jpg", "1.PNG", "2.png"]


def test_loose_images_beside_the_class_folders_are_unlabelled_and_last(photos: Path) -> None:
    before = load_folder(photos)
    make_image(photos / "a loose.PNG")
    dataset = load_folder(photos, strict=True)
    assert names(dataset) == [*names(before), "a loose.PNG"]
    assert dataset.unlabelled.tolist() == [4]
    assert dataset.class_counts() == before.class_counts()
    assert dataset.class_names == before.class_names


def test_a_broken_file_is_listed_with_its_reason_and_skipped(photos: Path) -> None:
    text = make_broken(photos / "cat" / "aa.jpg")
    empty = photos / "cat" / "ab.jpg"
    empty.touch()
    dataset = load_folder(photos)
    assert names(dataset) == ["a.webp", "b.jpg", "1.PNG", "2.png"]
    assert [skipped.path for skipped in dataset.skipped] == [str(text), str(empty)]
    assert dataset.skipped[0].reason.startswith("not a JPEG, PNG")
    assert dataset.skipped[1].reason == "the file is empty"


def test_a_truncated_file_is_listed_and_skipped(photos: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    path = photos / "cat" / "cut.png"
    Pillow.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:1000])
    dataset = load_folder(photos)
    assert [skipped.path for skipped in dataset.skipped] == [str(path)]
    assert "damaged" in dataset.skipped[0].reason


def test_a_link_to_nowhere_is_listed_and_skipped(photos: Path) -> None:
    (photos / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    assert [skipped.reason for skipped in load_folder(photos).skipped] == ["does not exist"]


def test_without_verification_a_broken_file_is_found_only_when_it_is_read(photos: Path) -> None:
    make_broken(photos / "cat" / "aa.jpg")
    (photos / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    dataset = load_folder(photos, verify=False)
    assert names(dataset) == ["a.webp", "aa.jpg", "b.jpg", "1.PNG", "2.png"]
    assert [skipped.reason for skipped in dataset.skipped] == ["does not exist"]
    with pytest.raises(DataError, match=r"aa\.jpg"):
        dataset.images[1]


@pytest.mark.parametrize("content", ["broken", "empty", "text"])
def test_a_class_without_a_readable_image_is_left_out_and_listed(photos: Path, content: str) -> None:
    (photos / "cow").mkdir()
    if content != "empty":
        make_broken(photos / "cow" / ("1.jpg" if content == "broken" else "1.txt"))
    dataset = load_folder(photos)
    assert dataset.class_names == ("cat", "dog")
    assert dataset.labels.to_array().tolist() == [0, 0, 1, 1]
    assert dataset.skipped[-1] == Skipped(str(photos / "cow"), "class left out: no readable image")
    assert len(dataset.skipped) == (2 if content == "broken" else 1)


def test_strict_loading_names_the_first_five_and_counts_all(photos: Path) -> None:
    for number in range(7):
        make_broken(photos / "cat" / f"broken{number}.jpg")
    message = the_error(lambda: load_folder(photos, strict=True))
    assert "7 entries cannot be used" in message
    assert all(f"broken{number}.jpg" in message for number in range(5))
    assert "broken5.jpg" not in message
    assert "and 2 more" in message


@pytest.mark.parametrize("verify", [True, False])
def test_progress_is_told_after_each_file(photos: Path, verify: bool) -> None:
    make_broken(photos / "cat" / "aa.jpg")
    calls: list[tuple[int, int]] = []
    load_folder(photos, verify=verify, on_progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, 5) for done in range(1, 6)]


def test_an_interruption_in_the_progress_callback_ends_the_loading(photos: Path) -> None:
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_folder(photos, on_progress=interrupt)


def test_more_files_than_a_batch_keep_their_order(tmp_path: Path) -> None:
    first = make_image(tmp_path / "a" / "00000.png")
    for number in range(1, 1100):
        os.link(first, first.with_name(f"{number:05}.png"))
    dataset = load_folder(tmp_path, verify=False)
    assert names(dataset) == [f"{number:05}.png" for number in range(1100)]


def test_a_linked_class_folder_is_followed_but_a_loop_inside_is_not(photos: Path, tmp_path: Path) -> None:
    make_image(tmp_path / "elsewhere" / "1.png")
    (photos / "ant").symlink_to(tmp_path / "elsewhere")
    (photos / "cat" / "loop").symlink_to(photos)
    dataset = load_folder(photos)
    assert dataset.class_counts() == {"ant": 1, "cat": 2, "dog": 2}


def test_a_folder_is_named_also_where_it_is_given_as_a_dot(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos / "cat")
    assert load_folder(Path("..")).name == "photos"
    monkeypatch.chdir(photos)
    assert load_folder(Path()).name == "photos"


def test_two_loadings_give_the_same_order_and_labels(photos: Path) -> None:
    make_broken(photos / "dog" / "0.gif")
    first, second = load_folder(photos), load_folder(photos)
    assert names(first) == names(second)
    assert first.labels.to_array().tolist() == second.labels.to_array().tolist()
    assert first.skipped == second.skipped


def test_the_order_does_not_depend_on_the_order_of_creation(tmp_path: Path) -> None:
    files = ["B/x.png", "a/2/z.png", "a/10/y.png", "a/10.png", "Ä/x.png"]
    for root, order in [("one", files), ("two", files[::-1])]:
        for name in order:
            make_image(tmp_path / root / name)
    one, two = load_folder(tmp_path / "one"), load_folder(tmp_path / "two")
    assert names(one) == names(two) == ["x.png", "y.png", "10.png", "z.png", "x.png"]
    assert one.class_names == two.class_names == ("B", "a", "Ä")


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    assert "does not exist" in the_error(lambda: load_folder(tmp_path / "none"))


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    path = make_image(tmp_path / "a.png")
    assert "is a file" in the_error(lambda: load_folder(path))


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    assert "no images and no subfolders" in the_error(lambda: load_folder(tmp_path))


@pytest.mark.parametrize("empty_folder", [False, True])
def test_unlabelled_images_are_an_error_that_says_what_to_do(tmp_path: Path, empty_folder: bool) -> None:
    make_image(tmp_path / "1.png")
    if empty_folder:
        make_broken(tmp_path / "cat" / "notes.txt")
    message = the_error(lambda: load_folder(tmp_path))
    assert "unlabelled: 1 images" in message
    assert "one subfolder per class" in message
    assert "CSV or JSONL" in message
    assert f"ddsh index {tmp_path} --out my-index" in message


def test_subfolders_without_images_are_an_error(tmp_path: Path) -> None:
    make_broken(tmp_path / "cat" / "notes.txt")
    assert "its 1 subfolders hold no images" in the_error(lambda: load_folder(tmp_path))


def test_a_folder_in_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    make_broken(tmp_path / "cat" / "1.jpg")
    message = the_error(lambda: load_folder(tmp_path))
    assert "no image can be read" in message
    assert "1.jpg (not a JPEG" in message


def test_a_folder_that_must_not_be_read_is_an_error(photos: Path) -> None:
    closed = photos / "cat" / "deep"
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        pytest.skip("every folder is open to this user")
    message = the_error(lambda: load_folder(photos))
    closed.chmod(0o700)
    assert "cannot be read (Permission denied)" in message


def test_a_line_break_in_a_file_name_does_not_break_the_message(tmp_path: Path) -> None:
    make_broken(tmp_path / "cat" / "a\nb.jpg")
    assert "a b.jpg (not a JPEG" in the_error(lambda: load_folder(tmp_path))


def test_a_folder_name_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    make_image(tmp_path / os.fsdecode(b"caf\xe9") / "1.png")
    assert "holds characters that are no text" in the_error(lambda: load_folder(tmp_path))


def test_unlabelled_images_are_read_at_any_depth_and_broken_ones_listed(photos: Path) -> None:
    broken = make_broken(photos / "cat" / "aa.jpg")
    images, skipped = load_unlabelled(str(photos))
    assert [path.name for path in images.paths] == ["a.webp", "b.jpg", "1.PNG", "2.png"]
    assert [file.path for file in skipped] == [str(broken)]
    assert len(load_unlabelled(photos / "dog" / "2.png")[0]) == 1


def test_a_folder_is_unlabelled_if_images_lie_directly_in_it_and_none_in_subfolders(photos: Path) -> None:
    assert not is_unlabelled(str(photos))
    assert is_unlabelled(photos / "dog")
    assert is_unlabelled(photos / "dog" / "2.png")
    make_broken(photos / "dog" / "empty" / "notes.txt")
    assert is_unlabelled(photos / "dog")
    make_image(photos / "loose.png")
    assert not is_unlabelled(photos)
    assert not is_unlabelled(photos / "none")
