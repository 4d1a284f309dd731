import pytest
import torch
from torch import nn

from ddsh.backbones import efficientnet_lite, small
from ddsh.backbones.custom import CustomNetwork
from ddsh.backbones.layers import fold_batch_norm
from ddsh.backbones.weights import fingerprint

GENERATOR_SEED = 5


def _with_statistics(network):
    """Give batch normalisation weights and statistics that are not its defaults."""
    generator = torch.Generator().manual_seed(GENERATOR_SEED)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                tensor.data.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    return network.eval()


@pytest.fixture(
    params=[
        lambda: efficientnet_lite.build(0, image_size=64, pretrained=False),
        small.build,
        small.build_grey,
        lambda: CustomNetwork(nn.Sequential(nn.Conv2d(3, 4, 3, groups=1), nn.BatchNorm2d(4), nn.Flatten()), 9),
    ],
    ids=["efficientnet-lite0", "small", "small-grey", "own"],
)
def network(request):
    return _with_statistics(request.param())


def _pixels(network):
    shape = (3, network.image_size, network.image_size, network.n_channels)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_features_stay_the_same(network):
    with torch.no_grad():
        before, after = network(_pixels(network)), fold_batch_norm(network)(_pixels(network))
    assert before.abs().max() > 0
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


def test_no_batch_normalisation_is_left_and_the_original_is_untouched(network):
    before, was_training = fingerprint(network), network.train().training
    folded = fold_batch_norm(network)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert not folded.training
    assert (fingerprint(network), network.training) == (before, was_training)
    assert any(isinstance(module, nn.BatchNorm2d) for module in network.modules())


def test_a_normalisation_without_statistics_stays():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten())
    network = CustomNetwork(module, 9)
    assert isinstance(fold_batch_norm(network).module[1], nn.BatchNorm2d)


def test_folded_convolutions_stay_in_the_fast_memory_format():
    folded = fold_batch_norm(small.build())
    assert folded.blocks[1][0].weight.is_contiguous(memory_format=torch.channels_last)


def _plain_forward(layers, images):
    """Apply convolution, normalisation and activation one after the other."""
    for layer in layers:
        images = layer(images)
    return images


def test_training_with_frozen_statistics_has_the_outputs_and_gradients_of_the_plain_layers(monkeypatch):
    network = _with_statistics(efficientnet_lite.build(0, image_size=64, pretrained=False)).double().train()
    # Six stages of random maps keep the test quick; the rest has strides, depthwise and linear layers.
    maps = torch.randn(2, 40, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    parameters = [p for stage in network.stages()[6:] for p in stage.parameters()]
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    results = []
    for is_plain in (False, True):
        if is_plain:
            monkeypatch.setattr(efficientnet_lite.ConvNorm, "forward", _plain_forward)
        features = network.finish(maps, 6)
        results.append([features, *torch.autograd.grad(features.square().sum(), [maps, *parameters])])
    assert results[0][0].abs().max() > 0
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9 * plain.abs().max().item())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_training_that_updates_the_statistics_keeps_ordinary_normalisation():
    layers = efficientnet_lite.ConvNorm(3, 4, 3).train()
    images = 5 + torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    out = layers(images)
    assert torch.equal(layers[2](layers[1](layers[0](images))), out)
    assert layers[1].num_batches_tracked == 2
