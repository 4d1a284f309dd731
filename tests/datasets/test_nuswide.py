"""NUS-WIDE: a small distribution in the official layout, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from scipy import sparse

from ddsh.datasets import nuswide
from ddsh.errors import BrokenImage, DataError, InvalidInput
from ddsh.images import FileImages

NAMES = ["actor\\0001_11.jpg", "actor\\0002_22.jpg", "zebra\\0003_33.jpg", "zebra\\0004_44.jpg"]
CONCEPTS = {"sky": "1101", "dog": "0101", "cat": "0011", "rare": "0010"}
TAGS = ["1 0 1", "0 0 0", "0 1 0", "1 1 1"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four images: sky has three, cat and dog two each, rare one."""
    write(tmp_path / "ImageList/Imagelist.txt", "\r\n".join(NAMES) + "\r\n")
    for concept, column in CONCEPTS.items():
        write(label_file(tmp_path, concept), "".join(f"{value}\n" for value in column))
    write(tmp_path / "NUS_WID_Tags/TagList1k.txt", "sea\nsun\nfun\n")
    write(tmp_path / "NUS_WID_Tags/AllTags1k.txt", "".join(f"{row}\t\n" for row in TAGS))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def label_file(root: Path, concept: str) -> Path:
    return root / f"Groundtruth/AllLabels/Labels_{concept}.txt"


def save_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("RGB", (5, 4), "blue").save(path)


def paths_of(images: object) -> list[Path]:
    assert isinstance(images, FileImages)
    return list(images.paths)


def message(root: Path, *, tags: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        nuswide.load_tags(root) if tags else nuswide.load(root, n_concepts=2)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_most_frequent_concepts_come_first_and_ties_go_by_name(root: Path) -> None:
    dataset = nuswide.load(root, n_concepts=3)
    assert dataset.class_names == ("sky", "cat", "dog")
    assert dataset.class_counts() == {"sky": 3, "cat": 2, "dog": 2}
    assert dataset.labels.to_array().tolist() == [[1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1]]
    assert (dataset.name, dataset.protocol) == ("nuswide3", "nuswide")


def test_ties_go_by_the_name_of_the_concept_not_of_its_file(root: Path) -> None:
    write(label_file(root, "cat-like"), "0\n0\n1\n1\n")
    assert nuswide.load(root, n_concepts=4).class_names == ("sky", "cat", "cat-like", "dog")


def test_images_without_a_chosen_concept_are_left_out(root: Path) -> None:
    dataset = nuswide.load(root, n_concepts=1)
    assert [path.name for path in paths_of(dataset.images)] == ["0001_11.jpg", "0002_22.jpg", "0004_44.jpg"]
    assert dataset.labels.to_array().tolist() == [[1], [1], [1]]


def test_all_concepts_can_be_taken(root: Path) -> None:
    assert nuswide.load(root, n_concepts=4).class_names == ("sky", "cat", "dog", "rare")


@pytest.mark.parametrize("n_concepts", [0, 5])
def test_a_number_of_concepts_that_is_not_there_is_refused(root: Path, n_concepts: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 4"):
        nuswide.load(root, n_concepts=n_concepts)


@pytest.mark.parametrize("folder", ["Flickr", "images", "Images", ""])
@pytest.mark.parametrize("first", ["actor/0001_11.jpg", "0001_11.jpg"])
def test_images_are_found_in_the_usual_folders_nested_or_flat(root: Path, folder: str, first: str) -> None:
    save_image(root / folder / first)
    dataset = nuswide.load(root, n_concepts=2)
    assert dataset.images[0].shape == (4, 5, 3)
    last = "zebra/0004_44.jpg" if "/" in first else "0004_44.jpg"
    assert paths_of(dataset.images)[-1] == root / folder / last


def test_without_images_the_labels_load_and_an_access_names_the_missing_file(root: Path) -> None:
    dataset = nuswide.load(root, n_concepts=2)
    with pytest.raises(BrokenImage, match=re.escape(str(root / "Flickr/actor/0001_11.jpg"))):
        dataset.images[0]


def test_windows_line_ends_in_a_label_file_are_understood(root: Path) -> None:
    write(label_file(root, "sky"), "1\r\n1\r\n0\r\n1")
    assert nuswide.load(root, n_concepts=1).class_counts() == {"sky": 3}


@pytest.mark.parametrize("missing", ["ImageList/Imagelist.txt", "Groundtruth/AllLabels"])
def test_a_missing_part_is_named_with_what_is_expected(root: Path, missing: str) -> None:
    (root / missing).rename(root / "elsewhere")
    text = message(root)
    assert text.startswith(f"{root / missing} is missing; expected")
    assert "Labels_<concept>.txt" in text


def test_a_label_folder_without_label_files_is_refused(root: Path) -> None:
    for concept in CONCEPTS:
        label_file(root, concept).unlink()
    assert "no Labels_<concept>.txt files" in message(root)


@pytest.mark.parametrize("column", ["1\n1\n0\n", "1\n1\n0\n1\n1\n"])
def test_a_label_file_of_another_length_than_the_image_list_is_refused(root: Path, column: str) -> None:
    write(label_file(root, "dog"), column)
    text = message(root)
    assert f"Labels_dog.txt has {column.count('1') + column.count('0')} lines" in text
    assert "Imagelist.txt has 4" in text


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        ("1\n2\n0\n1\n", "'2'"),
        ("1\n-1\n0\n1\n", "'-1'"),
        ("1\n\n0\n1\n", "blank"),
        ("1\n0 1\n0\n1\n", "found more"),
    ],
)
def test_a_label_that_is_not_0_or_1_is_refused_with_file_and_line(root: Path, column: str, fault: str) -> None:
    write(label_file(root, "dog"), column)
    text = message(root)
    assert "Labels_dog.txt, line 2: " in text
    assert fault in text


