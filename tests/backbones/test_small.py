import pytest
import torch

from ddsh.backbones.small import build, build_grey


@pytest.mark.parametrize("side", [28, 32, 8])
def test_any_side_gives_256_features(side):
    network = build_grey(image_size=side)
    assert network(torch.zeros(3, side, side, 1, dtype=torch.uint8)).shape == (3, 256)
    assert (network.n_channels, build().n_channels, build().image_size) == (1, 3, 32)


def test_batch_normalisation_learns_while_training_and_rests_otherwise():
    pixels = torch.randint(0, 256, (8, 28, 28, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = build_grey()
    norm = network.blocks[0][1]
    network.eval()(pixels)
    assert norm.running_mean.abs().sum() == 0
    network.train()(pixels)
    assert norm.running_mean.abs().sum() > 0


def test_a_few_steps_lower_a_loss():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (32, 28, 28, 1), dtype=torch.uint8, generator=generator)
    targets = torch.rand(32, 256, generator=generator)
    network = build_grey().train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(15):
        loss = ((network(pixels) - targets) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
