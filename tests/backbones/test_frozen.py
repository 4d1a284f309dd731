"""Outputs of frozen stages equal those of the whole network, cached or not."""

import numpy as np
import pytest
import torch
from torch import nn

from ddsh.backbones import Backbone
from ddsh.backbones.custom import CustomNetwork
from ddsh.backbones.frozen import FrozenLayers, from_channels_last, to_channels_last
from ddsh.backbones.registry import BACKBONES, build_network
from ddsh.errors import InvalidInput

NAMES = sorted(BACKBONES)


def small_build(name):
    size = {"cnn-f": 64, "alexnet": 64, "small": 32, "small-grey": 28}.get(name, 32)
    network = build_network(
        name, image_size=size, pretrained=False, **({"n_features": 64} if name == "alexnet" else {})
    )
    return network.eval()


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (3, 30, 34, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_beginning_and_finishing_anywhere_gives_the_same_features(name, images):
    network = small_build(name)
    pixels = torch.from_numpy(network.prepare(list(images)))
    with torch.inference_mode():
        whole = network(pixels)
        for n_stages in range(len(network.stages()) + 1):
            parts = network.finish(from_channels_last(to_channels_last(network.begin(pixels, n_stages))), n_stages)
            assert torch.equal(parts, whole)


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_belongs_to_one_stage(name):
    network = small_build(name)
    of_stages = [id(parameter) for stage in network.stages() for parameter in stage.parameters()]
    assert sorted(of_stages) == sorted(id(parameter) for parameter in network.parameters())


@pytest.mark.parametrize("name", ["cnn-f", "alexnet"])
def test_the_networks_of_the_field_have_the_seven_layers_that_ddsh0_freezes(name):
    assert len(small_build(name).stages()) == 7


def test_an_own_sequential_network_is_frozen_part_by_part():
    parts = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert len(CustomNetwork(parts, 16).stages()) == 3


@pytest.mark.parametrize("n_stages", [1, 3, 4])
def test_outputs_are_those_of_the_network(images, n_stages):
    network = small_build("small")
    outputs = FrozenLayers(network, n_stages).outputs(images)
    with torch.inference_mode():
        expected = to_channels_last(network.begin(torch.from_numpy(network.prepare(list(images))), n_stages))
    assert np.allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def test_cached_outputs_equal_computed_ones(images, tmp_path):
    first = FrozenLayers(small_build("small"), 2, tmp_path).outputs(images)
    again = FrozenLayers(small_build("small"), 2, tmp_path).outputs(images[::-1])
    assert np.array_equal(again[::-1], first)


def test_each_network_each_depth_and_each_size_has_its_own_cache(images, tmp_path):
    other = build_network("small", seed=1)
    larger = build_network("small", image_size=40)
    layers = [
        FrozenLayers(small_build("small"), 2, tmp_path),
        FrozenLayers(small_build("small"), 3, tmp_path),
        FrozenLayers(other, 2, tmp_path),
        FrozenLayers(larger, 2, tmp_path),
    ]
    for one in layers:
        one.outputs(images)
    assert len(list(tmp_path.iterdir())) == 4


def test_what_later_stages_learn_does_not_matter(images, tmp_path):
    network = small_build("small")
    FrozenLayers(network, 2, tmp_path).outputs(images)
    torch.nn.init.zeros_(network.full.weight)
    FrozenLayers(network, 2, tmp_path).outputs(images)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("n_stages", [-1, 5])
def test_freezing_more_than_there_is_is_refused(n_stages):
    with pytest.raises(InvalidInput, match="has 4 stages"):
        FrozenLayers(small_build("small"), n_stages)


def test_progress_is_told(images):
    told = []
    FrozenLayers(small_build("small"), 1).outputs(images, lambda done, total: told.append((done, total)))
    assert told == [(3, 3)]


def test_features_are_the_last_layer_before_the_classifier(images, tmp_path):
    network = build_network("efficientnet-lite0", image_size=32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(network.prepare(list(images)))).numpy()
    found = Backbone("efficientnet-lite0", image_size=32, cache_dir=tmp_path).features(images)
    assert found.shape == (3, 1280)
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-4)
    again = Backbone("efficientnet-lite0", 32, cache_dir=tmp_path)
    assert np.array_equal(again.features(images), found)
    assert again.image_size == 32
    assert again.weights_checksum == BACKBONES["efficientnet-lite0"].sha256


def test_another_version_of_the_preprocessing_does_not_reuse_the_cache(images, tmp_path, monkeypatch):
    FrozenLayers(small_build("small"), 2, tmp_path).outputs(images)
    monkeypatch.setattr("ddsh.backbones.frozen.PREPROCESSING_VERSION", 99)
    FrozenLayers(small_build("small"), 2, tmp_path).outputs(images)
    assert len(list(tmp_path.iterdir())) == 2


def test_outputs_come_some_images_at_a_time(tmp_path, rng):
    images = rng.integers(0, 256, (300, 28, 28, 1), dtype=np.uint8)
    layers = FrozenLayers(small_build("small-grey"), 1, tmp_path)
    chunks = list(layers.chunks(images))
    assert [len(chunk) for chunk in chunks] == [256, 44]
    assert np.array_equal(np.concatenate(chunks), layers.outputs(images))