def test_a_blank_line_in_the_image_list_is_refused(root: Path) -> None:
    write(root / "ImageList/Imagelist.txt", "a\\1.jpg\n\nb\\2.jpg\nb\\3.jpg\n")
    assert "Imagelist.txt, line 2: is blank" in message(root)


def test_tags_are_those_of_the_rows_that_load_returns(root: Path) -> None:
    tags = nuswide.load_tags(root, n_concepts=1)
    assert tags.names == ("sea", "sun", "fun")
    assert isinstance(tags.matrix, sparse.csr_array)
    assert tags.matrix.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 1]]


def test_tags_of_more_images_than_one_block_are_joined_in_order(tmp_path: Path) -> None:
    n_images = 2 * 4096 + 5
    rng = np.random.default_rng(0)
    sky, table = rng.integers(0, 2, n_images), rng.integers(0, 2, (n_images, 2))
    write(tmp_path / "ImageList/Imagelist.txt", "".join(f"a\\{row}.jpg\n" for row in range(n_images)))
    write(label_file(tmp_path, "sky"), "".join(f"{value}\n" for value in sky))
    write(tmp_path / "NUS_WID_Tags/TagList1k.txt", "sea\nsun\n")
    write(tmp_path / "NUS_WID_Tags/AllTags1k.txt", "".join(f"{a} {b}\n" for a, b in table))
    tags = nuswide.load_tags(tmp_path, n_concepts=1)
    assert np.array_equal(tags.matrix.toarray(), table[sky == 1])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (TAGS[:3], "ends after 3 lines but"),
        ([*TAGS, "0 0 0"], "has more lines than the 4 of"),
        ([*TAGS[:2], "0 1", TAGS[3]], "line 3: expected 3 values of 0 or 1, found 2"),
        ([*TAGS[:3], "0 x 1"], "line 4: expected 0 or 1, found 'x'"),
        ([TAGS[0], "0 " * 500, *TAGS[2:]], "line 2: expected 3 values of 0 or 1, found more"),
    ],
)
def test_tags_that_do_not_fit_are_refused(root: Path, rows: list[str], fault: str) -> None:
    write(root / "NUS_WID_Tags/AllTags1k.txt", "\n".join(rows))
    with pytest.raises(DataError, match=fault):
        nuswide.load_tags(root, n_concepts=2)


@pytest.mark.parametrize("missing", ["NUS_WID_Tags/AllTags1k.txt", "NUS_WID_Tags/TagList1k.txt"])
def test_missing_tag_files_are_named(root: Path, missing: str) -> None:
    (root / missing).unlink()
    assert message(root, tags=True).startswith(f"{root / missing} is missing")
