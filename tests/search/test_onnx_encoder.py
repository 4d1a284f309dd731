"""Encoding with onnxruntime in place of PyTorch."""

import logging

import numpy as np
import pytest

from ddsh import ImageSearch, Model
from ddsh.search import engine
from ddsh.search.onnx_encoder import OnnxEncoder

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

N_IMAGES = 40


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(0).integers(0, 256, (N_IMAGES + 5, 28, 28, 1), np.uint8)


@pytest.fixture(scope="module")
def model(pixels):
    return Model(None, "small-grey", look_bits=16).fit(pixels[:N_IMAGES])


@pytest.fixture
def index(model, pixels, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_WORTH_EXPORTING", N_IMAGES)
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(list(pixels[:N_IMAGES]))
    return tmp_path / "index"


def test_many_images_are_encoded_by_onnxruntime_with_the_same_codes(index, model, pixels):
    encoder = OnnxEncoder.open(index / "model")
    assert encoder is not None
    prepared = [encoder.prepare(image) for image in pixels]
    codes, familiarity = encoder.encode_with_familiarity(prepared)
    expected, expected_familiarity = model.encode_with_familiarity(pixels)
    assert codes == expected
    assert np.allclose(familiarity, expected_familiarity, rtol=1e-3)
    with ImageSearch.open(index) as search:
        assert search.query(pixels[-1], k=1).code == "".join(map(str, expected.main.bits()[-1]))
        assert search._loaded.model is None, "the network was not loaded"


def test_few_images_are_not_worth_an_encoder(model, pixels, tmp_path):
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(list(pixels[:3]))
    assert not (tmp_path / "index" / "model" / "encoder.onnx").exists()


def test_a_damaged_encoder_is_not_used(index, pixels, caplog):
    path = index / "model" / "encoder.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with ImageSearch.open(index) as search:
        before = search.query(pixels[-1])
    path.write_bytes(content)
    with ImageSearch.open(index) as search, caplog.at_level(logging.WARNING):
        assert search.query(pixels[-1]) == before
    assert "encoder.onnx is damaged" in caplog.text


def test_an_encoder_with_other_bits_is_not_used(model, pixels, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(engine, "_WORTH_EXPORTING", N_IMAGES)
    right = OnnxEncoder.encode_pair
    monkeypatch.setattr(OnnxEncoder, "encode_pair", lambda self, images: right(self, images[::-1]))
    with ImageSearch.create(tmp_path / "index", model) as search, caplog.at_level(logging.WARNING):
        search.add(list(pixels[:N_IMAGES]))
        assert len(search) == N_IMAGES
    assert "computes other bits" in caplog.text
    assert not (tmp_path / "index" / "model" / "encoder.onnx").exists()
