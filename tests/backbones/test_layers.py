import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from ddsh.backbones.layers import LocalResponseNorm, depthwise_conv


def _by_the_formula(x):
    """MatConvNet's definition, a channel at a time, in double precision."""
    x = x.astype(np.float64)
    out = np.empty_like(x)
    for k in range(x.shape[1]):
        window = x[:, max(0, k - 2) : k + 3]
        out[:, k] = x[:, k] / (2 + 1e-4 * (window**2).sum(axis=1)) ** 0.75
    return out


@given(st.integers(1, 9), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_values_are_those_of_the_formula(n_channels, side, seed):
    x = (100 * np.random.default_rng(seed).standard_normal((3, n_channels, side, side))).astype(np.float32)
    np.testing.assert_allclose(LocalResponseNorm()(torch.from_numpy(x)), _by_the_formula(x), rtol=1e-5, atol=1e-5)


def test_pytorchs_own_agrees_once_its_division_is_undone(rng):
    x = torch.from_numpy(100 * rng.standard_normal((2, 16, 9, 9)))
    theirs = nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0)
    torch.testing.assert_close(LocalResponseNorm()(x), theirs(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_channels", [1, 2, 7])
def test_gradients_agree_with_finite_differences(rng, n_channels):
    x = torch.from_numpy(30 * rng.standard_normal((3, n_channels, 2, 3))).requires_grad_()
    assert torch.autograd.gradcheck(LocalResponseNorm(), x)


def test_a_batch_of_many_pieces_has_the_gradients_of_pytorchs_own(rng):
    images = (100 * rng.standard_normal((5, 64, 54, 54))).astype(np.float32)
    theirs = nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0)
    gradients = []
    for module in (LocalResponseNorm(), theirs):
        x = torch.from_numpy(images).to(memory_format=torch.channels_last).requires_grad_()
        (module(x) ** 2).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("channels", "side", "kernel"), [(6, 4, 5), (5, 3, 5), (6, 7, 5), (2, 8, 5), (4, 1, 3), (3, 5, 3)]
)
def test_a_depthwise_convolution_and_its_gradients_are_those_of_conv2d(channels, side, kernel):
    torch.manual_seed(0)
    x = torch.randn(7, channels, side, side, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(channels, 1, kernel, kernel, dtype=torch.float64, requires_grad=True)
    expected = functional.conv2d(x, weight, None, 1, kernel // 2, 1, channels)
    found = depthwise_conv(x, weight)
    assert torch.equal(found, expected)
    slopes = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(each, (x, weight), slopes) for each in (found, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-12)
    only = torch.autograd.grad(depthwise_conv(x.detach(), weight), weight, slopes)
    assert torch.allclose(only[0], theirs[1], atol=1e-12)
    only = torch.autograd.grad(depthwise_conv(x, weight.detach()), x, slopes)
    assert torch.allclose(only[0], theirs[0], atol=1e-12)
