"""Text lists: the three forms, what is refused, and the public lists themselves."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from ddsh.datasets import lists
from ddsh.errors import BrokenImage, DataError
from ddsh.images import FileImages

STEADY = settings(derandomize=True, database=None, deadline=None)
PATHS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=12).filter(
    lambda text: text.strip() == text and "\ufeff" not in text
)


@pytest.fixture(scope="module")
def public() -> Path:
    if "DDSH_DATA" not in os.environ:
        pytest.skip("the public lists are needed: set DDSH_DATA to the folder that holds nuswide-lists")
    return Path(os.environ["DDSH_DATA"]) / "nuswide-lists"


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def paths_of(images: object) -> list[str]:
    assert isinstance(images, FileImages)
    return [path.name for path in images.paths]


def message(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        lists.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_single_file_gives_images_and_labels_without_parts(tmp_path: Path) -> None:
    dataset = lists.load(write(tmp_path / "birds.txt", "a.jpg 0 1 0", "b.jpg 1 1 0", "c.jpg 0 0 0"))
    assert dataset.labels.to_array().tolist() == [[0, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert paths_of(dataset.images) == ["a.jpg", "b.jpg", "c.jpg"]
    assert (dataset.name, dataset.class_names) == ("birds", ("0", "1", "2"))
    assert (dict(dataset.parts), dataset.protocol) == ({}, "own")


def test_windows_line_ends_tabs_trailing_blanks_and_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbfa.jpg 0 1 \r\nb.jpg\t1\t0\r\n\r\n")
    dataset = lists.load(path)
    assert dataset.labels.to_array().tolist() == [[0, 1], [1, 0]]
    assert paths_of(dataset.images) == ["a.jpg", "b.jpg"]


def test_images_are_read_from_the_folder_of_the_list_or_from_the_root_given(tmp_path: Path) -> None:
    path = write(tmp_path / "lists" / "list.txt", "images/a.jpg 1")
    (tmp_path / "images").mkdir()
    Pillow.new("RGB", (3, 2), "red").save(tmp_path / "images" / "a.jpg")
    assert lists.load(path, images_root=tmp_path).images[0].shape == (2, 3, 3)
    with pytest.raises(BrokenImage, match=re.escape(str(tmp_path / "lists" / "images" / "a.jpg"))):
        lists.load(path).images[0]


@pytest.mark.parametrize("given_file", ["x_img.txt", "x_label.txt"])
def test_either_file_of_a_pair_stands_for_both(tmp_path: Path, given_file: str) -> None:
    write(tmp_path / "x_img.txt", "a b.jpg", "c.jpg")
    write(tmp_path / "x_label.txt", "1 0 1 ", "0 0 1 ")
    dataset = lists.load(tmp_path / given_file)
    assert dataset.labels.to_array().tolist() == [[1, 0, 1], [0, 0, 1]]
    assert paths_of(dataset.images) == ["a b.jpg", "c.jpg"]
    assert dataset.name == "x"


def test_a_pair_of_different_lengths_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "x_img.txt", "a.jpg")
    write(tmp_path / "x_label.txt", "1 0", "0 1")
    assert "1 lines but" in message(tmp_path / "x_img.txt")


def test_half_a_pair_is_refused_and_the_missing_half_is_named(tmp_path: Path) -> None:
    assert "x_label.txt cannot be read" in message(write(tmp_path / "x_img.txt", "a.jpg"))


def test_a_folder_gives_query_train_and_database_with_shared_paths_as_one_row(tmp_path: Path) -> None:
    write(tmp_path / "test.txt", "q.jpg 1 0")
    write(tmp_path / "database.txt", "a.jpg 0 1", "b.jpg 1 1", "c.jpg 1 0")
    write(tmp_path / "train.txt", "c.jpg 1 0", "only-train.jpg 0 1", "a.jpg 0 1")
    dataset = lists.load(tmp_path)
    names = {part: [paths_of(dataset.images)[row] for row in rows] for part, rows in dataset.parts.items()}
    assert names == {
        "query": ["q.jpg"],
        "database": ["a.jpg", "b.jpg", "c.jpg"],
        "train": ["c.jpg", "only-train.jpg", "a.jpg"],
    }
    assert len(dataset) == 5
    assert dataset.labels.take(dataset.parts["train"]).to_array().tolist() == [[1, 0], [0, 1], [0, 1]]
    assert (dataset.name, dataset.protocol) == (tmp_path.name, "given")
    assert all(rows.dtype == np.int64 for rows in dataset.parts.values())


def test_without_a_database_list_train_is_the_database(tmp_path: Path) -> None:
    write(tmp_path / "test.txt", "q.jpg 1")
    write(tmp_path / "train.txt", "a.jpg 0", "b.jpg 1")
    dataset = lists.load(tmp_path)
    assert dataset.parts["database"].tolist() == dataset.parts["train"].tolist() == [1, 2]
    assert dataset.protocol == "given"


def test_without_a_train_list_there_is_no_train_part(tmp_path: Path) -> None:
    write(tmp_path / "test.txt", "q.jpg 1")
    write(tmp_path / "database.txt", "a.jpg 0")
    dataset = lists.load(tmp_path)
    assert sorted(dataset.parts) == ["database", "query"]
    assert dataset.protocol == "given"


def test_without_a_test_list_there_are_no_parts(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "a.jpg 0")
    write(tmp_path / "database.txt", "a.jpg 0", "b.jpg 1")
    dataset = lists.load(tmp_path)
    assert (len(dataset), dict(dataset.parts), dataset.protocol) == (2, {}, "own")


def test_a_test_list_alone_gives_queries_but_no_given_protocol(tmp_path: Path) -> None:
    write(tmp_path / "test.txt", "q.jpg 1")
    dataset = lists.load(tmp_path)
    assert (list(dataset.parts), dataset.protocol) == (["query"], "own")


def test_a_prefix_chooses_among_the_sets_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "set21_train.txt", "a.jpg 0")
    write(tmp_path / "set21_test.txt", "b.jpg 1")
    write(tmp_path / "set21m_train.txt", "c.jpg 0 1")
    dataset = lists.load(tmp_path / "set21")
    assert paths_of(dataset.images) == ["b.jpg", "a.jpg"]
    assert dataset.name == "set21"
    assert lists.load(tmp_path / "set21m_").class_names == ("0", "1")


def test_a_folder_of_several_sets_is_refused_and_their_prefixes_are_listed(tmp_path: Path) -> None:
    write(tmp_path / "b_train.txt", "a.jpg 0")
    write(tmp_path / "a_test.txt", "a.jpg 0")
    assert "'a', 'b'" in message(tmp_path)


def test_an_unknown_prefix_is_refused_and_the_known_ones_are_listed(tmp_path: Path) -> None:
    write(tmp_path / "b_train.txt", "a.jpg 0")
    assert "'b'" in message(tmp_path / "c")


def test_a_folder_without_lists_is_refused(tmp_path: Path) -> None:
    assert "there are no such files" in message(tmp_path)


def test_different_labels_for_one_path_are_refused_and_both_places_are_named(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "z.jpg 1 1", "a.jpg 0 1")
    write(tmp_path / "database.txt", "a.jpg 1 1")
    text = message(tmp_path)
    assert text.startswith("a.jpg is labelled differently")
    assert "database.txt, line 1" in text
    assert "train.txt, line 2" in text


def test_lists_with_different_numbers_of_classes_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "a.jpg 0 1")
    write(tmp_path / "test.txt", "b.jpg 0 1 1")
    assert "has 2 classes but test.txt has 3" in message(tmp_path)


def test_a_path_that_occurs_twice_in_a_list_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "list.txt", "a.jpg 0", "b.jpg 0", "a.jpg 0")
    assert "line 3: a.jpg is already on line 1" in message(path)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a.jpg 0 1", "b.jpg 0"], "line 2: expected 2 values of 0 or 1, found 1"),
        (["a.jpg 0 1", "b.jpg 0 1 1"], "line 2: expected 2 values of 0 or 1, found more"),
        (["a.jpg 0 1", "b.jpg 0 2"], "line 2: expected 0 or 1, found '2'"),
        (["a.jpg 0 1 0", "b.jpg 10 0"], "line 2: expected 0 or 1, found '10'"),
        (["a.jpg 0 -1"], "line 1: expected 0 or 1, found '-1'"),
        (["a b.jpg 0 1"], "line 1: expected 0 or 1, found 'b.jpg'"),
        (["a.jpg 0 1", "b.jpg"], "line 2: expected a path and a row"),
        (["a.jpg 0 1", "", "b.jpg 0 1"], "line 2: expected a path and a row"),
        ([], "is empty"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(tmp_path: Path, lines: list[str], expected: str) -> None:
    text = message(write(tmp_path / "list.txt", *lines))
    assert "list.txt" in text
    assert expected in text


def test_a_blank_line_among_the_paths_of_a_pair_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "x_label.txt", "0", "1", "1")
    assert "x_img.txt, line 2: is blank" in message(write(tmp_path / "x_img.txt", "a.jpg", "", "b.jpg"))


def test_a_blank_line_among_the_labels_of_a_pair_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "x_img.txt", "a.jpg", "b.jpg")
    assert "x_label.txt, line 1: is blank" in message(write(tmp_path / "x_label.txt", "", "0 1"))


def test_binary_files_and_other_encodings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "utf16.txt").write_text("a.jpg 0\n", encoding="utf-16")
    assert "NUL" in message(tmp_path / "utf16.txt")
    (tmp_path / "latin.txt").write_bytes("a.jpg 0\né.jpg 0\n".encode("latin-1"))
    assert "line 2" in message(tmp_path / "latin.txt")


def test_a_file_beyond_the_size_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    with path.open("wb") as file:
        file.truncate(lists.MAX_LIST_BYTES + 1)
    assert "the limit" in message(path)


@settings(STEADY, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_written_list_is_read_back_as_it_was(tmp_path: Path, data: st.DataObject) -> None:
    paths = data.draw(st.lists(PATHS, min_size=1, max_size=8, unique=True))
    n_columns = data.draw(st.integers(1, 6))
    row = st.lists(st.integers(0, 1), min_size=n_columns, max_size=n_columns)
    table = data.draw(st.lists(row, min_size=len(paths), max_size=len(paths)))
    blank = data.draw(st.sampled_from([" ", "\t", "  "]))
    end = data.draw(st.sampled_from(["\n", "\r\n", " \n"]))
    file = tmp_path / "list.txt"
    lines = (blank.join([path, *map(str, values)]) for path, values in zip(paths, table, strict=True))
    file.write_bytes("".join(line + end for line in lines).encode())
    dataset = lists.load(file, images_root=Path("root"))
    assert isinstance(dataset.images, FileImages)
    assert list(dataset.images.paths) == [Path("root") / path for path in paths]
    assert dataset.labels.to_array().tolist() == table


@STEADY
@given(
    data=st.binary(max_size=30)
    | st.lists(st.sampled_from([b"0", b"1", b" ", b"\n", b"\r", b"\t", b"2", b"\x0b"])).map(b"".join),
    n_columns=st.integers(1, 3),
)
def test_rows_are_what_splitting_every_line_gives_or_an_error(data: bytes, n_columns: int) -> None:
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    rows = [re.split(rb"[ \t\r]+", line.strip(b" \t\r")) for line in lines]
    if all(len(row) == n_columns and set(row) <= {b"0", b"1"} for row in rows):
        expected = [[value == b"1" for value in row] for row in rows]
        assert lists.parse_rows(data, n_columns, Path("x")).tolist() == expected
    else:
        with pytest.raises(DataError, match="x, line "):
            lists.parse_rows(data, n_columns, Path("x"))


MIRFLICKR_DATABASE_TOTALS = (
    "2541 217 96 583 374 943 289 2946 1075 552 470 5007 3237 1473 864 791 6653 646 4895 2951 2155 531 8371 "
    "6354 7055 3164 3083 721 123 1075 175 6321 8024 1693 2344 3805 543 2704"
)
NUSWIDE21_TEST_TOTALS = "1171 875 249 725 203 329 260 212 284 407 323 199 142 232 253 205 161 170 180 188 194"
NUSWIDE21_TRAIN_TOTALS = "5051 3864 1185 3035 1153 1398 1056 977 1198 1381 1224 811 770 931 957 879 794 732 815 897 945"
ADSH_TEST_TOTALS = "1162 924 244 734 207 324 272 216 276 406 324 197 140 230 242 216 164 177 175 203 182"


def totals(array: np.ndarray) -> str:
    return " ".join(str(total) for total in array.sum(axis=0))


@pytest.mark.parametrize(
    ("name", "n_lines", "expected"),
    [
        ("deephash-pytorch_mirflickr_database.txt", 20_000, MIRFLICKR_DATABASE_TOTALS),
        ("deephash-pytorch_nuswide21_test.txt", 2_100, NUSWIDE21_TEST_TOTALS),
        ("deephash-pytorch_nuswide21_train.txt", 10_500, NUSWIDE21_TRAIN_TOTALS),
        ("adsh_test_img.txt", 2_100, ADSH_TEST_TOTALS),
    ],
)
def test_a_public_list_has_its_known_class_totals(public: Path, name: str, n_lines: int, expected: str) -> None:
    dataset = lists.load(public / name)
    assert len(dataset) == n_lines
    assert totals(dataset.labels.to_array().astype(np.int64)) == expected


@pytest.mark.parametrize(
    ("prefix", "sizes", "n_classes", "n_ones"),
    [
        ("mirflickr", {"query": 1_000, "train": 4_000, "database": 20_000}, 38, 117_906),
        ("nuswide21", {"query": 2_100, "train": 10_500, "database": 10_500}, 21, 37_015),
        ("nuswide21m", {"query": 2_100, "train": 10_500, "database": 10_500}, 21, 36_799),
        ("nuswide81m", {"query": 5_000, "train": 10_000, "database": 10_000}, 81, 36_513),
    ],
)
def test_a_public_set_has_its_known_parts(
    public: Path, prefix: str, sizes: dict[str, int], n_classes: int, n_ones: int
) -> None:
    dataset = lists.load(public / f"deephash-pytorch_{prefix}")
    assert {part: len(rows) for part, rows in dataset.parts.items()} == sizes
    assert (len(dataset.class_names), dataset.protocol) == (n_classes, "given")
    assert dataset.labels.to_array().sum() == n_ones


def test_the_public_mirflickr_lists_share_no_image(public: Path) -> None:
    dataset = lists.load(public / "deephash-pytorch_mirflickr")
    assert len(dataset) == 25_000
    assert not set(dataset.parts["train"]) & set(dataset.parts["database"])


def test_the_folder_of_public_lists_holds_four_sets(public: Path) -> None:
    text = message(public)
    assert all(name in text for name in ("mirflickr'", "nuswide21'", "nuswide21m'", "nuswide81m'"))
