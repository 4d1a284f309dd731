"""Fixtures of the tests of encoding on a cluster: a few images, and a model."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from ddsh.methods.lsh import LSH
from ddsh.model import Model

pytest.importorskip("pyarrow", reason="needs ddsh[ray]")
pytest.importorskip("fsspec", reason="needs ddsh[ray]")


@pytest.fixture
def draw(rng):
    """A function that returns a new PNG file at every call."""

    def draw():
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), np.uint8)).save(file, "png")
        return file.getvalue()

    return draw


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "lsh"
    Model(LSH(16)).fit(np.random.default_rng(0).integers(0, 256, (30, 20, 20, 3), np.uint8)).save(folder)
    return folder


@pytest.fixture
def photos(tmp_path, draw):
    """A folder with nine images in three folders, and a file that is none."""
    for place in range(9):
        path = tmp_path / "photos" / "abc"[place % 3] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw())
    (tmp_path / "photos" / "a" / "broken.jpg").write_bytes(b"no image")
    (tmp_path / "photos" / "notes.txt").write_text("not even named like one")
    return tmp_path / "photos"


@pytest.fixture
def archive(tmp_path, draw):
    """A WebDataset archive with four images, labels and metadata."""
    path = tmp_path / "train-000.tar"
    with tarfile.open(path, "w") as file:
        for place in range(4):
            for name, data in (
                (f"{place:04}.png", draw()),
                (f"{place:04}.cls", b"cat" if place % 2 else b""),
                (f"{place:04}.json", b'{"place": %d}' % place if place else b"[no JSON"),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))
    return path
