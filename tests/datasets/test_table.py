"""Tables of paths and labels: CSV, TSV and JSONL."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from ddsh.datasets import Dataset, Skipped, load_table
from ddsh.datasets.table import MAX_TABLE_BYTES
from ddsh.errors import DataError
from ddsh.labels import MultiLabels, SingleLabels


def make_image(path: Path, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("L", (4, 4), shade).save(path)
    return path


def make_broken(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not an image")
    return path


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_jsonl(path: Path, *records: object) -> Path:
    return write(path, *map(json.dumps, records))


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
def pictures(tmp_path: Path) -> Path:
    """A folder with the images a.png to e.png; tables are written beside them."""
    for shade, name in enumerate("abcde"):
        make_image(tmp_path / f"{name}.png", shade)
    return tmp_path


def test_a_csv_table_with_one_label_each(pictures: Path) -> None:
    table = write(pictures / "mine.csv", "label, path ,note", "dog,b.png,x", "cat,a.png,", "dog,c.png,y")
    dataset = load_table(table)
    assert dataset.name == "mine"
    assert names(dataset) == ["b.png", "a.png", "c.png"]
    assert dataset.class_names == ("cat", "dog")
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.to_array().tolist() == [1, 0, 1]
    assert (dict(dataset.parts), dataset.protocol, dataset.skipped) == ({}, "own", ())
    assert dataset.images[0].max() == 1


MANY = (("a.png", ["sea", "sky"]), ("b.png", ["sky"]), ("c.png", ["city", "sea"]))


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".jsonl", ".CSV"])
def test_every_kind_of_table_gives_the_same_many_labels(pictures: Path, kind: str) -> None:
    path = pictures / f"mine{kind}"
    if kind == ".jsonl":
        write_jsonl(path, *({"path": image, "labels": labels} for image, labels in MANY))
    else:
        separator = "\t" if kind == ".tsv" else ","
        rows = (f"{image}{separator}{';'.join(labels)}" for image, labels in MANY)
        write(path, f"path{separator}labels", *rows)
    dataset = load_table(path)
    assert dataset.class_names == ("city", "sea", "sky")
    assert isinstance(dataset.labels, MultiLabels)
    assert dataset.labels.to_array().tolist() == [[0, 1, 1], [0, 0, 1], [1, 1, 0]]


def test_numbers_as_labels_become_strings(pictures: Path) -> None:
    one = write_jsonl(pictures / "one.jsonl", {"path": "a.png", "label": 7}, {"path": "b.png", "label": "7"})
    assert load_table(one).class_names == ("7",)
    many = write_jsonl(pictures / "many.jsonl", {"path": "a.png", "labels": [3, 1.5, "x"]})
    assert load_table(many).class_names == ("1.5", "3", "x")


def test_blanks_doubles_and_empty_names_in_labels_do_not_count(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,labels", "a.png, sea ;;sea; sky", "b.png,sky;")
    dataset = load_table(table)
    assert dataset.class_names == ("sea", "sky")
    assert dataset.labels.to_array().tolist() == [[1, 1], [0, 1]]


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_tolerated(pictures: Path) -> None:
    (pictures / "t.csv").write_bytes("\ufeffpath,label\r\n\r\na.png,Käse\r\n\r\n".encode())
    (pictures / "t.jsonl").write_bytes('\ufeff{"path": "a.png", "label": "Käse"}\r\n\r\n'.encode())
    assert load_table(pictures / "t.csv").class_names == ("Käse",)
    assert load_table(pictures / "t.jsonl").class_names == ("Käse",)


def test_a_quoted_field_may_hold_the_separator(pictures: Path) -> None:
    make_image(pictures / "x, y.png")
    table = write(pictures / "t.csv", "path,label", '"x, y.png","a ""b"", c"')
    assert load_table(table).class_names == ('a "b", c',)


def test_paths_are_relative_to_the_table_and_may_be_absolute(pictures: Path) -> None:
    inner = make_image(pictures / "sub" / "x.png", 99)
    table = write(pictures / "sub" / "t.csv", "path,label", "../a.png,p", "x.png,q", f"{pictures / 'b.png'},r")
    dataset = load_table(table)
    assert names(dataset) == ["a.png", "x.png", "b.png"]
    assert dataset.images.name(1) == str(inner)


def test_parts_hold_the_rows_of_the_images_that_were_kept(pictures: Path) -> None:
    table = write(
        pictures / "t.csv",
        "path,label,part",
        "a.png,p,database",
        "gone.png,p,database",
        "b.png,q,query",
        "c.png,p,train",
        "d.png,q,database",
    )
    dataset = load_table(table)
    assert {part: rows.tolist() for part, rows in dataset.parts.items()} == {
        "query": [1],
        "train": [2],
        "database": [0, 3],
    }
    assert all(rows.dtype == np.int64 for rows in dataset.parts.values())
    assert dataset.protocol == "given"


@pytest.mark.parametrize("parts", [("train", "database"), ("query", "train")])
def test_parts_without_query_or_database_leave_the_protocol(pictures: Path, parts: tuple[str, str]) -> None:
    records = ({"path": f"{name}.png", "label": "x", "part": part} for name, part in zip("ab", parts, strict=True))
    dataset = load_table(write_jsonl(pictures / "t.jsonl", *records))
    assert dataset.protocol == "own"
    assert set(dataset.parts) == set(parts)


def test_a_part_that_lost_all_its_images_is_an_error(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label,part", "gone.png,x,query", "a.png,x,database")
    assert "no image of the part query can be read" in the_error(lambda: load_table(table))


def test_missing_and_broken_images_are_listed_and_skipped(pictures: Path) -> None:
    make_broken(pictures / "broken.png")
    table = write(pictures / "t.csv", "path,label", "gone.png,x", "a.png,x", "broken.png,x", ".,x", "b.png,y")
    dataset = load_table(table)
    assert names(dataset) == ["a.png", "b.png"]
    assert dataset.labels.to_array().tolist() == [0, 1]
    assert [Path(skipped.path).name for skipped in dataset.skipped[:2]] == ["gone.png", "broken.png"]
    assert [skipped.reason for skipped in dataset.skipped][::2] == ["does not exist", "not a file"]


def test_a_class_of_a_table_without_a_readable_image_is_left_out_and_listed(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,labels", "a.png,x;z", "gone.png,x;y")
    dataset = load_table(table)
    assert dataset.class_names == ("x", "z")
    assert dataset.labels.to_array().tolist() == [[1, 1]]
    assert dataset.skipped[-1] == Skipped(str(table), "class 'y' left out: no readable image")


def test_strict_loading_of_a_table_names_the_first_five_and_counts_all(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label", "a.png,x", *(f"gone{n}.png,x" for n in range(6)))
    message = the_error(lambda: load_table(table, strict=True))
    assert "6 entries cannot be used" in message
    assert "gone4.png (does not exist)" in message
    assert "gone5.png" not in message
    assert "and 1 more" in message


def test_a_table_of_which_no_image_can_be_read_is_an_error(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label", "gone.png,x")
    assert "no image can be read" in the_error(lambda: load_table(table))


def test_progress_is_told_after_each_row(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label", "a.png,x", "b.png,x")
    calls: list[tuple[int, int]] = []
    load_table(table, on_progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize("second", ["a.png", "./a.png", "sub/../a.png", "ABSOLUTE"])
def test_rows_of_the_same_path_are_merged_and_counted(
    pictures: Path, caplog: pytest.LogCaptureFixture, second: str
) -> None:
    second = second.replace("ABSOLUTE", str(pictures / "a.png"))
    table = write(pictures / "t.csv", "path,label", "a.png,x", "b.png,x", f"{second},y", f"{second},x")
    dataset = load_table(table)
    assert names(dataset) == ["a.png", "b.png"]
    assert isinstance(dataset.labels, MultiLabels)
    assert dataset.labels.to_array().tolist() == [[1, 1], [1, 0]]
    assert caplog.messages == [f"{table}: 2 rows repeat an image; their labels were united."]


def test_merged_rows_with_the_same_label_keep_one_label_each(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label", "a.png,x", "b.png,y", "a.png,x", "b.png,")
    dataset = load_table(table)
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.labels.to_array().tolist() == [0, 1]
    assert len(dataset.unlabelled) == 0


def test_the_same_path_is_found_in_a_table_given_by_a_relative_path(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pictures / "t.csv", "path,label", "a.png,x", f"{pictures / 'a.png'},x")
    monkeypatch.chdir(pictures)
    assert len(load_table(Path("t.csv"))) == 1


def test_the_same_path_in_two_parts_names_both_lines(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label,part", "a.png,x,query", "b.png,x,train", "a.png,x,database")
    assert "lines 2 and 4: 'a.png' is in the parts query and database" in the_error(lambda: load_table(table))


@pytest.mark.parametrize(
    "lines",
    [
        ["Path,Labels", "a.png,x;y", "b.png,y"],
        ["FILE,Tags", "a.png,x;y", "b.png,y"],
        ["filename;labels", "a.png;x|y", "b.png;y"],
        ['"image";"labels"', '"a.png";"x;y"', '"b.png";"y"'],
        ["path\tclasses", "a.png\tx,y", "b.png\ty"],
        ["id,File Name,categories", '7,a.png,"x, y"', "8,b.png,y"],
        ["image_path,labels,class", "a.png,x;y,old", "b.png,y,old"],
        ["img,path,tag,labels", "7,a.png,old,x;y", "8,b.png,old,y"],
    ],
)
@pytest.mark.parametrize("kind", [".csv", ".tsv"])
def test_common_column_names_and_separators_are_recognised(pictures: Path, lines: list[str], kind: str) -> None:
    path = pictures / f"t{kind}"
    path.write_bytes(("\ufeff" + "\r\n".join(lines) + "\r\n").encode())
    dataset = load_table(path)
    assert names(dataset) == ["a.png", "b.png"]
    assert dataset.class_names == ("x", "y")
    assert dataset.labels.to_array().tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(("column", "kind"), [("label", ".csv"), ("Class", ".csv"), ("category", ".jsonl")])
def test_common_names_of_one_label_are_recognised(pictures: Path, column: str, kind: str) -> None:
    if kind == ".jsonl":
        table = write_jsonl(pictures / "t.jsonl", {"File": "a.png", column: "x"}, {"File": "b.png", column: "y"})
    else:
        table = write(pictures / "t.csv", f"File,{column}", "a.png,x", "b.png,y")
    dataset = load_table(table)
    assert isinstance(dataset.labels, SingleLabels)
    assert dataset.class_names == ("x", "y")


def test_labels_that_may_be_meant_otherwise_are_named_in_one_line(
    pictures: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = write(pictures / "one.csv", "path,label", 'a.png,"x,y"', "b.png,y", 'c.png,"z,y"')
    assert load_table(one).class_names == ("x,y", "y", "z,y")
    many = write(pictures / "many.csv", "path,labels", 'a.png,"x,y"', "b.png,y")
    assert load_table(many).class_names == ("x", "y")
    clear = write(pictures / "clear.csv", "path,labels", 'a.png,"x, y;z"', "b.png,y")
    assert load_table(clear).class_names == ("x, y", "y", "z")
    assert caplog.messages == [
        f"{one}: 'x,y' is read as one label; name the column 'labels' if they are several.",
        f"{many}: 'x,y' is read as several labels; separate labels by ';' if this is one.",
    ]


@pytest.mark.parametrize("column", ["label", "labels"])
@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
def test_images_with_an_empty_label_are_unlabelled(pictures: Path, column: str, kind: str) -> None:
    if kind == ".jsonl":
        empty: list[object] = [None, [], [""]] if column == "labels" else [None, "", " "]
        values = [["x"], *empty, ["y"]] if column == "labels" else ["x", *empty, "y"]
        rows = ({"path": f"{name}.png", column: value} for name, value in zip("abcde", values, strict=True))
        table = write_jsonl(pictures / "t.jsonl", *rows)
    else:
        table = write(pictures / "t.csv", f"path,{column}", "a.png,x", "b.png,", 'c.png,""', "d.png, ", "e.png,y")
    dataset = load_table(table, strict=True)
    assert len(dataset) == 5
    assert dataset.unlabelled.tolist() == [1, 2, 3]
    assert dataset.class_counts() == {"x": 1, "y": 1}
    assert dataset.labels.labelled().tolist() == [True, False, False, False, True]
    assert not dataset.labels.similar(dataset.labels)[1:4].any()
    assert "3 unlabelled" in repr(dataset)


def test_a_table_without_any_label_has_no_classes(pictures: Path) -> None:
    for column in ("label", "labels"):
        dataset = load_table(write(pictures / "t.csv", f"path,{column}", "a.png,", "b.png,"))
        assert (dataset.class_names, dataset.unlabelled.tolist()) == ((), [0, 1])
        assert dataset.labels.counts() == {}


@pytest.mark.parametrize(
    ("lines", "line", "complaint"),
    [
        (["path,colour", "a.png,x"], 1, "expected the columns path and label"),
        (["photo,kind", "a.png,x"], 1, "found ['photo', 'kind']"),
        (["path:label", "a.png:x"], 1, "found ['path:label']"),
        (["path,class,tags", "a.png,x,y"], 1, "both class and tags"),
        (["path,Label,labels", "a.png,x,y"], 1, "both Label and labels"),
        ([""], 1, "expected the columns path and label"),
        (["path,label,labels", "a.png,x,y"], 1, "both label and labels"),
        (["path,label,label", "a.png,x,y"], 1, "a column occurs twice"),
        (["path,label", "a.png,x", ",x"], 3, "the path is empty"),
        (["path,label", "a.png"], 2, "1 fields, but the header has 2"),
        (["path,label", "", "x, y.png,z"], 3, "3 fields, but the header has 2"),
        (["path,label,part", "a.png,x,test"], 2, "unknown part 'test'; expected query, train, database"),
        (["path,label,part", "a.png,x,"], 2, "unknown part ''"),
        (["path,label", '"a.png', "b.png,x"], 2, "malformed"),
        (["path,label", '"a\n.png",x'], 2, "the path 'a\\n.png' holds characters that are no text"),
        (["path,label,note", 'a.png,x,"two\nlines"', ",,"], 4, "the path is empty"),
        (["path,label", "a.png,x", "b.png,x\0"], 3, "a NUL byte"),
        (["path,label", "a.png," + "x" * 200_000], 2, "malformed"),
    ],
)
def test_a_mistake_in_a_csv_table_is_named_with_its_line(
    pictures: Path, lines: list[str], line: int, complaint: str
) -> None:
    table = write(pictures / "t.csv", *lines)
    message = the_error(lambda: load_table(table))
    assert message.startswith(f"{table}, line {line}: ")
    assert complaint in message


GOOD = '{"path": "a.png", "label": "x"}'


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ('{"path": "b.png", "label": "x"', "malformed JSON"),
        ('{"path": "b.png", "label": NaN}', "malformed JSON"),
        ("[" * 100_000, "malformed JSON"),
        ('{"path": "b.png", "label": ' + "9" * 5_000 + "}", "malformed JSON"),
        ('["b.png", "x"]', "not an object"),
        ("7", "not an object"),
        ('{"label": "x"}', "expected the columns path and label"),
        ('{"path": "b.png"}', "expected the columns path and label"),
        ('{"path": "b.png", "labels": ["x"]}', "has labels, path, but the lines before have label, path"),
        ('{"path": "b.png", "label": "x", "part": "train"}', "has label, part, path, but"),
        ('{"path": "", "label": "x"}', "the path is empty"),
        ('{"path": 3, "label": "x"}', "the path must be a string, got 3"),
        ('{"path": "b\\u0000.png", "label": "x"}', "holds characters that are no text"),
        ('{"path": "b.png", "label": "\\ud800"}', "holds characters that are no text"),
        ('{"path": "b.png", "label": true}', "a label must be a string, got True"),
        ('{"path": "b.png", "label": ["x"]}', "a label must be a string, got ['x']"),
    ],
)
def test_a_mistake_in_a_jsonl_table_is_named_with_its_line(pictures: Path, bad: str, complaint: str) -> None:
    table = write(pictures / "t.jsonl", GOOD, "", bad)
    message = the_error(lambda: load_table(table))
    assert message.startswith(f"{table}, line 3: ")
    assert complaint in message


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"path": "a.png", "labels": "x;y"}, "labels must be a list of strings, got 'x;y'"),
        ({"path": "a.png", "labels": [["x"]]}, "a label must be a string"),
        ({"path": "a.png", "label": "x", "part": "test"}, "unknown part 'test'"),
        ({"path": "a.png", "label": "x", "part": None}, "the part must be a string"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_line(
    pictures: Path, record: dict[str, Any], complaint: str
) -> None:
    table = write_jsonl(pictures / "t.jsonl", record)
    assert f"line 1: {complaint}" in the_error(lambda: load_table(table))


@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
def test_text_that_is_not_utf8_is_named_with_its_line(pictures: Path, kind: str) -> None:
    table = pictures / f"t{kind}"
    good = b"path,label" if kind == ".csv" else GOOD.encode()
    table.write_bytes(good + b"\nb.png,caf\xe9\n")
    assert "line 2: not UTF-8" in the_error(lambda: load_table(table))


def test_a_nul_byte_in_jsonl_is_named_with_its_line(pictures: Path) -> None:
    table = write(pictures / "t.jsonl", GOOD, "\0")
    assert "line 2: a NUL byte" in the_error(lambda: load_table(table))


@pytest.mark.parametrize(("name", "content"), [("t.csv", "path,label\n"), ("t.jsonl", ""), ("t.jsonl", "\n\n")])
def test_a_table_without_rows_is_an_error(tmp_path: Path, name: str, content: str) -> None:
    table = tmp_path / name
    table.write_text(content)
    assert "has no rows" in the_error(lambda: load_table(table))


def test_a_table_that_is_no_file_of_a_known_kind_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert "does not exist" in the_error(lambda: load_table(tmp_path / "none.csv"))
    assert "not a file" in the_error(lambda: load_table(tmp_path / "folder.csv"))
    assert ".csv, .tsv, .jsonl" in the_error(lambda: load_table(tmp_path / "t.xlsx"))


def test_a_huge_table_is_refused_unread(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    with table.open("wb") as file:
        file.truncate(MAX_TABLE_BYTES + 1)
    assert "the limit is 1,000,000,000" in the_error(lambda: load_table(table))


def test_two_loadings_of_a_table_give_the_same_order_and_labels(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,labels", "c.png,y;x", "gone.png,z", "a.png,x;y", "b.png,w")
    first, second = load_table(table), load_table(table)
    assert names(first) == names(second)
    assert first.class_names == second.class_names
    assert first.labels.to_array().tolist() == second.labels.to_array().tolist()
    assert first.skipped == second.skipped


@given(st.sampled_from([".csv", ".tsv", ".jsonl"]), st.binary(max_size=80), st.booleans())
@settings(deadline=None, max_examples=300, derandomize=True)
def test_any_bytes_are_a_table_or_a_one_line_error(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: bytes, with_header: bool
) -> None:
    table = tmp_path_factory.getbasetemp() / f"any{kind}"
    header = {".csv": b"path,label\n", ".tsv": b"path\tlabels\n", ".jsonl": GOOD.encode() + b"\n"}[kind]
    table.write_bytes(header * with_header + data)
    assert "any" in the_error(lambda: load_table(table, verify=False))


@given(
    st.dictionaries(st.sampled_from("abcde"), st.sets(st.sampled_from(["p", "q", "r", "ß"]), min_size=1), min_size=1)
)
@settings(deadline=None, max_examples=50, derandomize=True)
def test_the_labels_that_were_written_are_the_labels_that_are_read(
    tmp_path_factory: pytest.TempPathFactory, written: dict[str, set[str]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "written"
    for name in written:
        make_image(folder / f"{name}.png")
    rows = [f"{name}.png,{';'.join(sorted(labels))}" for name, labels in written.items()]
    dataset = load_table(write(folder / "t.csv", "path,labels", *rows), verify=False)
    matrix = dataset.labels.to_array()
    read = [{dataset.class_names[column] for column in np.flatnonzero(row)} for row in matrix]
    assert read == list(written.values())


def test_paths_given_as_str_are_read_alike(pictures: Path) -> None:
    table = write(pictures / "t.csv", "path,label", "a.png,x", "b.png,y")
    assert names(load_table(str(table))) == ["a.png", "b.png"]
