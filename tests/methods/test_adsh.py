from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ddsh.backbones import Backbone
from ddsh.evaluation import score
from ddsh.labels import as_labels
from ddsh.methods.adsh import ADSH, asymmetric_objective, update_codes
from ddsh.methods.training import Training

C = 4
seeds = st.integers(0, 2**32 - 1)


def _problem(seed, n=7, m=4):
    rng = np.random.default_rng(seed)
    V, U = rng.choice([-1.0, 1.0], (n, C)), rng.uniform(-1, 1, (m, C))
    S = rng.choice([-1.0, 1.0], (m, n))
    return V, U, S, np.sort(rng.permutation(n)[:m]), float(rng.uniform(0, 20))


@given(seeds)
def test_the_update_never_raises_the_objective(seed):
    V, U, S, omega, gamma = _problem(seed)
    updated = update_codes(V, U, S, omega, gamma)
    assert asymmetric_objective(updated, U, S, omega, gamma) <= asymmetric_objective(V, U, S, omega, gamma) + 1e-9


@given(seeds)
def test_the_last_bit_is_the_best_of_all(seed):
    V, U, S, omega, gamma = _problem(seed)
    updated = update_codes(V, U, S, omega, gamma)
    found = asymmetric_objective(updated, U, S, omega, gamma)
    for bits in product((-1.0, 1.0), repeat=len(V)):
        other = updated.copy()
        other[:, -1] = bits
        assert found <= asymmetric_objective(other, U, S, omega, gamma) + 1e-9


def test_the_loss_is_the_papers_divided_by_the_number_of_pairs(rng):
    labels, rows = np.arange(9) % 3, np.array([4, 0, 7])
    method = ADSH(C, gamma=0.5)
    method._begin_fit(as_labels(labels))
    outputs = rng.normal(size=(3, C))
    u, V = np.tanh(outputs), method._V
    same = labels[rows][:, None] == labels
    S = np.where(same, 1, -same.mean() / (1 - same.mean()))
    whole = asymmetric_objective(V, u, S, rows, 0.5 * 9)
    assert method._loss(torch.tensor(outputs), rows).item() == pytest.approx(whole / (S.size * C**2))


def test_the_gradient_equals_finite_differences(rng):
    method = ADSH(C, gamma=0.5)
    method._begin_fit(as_labels(np.arange(9) % 3))
    outputs = torch.tensor(rng.normal(size=(3, C)), requires_grad=True)
    torch.autograd.gradcheck(lambda u: method._loss(u, np.array([4, 0, 7])), [outputs])


def test_the_databases_own_codes_separate_its_classes_and_queries_find_them(images):
    X, labels = images
    training = Training(epochs=12, learning_rate=0.1, batch_size=15, momentum=0.9)
    method = ADSH(8, n_omega=30, backbone=Backbone("small-grey", image_size=8), training=training)
    method.fit(X[:60], labels[:60])
    assert len(method.codes_) == 60
    kinds = [np.unique(method.codes_.bits()[labels[:60] == label], axis=0) for label in range(3)]
    assert [len(kind) for kind in kinds] == [1, 1, 1]
    asymmetric = score(method.encode(X[60:]), method.codes_, as_labels(labels[60:]), as_labels(labels[:60])).map
    assert asymmetric > 0.9


def test_omega_changes_after_its_inner_epochs():
    method = ADSH(C, n_omega=5, n_inner=2)
    method._begin_fit(as_labels(np.arange(40) % 4))
    omegas = [method._begin_epoch(number)[0].tolist() for number in range(4)]
    assert omegas[0] == omegas[1] != omegas[2] == omegas[3]
    assert [len(omega) for omega in omegas] == [5] * 4
