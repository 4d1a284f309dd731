import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from scipy.io import savemat

from ddsh.backbones import cnnf
from ddsh.errors import DataError, InvalidInput

WIDTHS = (4, 5, 3, 4, 3, 6, 5)
SHAPES = {
    "conv1": (11, 11, 3, 4),
    "conv2": (5, 5, 4, 5),
    "conv3": (3, 3, 5, 3),
    "conv4": (3, 3, 3, 4),
    "conv5": (3, 3, 4, 3),
    "fc6": (6, 6, 3, 6),
    "fc7": (1, 1, 6, 5),
    "fc8": (1, 1, 5, 7),
}
AFTER = {
    "conv1": ("relu", "normalize", "pool"),
    "conv2": ("relu", "normalize", "pool"),
    "conv5": ("relu", "pool"),
    "fc8": ("softmax",),
}


@pytest.fixture
def filters(rng):
    return {name: _he(rng, shape) for name, shape in SHAPES.items()}


@pytest.fixture
def biases(rng):
    return {name: rng.standard_normal(shape[3]).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.fixture
def mean(rng):
    return rng.uniform(90, 140, (224, 224, 3)).astype(np.float32)


@pytest.fixture
def pixels(rng):
    return rng.integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)


def _he(rng, shape):
    return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:3]))).astype(np.float32)


def _cell(items):
    cell = np.empty((1, len(items)), object)
    cell[0, :] = items
    return cell


def _layers(filters, biases, layout):
    layers = []
    for name in filters:
        bias = biases[name].reshape(1, -1)
        weights = {"weights": _pair(filters[name], bias)}
        if layout == "old":
            weights = {"filters": filters[name], "biases": bias}
        layers.append({"type": "conv", "name": name, **weights, "stride": 4.0, "pad": 0.0})
        layers += [{"type": kind, "name": f"{kind}{name[-1]}"} for kind in AFTER.get(name, ("relu",))]
    return _cell(layers)


def _pair(first, second):
    cell = np.empty((1, 2), object)
    cell[0, 0], cell[0, 1] = first, second
    return cell


def _write(path, filters, biases, mean, layout="meta"):
    """Write a file as MatConvNet does: fc8 and classes included."""
    layers = _layers(filters, biases, layout)
    normalisation = {"imageSize": np.array([224.0, 224.0, 3.0]), "averageImage": mean}
    beside = {"normalization": normalisation, "classes": {"name": _cell(["n01440764"])}}
    net = {"layers": layers, **(beside if layout == "old" else {"meta": beside})}
    savemat(path, {"net": net} if layout == "net" else net, do_compression=True)
    return path


def _numpy_features(pixels, filters, biases, mean):
    """CNN-F as the paper's tables have it, with arrays kept as MATLAB keeps them: height, width, channels."""
    out = []
    for image in pixels.astype(np.float64):
        x = image - mean
        for name in ("conv1", "conv2", "conv3", "conv4", "conv5"):
            pad = {"conv1": 0, "conv2": 2}.get(name, 1)
            x = _convolve(x, filters[name], 4 if name == "conv1" else 1, pad) + biases[name]
            x = np.maximum(x, 0)
            x = _normalise(x) if name in ("conv1", "conv2") else x
            x = _pool(x) if name in ("conv1", "conv2", "conv5") else x
        assert x.shape[:2] == (6, 6)
        for name in ("fc6", "fc7"):
            x = np.maximum(_convolve(x, filters[name], 1, 0) + biases[name], 0)
        out.append(x.ravel())
    return np.array(out)


def _convolve(x, kernel, stride, pad):
    padded = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(padded, kernel.shape[:2], axis=(0, 1))[::stride, ::stride]
    return np.tensordot(windows, kernel, axes=((2, 3, 4), (2, 0, 1)))


def _normalise(x):
    scale = np.stack([(x[..., max(0, k - 2) : k + 3] ** 2).sum(axis=-1) for k in range(x.shape[2])], axis=-1)
    return x / (2 + 1e-4 * scale) ** 0.75


def _pool(x):
    """Windows of 3 x 3, two apart, with one row below and one column to the right: pad [0 1 0 1]."""
    padded = np.pad(x, ((0, 1), (0, 1), (0, 0)), constant_values=-np.inf)
    return sliding_window_view(padded, (3, 3), axis=(0, 1))[::2, ::2].max(axis=(3, 4))


@pytest.mark.parametrize("layout", ["old", "meta", "net"])
def test_features_are_those_computed_in_numpy(tmp_path, filters, biases, mean, pixels, layout):
    path = _write(tmp_path / "f.mat", filters, biases, mean, layout)
    network = cnnf.build(weights=path, widths=WIDTHS)
    features = network(torch.from_numpy(pixels)).detach().numpy()
    expected = _numpy_features(pixels, filters, biases, mean)
    assert (expected > 0).sum() >= 3
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-4)


def test_a_mean_colour_serves_as_the_mean_image(tmp_path, filters, biases, pixels):
    colour = np.array([123.0, 117.0, 104.0], np.float32)
    path = _write(tmp_path / "f.mat", filters, biases, colour.reshape(1, 1, 3))
    features = cnnf.build(weights=path, widths=WIDTHS)(torch.from_numpy(pixels)).detach().numpy()
    np.testing.assert_allclose(features, _numpy_features(pixels, filters, biases, colour), rtol=1e-4, atol=1e-4)


