from itertools import product

import numpy as np
import pytest
import torch

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.dpsh import DPSH
from ddsh.methods.dsdh import DSDH
from ddsh.methods.sdh import fit_classifier

C = 4


def _begun(labels, **options):
    method = DSDH(C, **options)
    method._begin_fit(as_labels(labels))
    return method


def _objective(method, B, W, U, rows):
    error = np.square(method._classes[rows].toarray() - B @ W).sum(1)
    return method.mu * error + method.eta * np.square(B - U).sum(1)


def test_no_other_bit_of_a_code_lowers_the_objective_of_the_mini_batch(rng):
    rows = rng.permutation(40)[:30]
    method = _begun(np.arange(40) % 3, eta=0.05)
    U = rng.normal(size=(30, C))
    B = method._codes(torch.tensor(U), rows).numpy()
    W = fit_classifier(np.sign(U), method._classes[rows], method.nu / method.mu)
    found = _objective(method, B, W, U, rows)
    assert not np.array_equal(B, np.sign(U)), "the labels matter"
    for bit in range(C):
        other = B.copy()
        other[:, bit] *= -1
        assert (_objective(method, other, W, U, rows) >= found - 1e-9).all()


def test_with_one_bit_the_codes_are_the_best_of_all(rng):
    rows, U = np.arange(4), rng.normal(size=(4, 1))
    method = DSDH(1, eta=0.2)
    method._begin_fit(as_labels([0, 1, 1, 0]))
    B = method._codes(torch.tensor(U), rows).numpy()
    W = fit_classifier(np.sign(U), method._classes[rows], method.nu / method.mu)
    tried = (_objective(method, np.array(b, float)[:, None], W, U, rows).sum() for b in product([-1, 1], repeat=4))
    assert _objective(method, B, W, U, rows).sum() == pytest.approx(min(tried))


def test_codes_follow_the_outputs_where_these_weigh_more(rng):
    rows = np.arange(30)
    outputs = torch.tensor(rng.normal(size=(30, C)))
    method = _begun(rows % 3, eta=1e6)
    assert torch.equal(method._codes(outputs, rows), outputs.sign())
    other = DPSH(C, eta=1e6)
    other._begin_fit(as_labels(rows % 3))
    assert method._loss(outputs, rows).item() == pytest.approx(other._loss(outputs, rows).item())


def test_codes_of_a_class_agree_where_labels_weigh_more(rng):
    labels = np.arange(60) % 3
    method = _begun(labels, eta=1e-9)
    codes = method._codes(torch.tensor(rng.normal(size=(60, C))), np.arange(60)).numpy()
    assert all(len(np.unique(codes[labels == label], axis=0)) == 1 for label in range(3))
    assert len(np.unique(codes, axis=0)) > 1


def test_a_classifier_without_a_ridge_is_refused(images):
    with pytest.raises(InvalidInput, match="nu must be above 0"):
        DSDH(8, nu=0).fit(*images)
