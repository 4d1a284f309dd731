import numpy as np
import pytest
import torch
from torch import nn

from ddsh.backbones.custom import CustomNetwork
from ddsh.errors import InvalidInput


def _module():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def test_the_width_of_the_features_is_found():
    network = CustomNetwork(_module(), 16)
    assert network.n_features == 16
    assert network(torch.zeros(5, 16, 16, 3, dtype=torch.uint8)).shape == (5, 16)


def test_pixels_are_normalised_as_asked():
    network = CustomNetwork(nn.Flatten(), 8, mean=[10.0], std=[2.0])
    pixels = torch.arange(64, dtype=torch.uint8).reshape(1, 8, 8, 1)
    torch.testing.assert_close(network(pixels)[0], (torch.arange(64.0) - 10) / 2)


def test_the_default_normalisation_is_torchvisions():
    network = CustomNetwork(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), 8)
    white = network(torch.full((1, 8, 8, 3), 255, dtype=torch.uint8))
    torch.testing.assert_close(
        white[0], (1 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    )


def test_finding_the_width_leaves_the_statistics_alone_and_training_follows_the_choice():
    module = _module()
    assert CustomNetwork(module, 16).training
    assert not module[1].training
    assert module[1].num_batches_tracked == 0
    assert CustomNetwork(module, 16, frozen_batch_norm=False).module[1].training


@pytest.mark.parametrize(
    ("module", "got"),
    [
        (nn.Conv2d(3, 4, 3), r"shape \(1, 4, 14, 14\)"),
        (nn.Flatten(0), r"shape \(768,\)"),
        (nn.Sequential(nn.Flatten(), nn.LSTM(768, 4)), "tuple"),
    ],
)
def test_an_output_that_is_no_table_of_features_is_refused(module, got):
    with pytest.raises(InvalidInput, match=rf"to features \(n, d\); got {got}\.$"):
        CustomNetwork(module, 16)


def test_images_that_the_module_cannot_take_are_reported_in_one_line():
    with pytest.raises(InvalidInput, match=r"^The network cannot take images of shape \(1, 3, 16, 16\): .+$") as caught:
        CustomNetwork(nn.Sequential(nn.Flatten(), nn.Linear(10, 4)), 16)
    assert "\n" not in str(caught.value)


def test_a_mean_for_two_channels_is_refused():
    with pytest.raises(InvalidInput, match="1 or 3 channels"):
        CustomNetwork(_module(), 16, mean=[1.0, 2.0], std=[1.0, 2.0])


def test_images_of_any_size_can_be_prepared(rng):
    network = CustomNetwork(_module(), 16)
    images = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((20, 30, 3), (16, 16, 1))]
    assert network.prepare(images).shape == (2, 16, 16, 3)
