import numpy as np
import pytest
import torch

from ddsh.methods._batch_terms import (
    class_loss,
    mean_or_zero,
    off_diagonal,
    seeded_linear,
    straight_through,
    triplet_gaps,
)


def test_gaps_are_of_all_triplets(rng):
    labels = np.array([0, 1, 0, 2, 1])
    scores = torch.tensor(rng.normal(size=(5, 5)))
    similar = torch.from_numpy(labels[:, None] == labels)
    expected = [
        scores[i, p] - scores[i, n]
        for i in range(5)
        for p in range(5)
        for n in range(5)
        if i != p and labels[i] == labels[p] and labels[i] != labels[n]
    ]
    assert len(expected) == 12
    assert sorted(triplet_gaps(scores, similar).tolist()) == pytest.approx(sorted(map(float, expected)))


def test_a_mean_of_nothing_is_zero():
    assert mean_or_zero(torch.empty(0)) == 0
    assert mean_or_zero(torch.tensor([1.0, 3.0])) == 2


def test_every_pair_is_taken_once():
    assert off_diagonal(torch.arange(9).reshape(3, 3)).tolist() == [1, 2, 5]


def test_the_gradient_passes_straight_through_the_sign():
    outputs = torch.tensor([0.3, -2.0, 0.0], requires_grad=True)
    codes = straight_through(outputs)
    assert codes.tolist() == [1, -1, -1]
    (codes * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.tolist() == [1, 2, 3]


def test_one_class_each_is_a_softmax_and_several_are_sigmoids():
    logits, targets = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    assert class_loss(logits, targets, one_each=True).item() == pytest.approx(np.log1p(np.exp(-2)))
    several = (np.log1p(np.exp(-2)) + np.log(2)) / 2
    assert class_loss(logits, targets, one_each=False).item() == pytest.approx(several)


def test_a_seeded_layer_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)
    layers = [seeded_linear(4, 3, 1) for _ in range(2)]
    assert torch.equal(layers[0].weight, layers[1].weight)
    assert torch.rand(1) == first
