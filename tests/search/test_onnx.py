"""A model in another program: onnxruntime gives the same codes."""

import numpy as np
import pytest

from ddsh import load
from ddsh.errors import InvalidInput
from ddsh.methods import load_model
from ddsh.search import export_onnx
from ddsh.search.encoder import Encoder

ort = pytest.importorskip("onnxruntime")


def test_onnxruntime_gives_the_same_codes(tmp_path, deep_model):
    export_onnx(deep_model, tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    images = load("sample").images.take(np.arange(0, 11_000, 97))
    outputs, bits = session.run(["outputs", "bits"], {"pixels": images})
    hasher = load_model(deep_model).hasher
    assert np.array_equal(bits, hasher.encode(images).bits())
    assert np.allclose(outputs, hasher.project(images), atol=1e-4)
    assert session.run(["bits"], {"pixels": images[:1]})[0].tolist() == bits[:1].tolist()
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["ddsh.n_bits"], facts["ddsh.image_size"]) == ("24", "28")
    assert facts["ddsh.fingerprint"] == Encoder.load(deep_model).fingerprint


def test_a_method_without_a_network_is_refused_in_one_line(tmp_path, model):
    with pytest.raises(InvalidInput, match="lsh trained no network"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_response_normalisation_is_exported_with_the_same_values():
    torch = pytest.importorskip("torch")
    from ddsh.backbones.lrn import LocalResponseNorm
    from ddsh.search.onnx import _plain_response_norm

    responses = torch.from_numpy(np.random.default_rng(0).uniform(0, 200, (2, 9, 4, 4)).astype(np.float32))
    assert torch.allclose(_plain_response_norm()(responses), LocalResponseNorm()(responses), rtol=1e-5)
