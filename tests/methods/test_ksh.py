from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import check_grad

from ddsh.errors import InvalidInput
from ddsh.evaluation import score
from ddsh.labels import PairLabels, as_labels
from ddsh.methods.itq import ITQ
from ddsh.methods.ksh import KSH, SignedSimilarity, learn_bits, smooth_loss, whiten

seeds = st.integers(0, 2**32 - 1)


def labels_of_every_kind(rng):
    upper = sparse.csr_array(np.triu(rng.random((30, 30)) < 0.2).astype(float))
    return [rng.integers(0, 4, 30), (rng.random((30, 5)) < 0.4).astype(int), PairLabels(upper + upper.T)]


def test_products_with_the_similarities_are_those_of_the_matrix(rng):
    for labels in map(as_labels, labels_of_every_kind(rng)):
        S = np.where(labels.similar(labels), 1.0, -1.0)
        columns = rng.normal(size=(30, 3))
        assert SignedSimilarity(labels) @ columns == pytest.approx(S @ columns)
        assert SignedSimilarity(labels) @ columns[:, 0] == pytest.approx(S @ columns[:, 0])


@given(seeds)
def test_the_gradient_is_that_of_the_loss(seed):
    rng = np.random.default_rng(seed)
    white, R = rng.normal(size=(20, 4)), rng.normal(size=(20, 20))
    R = R + R.T

    def part(which):
        return lambda a: smooth_loss(a, white, lambda b: R @ b)[which]

    assert check_grad(part(0), part(1), rng.normal(size=4)) < 1e-5


def test_a_whitened_kernel_has_unit_covariance_in_the_directions_that_it_has(rng):
    centred = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 6))
    centred -= centred.mean(axis=0)
    white = centred @ whiten(centred)
    assert white.T @ white / 50 == pytest.approx(np.eye(3), abs=1e-9)


def test_every_bit_lowers_the_distance_to_the_similarities(rng):
    labels = as_labels(np.arange(60) % 3)
    S = np.where(labels.similar(labels), 1.0, -1.0)
    white = rng.normal(size=(60, 8)) + 2 * np.eye(3, 8)[labels.to_array()]
    white -= white.mean(axis=0)
    white = white @ whiten(white)
    _, B = learn_bits(white, SignedSimilarity(labels), 6, 100)
    errors = [np.square(6 * S - B[:, :k] @ B[:, :k].T).sum() for k in range(7)]
    assert (np.diff(errors) < 0).all()


def test_a_bit_on_separate_items_is_the_best_of_all():
    labels = as_labels(np.array([0, 0, 1, 1, 2, 2]))
    S = np.where(labels.similar(labels), 1.0, -1.0)
    centred = np.eye(6) - 1 / 6
    _, B = learn_bits(centred @ whiten(centred), SignedSimilarity(labels), 1, 200)
    best = max(np.array(b) @ S @ np.array(b) for b in product([-1.0, 1.0], repeat=6))
    assert B[:, 0] @ S @ B[:, 0] == best


@pytest.fixture
def blobs(rng):
    labels = np.arange(600) % 5
    telling = rng.normal(size=(5, 6))[labels] + 0.4 * rng.normal(size=(600, 6))
    return np.hstack([telling, 3 * rng.normal(size=(600, 6))]), labels


def held_out_map(method, features, labels):
    codes = method.fit(features[:200], labels[:200]).encode(features)
    return score(codes[400:], codes[200:400], labels[400:], labels[200:400]).map


def test_codes_of_new_items_beat_itq(blobs):
    assert held_out_map(KSH(12, n_anchors=60), *blobs) > 1.3 * held_out_map(ITQ(12), *blobs)


def test_items_with_many_labels_are_near_those_they_share_labels_with(rng):
    labels = (rng.random((600, 4)) < 0.3).astype(int)
    features = np.hstack([labels @ rng.normal(size=(4, 10)), 2 * rng.normal(size=(600, 5))])
    assert held_out_map(KSH(16, n_anchors=100), features, labels) > held_out_map(ITQ(9), features, labels)


def test_only_so_many_labelled_items_are_used(blobs):
    features, labels = blobs
    method = KSH(8, n_labelled=100, n_anchors=50).fit(features, labels)
    rng = np.random.Generator(np.random.PCG64(0))
    rng.choice(600, 50, replace=False)
    unused = np.setdiff1d(np.arange(600), rng.permutation(600)[:100])
    changed = labels.copy()
    changed[unused] = 0
    assert KSH(8, n_labelled=100, n_anchors=50).fit(features, changed).encode(features) == method.encode(features)


def test_labels_that_hold_nothing_to_learn_are_refused(blobs):
    with pytest.raises(InvalidInput, match="one class only"):
        KSH(8).fit(blobs[0], np.zeros(600, int))


@pytest.mark.parametrize("name", ["n_anchors", "n_labelled", "n_steps"])
def test_impossible_parameters_are_refused(blobs, name):
    with pytest.raises(InvalidInput, match=f"{name} must be 1 or more; got 0"):
        KSH(8, **{name: 0}).fit(*blobs)
