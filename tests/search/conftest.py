"""Fixtures of the search tests: a few photos, and models that are trained once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for small_photos and kill_while_writing

import numpy as np
import pytest
from small_photos import COLOURS, draw, write_photos

from ddsh import ImageSearch, load
from ddsh.methods.lsh import LSH
from ddsh.model import Model


@pytest.fixture
def photos(tmp_path, rng):
    return write_photos(tmp_path / "photos", rng)


def _model(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(1)
    pixels = np.stack([draw(rng, colour) for colour in COLOURS.values() for _ in range(20)])
    Model(LSH(n_bits=16, seed=seed)).fit(pixels).save(folder)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return _model(tmp_path_factory.mktemp("models") / "lsh", seed=0)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    return _model(tmp_path_factory.mktemp("models") / "other", seed=1)


@pytest.fixture(scope="session")
def pair_model(tmp_path_factory):
    """A model with 16 label bits and 128 look bits."""
    folder, rng = tmp_path_factory.mktemp("models") / "pair", np.random.default_rng(1)
    pixels = np.stack([draw(rng, colour) for colour in COLOURS.values() for _ in range(20)])
    Model(LSH(16), "small").fit(pixels).save(folder)
    return folder


@pytest.fixture(scope="session")
def deep_model(tmp_path_factory):
    """DDSH with a small network, one epoch on a few images of the sample."""
    from ddsh.backbones import Backbone
    from ddsh.methods.ddsh import DDSH
    from ddsh.methods.training import Training

    dataset, folder = load("sample"), tmp_path_factory.mktemp("models") / "deep"
    rows = np.arange(0, len(dataset), len(dataset) // 128)[:128]
    method = DDSH(24, preset="scratch", training=Training(epochs=1, learning_rate=0.5))
    trained = Model(method, Backbone("small-grey", device="cpu"))
    trained.fit(dataset.images.take(rows), dataset.labels.take(rows)).save(folder)
    return folder


@pytest.fixture
def search(tmp_path, model, photos):
    with ImageSearch.create(tmp_path / "index", model) as made:
        made.add(photos)
        yield made
