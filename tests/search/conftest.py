"""What the tests of search share: a few photos, and models that are trained once."""

from pathlib import Path

import numpy as np
import pytest
from small_photos import COLOURS, draw, write_photos

from ddsh import ImageSearch, load
from ddsh.methods import get_method, save_model
from ddsh.methods.lsh import LSH


@pytest.fixture
def photos(tmp_path, rng):
    return write_photos(tmp_path / "photos", rng)


def _model(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(1)
    pixels = np.stack([draw(rng, colour) for colour in COLOURS.values() for _ in range(20)])
    save_model(LSH(n_bits=16, seed=seed).fit(pixels.reshape(len(pixels), -1) / np.float32(255)), folder)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return _model(tmp_path_factory.mktemp("models") / "lsh", seed=0)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    return _model(tmp_path_factory.mktemp("models") / "other", seed=1)


@pytest.fixture(scope="session")
def deep_model(tmp_path_factory):
    """DDSH with a small network, one pass over a few images of the sample."""
    dataset, folder = load("sample"), tmp_path_factory.mktemp("models") / "deep"
    rows = np.arange(0, len(dataset), len(dataset) // 128)[:128]
    setting = {"n_bits": 24, "preset": "scratch", "network": "small-grey", "training": {"epochs": 1}, "device": "cpu"}
    hasher = get_method("ddsh").from_description(setting)
    save_model(hasher.fit(dataset.images.take(rows), dataset.labels.take(rows)), folder)
    return folder


@pytest.fixture
def search(tmp_path, model, photos):
    with ImageSearch.create(tmp_path / "index", model) as made:
        made.add(photos)
        yield made
