import numpy as np
import pytest
import torch

from ddsh.labels import as_labels
from ddsh.methods.greedyhash import GreedyHash

C = 6


def _begun(labels, **options):
    method = GreedyHash(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_gradient_is_that_of_the_codes(rng):
    method = _begun(np.arange(9) % 3, quantisation=0.0)
    outputs = torch.tensor(rng.normal(size=(9, C)), dtype=torch.float32, requires_grad=True)
    method._loss(outputs, np.arange(9)).backward()
    codes = torch.sign(outputs.detach()).requires_grad_()
    torch.nn.functional.cross_entropy(method._classifier(codes), torch.arange(9) % 3).backward()
    assert outputs.grad is not None
    assert codes.grad is not None
    assert torch.allclose(outputs.grad, codes.grad)


def test_outputs_that_are_signs_cost_no_penalty(rng):
    labels, signs = np.arange(9) % 3, torch.tensor(rng.choice([-1.0, 1.0], (9, C)), dtype=torch.float32)
    plain, weighted = _begun(labels, quantisation=0.0), _begun(labels, quantisation=5.0)
    rows = np.arange(9)
    assert weighted._loss(signs, rows) == plain._loss(signs, rows)
    assert (weighted._loss(3 * signs, rows) - plain._loss(3 * signs, rows)).item() == pytest.approx(5 * 2**3)


def test_several_labels_are_learned_one_by_one(rng):
    labels = rng.integers(0, 2, (9, 4))
    labels[0], labels[1] = [1, 1, 0, 0], [0, 0, 0, 0]
    method = _begun(labels, quantisation=0.0)
    outputs = torch.tensor(rng.normal(size=(9, C)), dtype=torch.float32)
    logits = method._classifier(torch.sign(outputs)).detach().numpy().astype(float)
    expected = np.mean(np.log1p(np.exp(logits)) - labels * logits)
    assert method._loss(outputs, np.arange(9)).item() == pytest.approx(expected, rel=1e-5)
