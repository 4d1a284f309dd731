"""ONNX export: onnxruntime computes the same codes."""

import numpy as np
import pytest

from ddsh import load
from ddsh.errors import InvalidInput
from ddsh.export import export_onnx
from ddsh.methods.lsh import LSH
from ddsh.model import Model

ort = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def deep_model():
    """DDSH with a small network, one epoch on a few images of the sample."""
    from ddsh.backbones import Backbone
    from ddsh.methods.ddsh import DDSH
    from ddsh.methods.training import Training

    dataset = load("sample")
    rows = np.arange(0, len(dataset), len(dataset) // 128)[:128]
    method = DDSH(24, preset="scratch", training=Training(epochs=1, learning_rate=0.5))
    return Model(method, Backbone("small-grey", device="cpu")).fit(dataset.images.take(rows), dataset.labels.take(rows))


def test_onnxruntime_gives_the_same_codes(tmp_path, deep_model):
    export_onnx(deep_model, tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    images = load("sample").images.take(np.arange(0, 11_000, 97))
    outputs, bits = session.run(["outputs", "bits"], {"pixels": images})
    assert np.array_equal(bits, deep_model.encode(images).bits())
    assert np.allclose(outputs, deep_model.project(images), atol=1e-4)
    assert session.run(["bits"], {"pixels": images[:1]})[0].tolist() == bits[:1].tolist()
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["ddsh.n_bits"], facts["ddsh.image_size"]) == ("24", "28")
    assert facts["ddsh.fingerprint"] == deep_model.fingerprint


def test_a_method_without_a_network_is_refused_in_one_line(tmp_path, rng):
    model = Model(LSH(16)).fit(rng.integers(0, 256, (20, 4, 4, 3), np.uint8))
    with pytest.raises(InvalidInput, match="lsh trained no network"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_response_normalisation_is_exported_with_the_same_values():
    torch = pytest.importorskip("torch")
    from ddsh.backbones.layers import LocalResponseNorm
    from ddsh.export import _exportable

    responses = torch.from_numpy(np.random.default_rng(0).uniform(0, 200, (2, 9, 4, 4)).astype(np.float32))
    exported, _ = _exportable(torch.nn.Sequential(LocalResponseNorm()))(responses)
    assert torch.allclose(exported, LocalResponseNorm()(responses), rtol=1e-5)