def test_layers_are_found_by_name_whatever_their_order(tmp_path, filters, biases, mean, pixels):
    backwards = dict(reversed(filters.items()))
    path = _write(tmp_path / "f.mat", backwards, biases, mean)
    features = cnnf.build(weights=path, widths=WIDTHS)(torch.from_numpy(pixels)).detach().numpy()
    np.testing.assert_allclose(features, _numpy_features(pixels, filters, biases, mean), rtol=1e-4, atol=1e-4)


def test_another_image_size_resizes_the_mean_image(tmp_path, filters, biases):
    smooth = np.broadcast_to(np.linspace(80, 160, 224, dtype=np.float32)[:, None, None], (224, 224, 3))
    network = cnnf.build(image_size=112, weights=_write(tmp_path / "f.mat", filters, biases, smooth), widths=WIDTHS)
    assert network.mean.shape == (3, 112, 112)
    np.testing.assert_allclose(network.mean[0, :, 0], np.linspace(80, 160, 112), atol=1.0)
    assert network(torch.zeros(2, 112, 112, 3, dtype=torch.uint8)).shape == (2, WIDTHS[-1])


@pytest.mark.parametrize("size", [199, 230])
def test_sizes_near_224_need_no_averaging_before_full6(size):
    network = cnnf.build(image_size=size, pretrained=False, widths=WIDTHS)
    before = network.layers[: list(dict(network.layers.named_children())).index("fit")]
    assert before(torch.zeros(1, 3, size, size)).shape[2:] == (6, 6)


def test_the_smallest_image_works_and_a_smaller_one_is_refused():
    network = cnnf.build(image_size=39, pretrained=False, widths=WIDTHS)
    assert network(torch.zeros(1, 39, 39, 3, dtype=torch.uint8)).shape == (1, WIDTHS[-1])
    with pytest.raises(InvalidInput, match="at least 39 pixels a side; got image_size=38"):
        cnnf.build(image_size=38, pretrained=False, widths=WIDTHS)


def test_the_default_widths_are_the_papers():
    with torch.device("meta"):
        network = cnnf.CNNF()
    children = network.layers.named_children()
    weights = {name: tuple(layer.weight.shape) for name, layer in children if hasattr(layer, "weight")}
    assert weights == {
        "conv1": (64, 3, 11, 11),
        "conv2": (256, 64, 5, 5),
        "conv3": (256, 256, 3, 3),
        "conv4": (256, 256, 3, 3),
        "conv5": (256, 256, 3, 3),
        "full6": (4096, 9216),
        "full7": (4096, 4096),
    }
    assert network.n_features == 4096


def test_missing_weights_say_where_they_are_and_how_to_name_them(tmp_path):
    with pytest.raises(
        DataError, match=r"get https://www\.vlfeat\.org/\S+/imagenet-vgg-f\.mat .* weights= \(--weights"
    ):
        cnnf.build()
    with pytest.raises(DataError, match=r"nothing\.mat do not exist; get https://www\.vlfeat\.org"):
        cnnf.build(weights=tmp_path / "nothing.mat")


def test_a_file_that_is_no_matlab_file_is_named(tmp_path):
    path = tmp_path / "f.mat"
    path.write_bytes(b"<html>not found</html>" * 20)
    with pytest.raises(DataError, match=r"f\.mat is not a readable MATLAB file"):
        cnnf.build(weights=path, widths=WIDTHS)


def test_a_matlab_file_without_a_network_is_refused(tmp_path):
    path = tmp_path / "f.mat"
    savemat(path, {"data": np.zeros(3)})
    with pytest.raises(DataError, match=r"f\.mat is not a MatConvNet network \(KeyError: 'layers'\)"):
        cnnf.build(weights=path, widths=WIDTHS)


def test_another_network_is_refused_by_its_shapes(tmp_path, filters, biases, mean):
    path = _write(tmp_path / "m.mat", filters | {"conv1": np.zeros((7, 7, 3, 4), np.float32)}, biases, mean)
    with pytest.raises(DataError, match=r"conv1 has filters \(7, 7, 3, 4\) and 4 biases, expected \(11, 11, 3, 4\)"):
        cnnf.build(weights=path, widths=WIDTHS)


def test_a_missing_layer_is_named(tmp_path, filters, biases, mean):
    del filters["fc7"]
    with pytest.raises(DataError, match=r"has no layer full7, only conv1, .*fc6, fc8"):
        cnnf.build(weights=_write(tmp_path / "f.mat", filters, biases, mean), widths=WIDTHS)


def test_a_mean_image_of_the_wrong_shape_is_refused(tmp_path, filters, biases):
    path = _write(tmp_path / "f.mat", filters, biases, np.zeros((224, 224), np.float32))
    with pytest.raises(DataError, match=r"mean image has shape \(224, 224\), expected \(height, width, 3\)"):
        cnnf.build(weights=path, widths=WIDTHS)


def test_gradients_reach_the_first_layer():
    network = cnnf.build(image_size=64, pretrained=False, widths=WIDTHS)
    network(torch.full((2, 64, 64, 3), 200, dtype=torch.uint8)).sum().backward()
    assert network.layers.conv1.weight.grad.abs().sum() > 0
