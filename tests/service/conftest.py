"""What the tests of the service share: an index of small photos, and servers that answer on a free port."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))  # for small_photos

import shutil

import numpy as np
import pytest
from running_service import png, running
from small_photos import COLOURS, draw, write_photos

from ddsh import ImageSearch
from ddsh.methods import save_model
from ddsh.methods.lsh import LSH
from ddsh.service import Settings


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("secret-folder") / "photos", np.random.default_rng(0))


@pytest.fixture(scope="session")
def made(tmp_path_factory, photos):
    """An index of all photos, which no test changes."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("secret-place")
    pixels = np.stack([draw(rng, colour) for colour in COLOURS.values() for _ in range(20)])
    save_model(LSH(n_bits=16, seed=0).fit(pixels.reshape(len(pixels), -1) / np.float32(255)), folder / "model")
    with ImageSearch.create(folder / "index", folder / "model") as search:
        for colour in COLOURS:
            paths = sorted((photos / colour).iterdir())
            search.add(paths, labels=[colour] * len(paths))
    return folder / "index"


@pytest.fixture
def index(made, tmp_path):
    """An index that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "index"))


@pytest.fixture(scope="session")
def site(made):
    """A service as it is started without options."""
    with running(made, Settings()) as service:
        yield service


@pytest.fixture
def photo():
    """The content of an image file that is not in the index."""
    return png(draw(np.random.default_rng(9), COLOURS["red"]))
