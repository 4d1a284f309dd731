from itertools import pairwise

import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.dpsh import DPSH
from ddsh.methods.dsdh import DSDH

C = 4


def _begun(labels, **options):
    method = DSDH(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def test_the_discrete_step_never_raises_the_objective(rng):
    method = _begun(np.arange(60) % 3, eta=0.5)
    method._U = rng.normal(size=(60, C)).astype(np.float32)
    objectives = [method._begin_epoch(number)[1] for number in range(6)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(objectives))


def test_codes_follow_the_outputs_where_these_weigh_more(rng):
    method = _begun(np.arange(30) % 3, eta=1e6)
    method._U = rng.normal(size=(30, C)).astype(np.float32)
    method._begin_epoch(0)
    assert np.array_equal(method._B, np.sign(method._U))


def test_codes_of_a_class_agree_where_labels_weigh_more(rng):
    labels = np.arange(60) % 3
    method = _begun(labels, eta=1e-9)
    for number in range(4):
        method._begin_epoch(number)
    assert all(len(np.unique(method._B[labels == label], axis=0)) == 1 for label in range(3))
    assert len(np.unique(method._B, axis=0)) > 1


def test_with_signs_of_the_outputs_as_codes_the_loss_is_that_of_dpsh(rng):
    labels, outputs = np.arange(9) % 3, torch.tensor(rng.normal(size=(5, C)))
    rows = np.array([4, 0, 7, 8, 2])
    method = _begun(labels, eta=10.0)
    method._B[rows] = np.sign(outputs.numpy())
    other = DPSH(C, eta=10.0)
    other._begin_fit(as_labels(labels))
    assert method._loss(outputs, rows).item() == pytest.approx(other._loss(outputs, rows).item())
    method._B[4] *= -1
    assert method._loss(outputs, rows) > other._loss(outputs, rows)


def test_a_classifier_without_a_ridge_is_refused(images):
    with pytest.raises(InvalidInput, match="nu must be above 0"):
        DSDH(8, nu=0).fit(*images)
