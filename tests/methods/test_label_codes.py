"""Codes learned from labels alone: one for each label set, at a local optimum of the loss of all pairs."""

from functools import partial

import numpy as np
import pytest

from ddsh.labels import PairLabels, as_labels
from ddsh.methods._bqp import full_objective
from ddsh.methods._label_codes import codes_of_labels
from ddsh.methods._similarity import similarity
from ddsh.methods.cosdish import COSDISH

SINGLE = partial(similarity, dissimilar="balanced", multilabel="none")
MULTI = partial(similarity, dissimilar="balanced", multilabel="jaccard")


def _loss(codes, labels, similar):
    return full_objective(codes, codes[:0], similar(labels, labels), np.empty((0, len(labels))))


def test_images_with_the_same_labels_get_the_same_code(rng):
    labels = as_labels((rng.random((60, 4)) < 0.4).astype(int))
    codes = codes_of_labels(labels, 12, MULTI, np.random.default_rng(0))
    assert codes.shape == (60, 12)
    assert set(np.unique(codes)) == {-1, 1}
    sets, groups = labels.distinct()
    assert len(np.unique(np.column_stack([groups, codes]), axis=0)) == len(sets)


def test_no_single_bit_of_a_set_improves_the_loss_of_all_pairs(rng):
    labels = as_labels(np.repeat(np.arange(6), 3))
    codes = codes_of_labels(labels, 8, SINGLE, rng).astype(int)
    best = _loss(codes, labels, SINGLE)
    for label in range(6):
        for bit in range(8):
            flipped = codes.copy()
            flipped[labels.values == label, bit] *= -1
            assert _loss(flipped, labels, SINGLE) >= best - 1e-9


@pytest.mark.parametrize("n_bits", [12, 32])
def test_classes_are_further_apart_than_with_codes_of_cosdish(n_bits):
    labels = as_labels(np.arange(2000) % 10)
    codes = codes_of_labels(labels, n_bits, SINGLE, np.random.default_rng(0)), COSDISH(n_bits).learn_codes(labels)
    nearest, of_cosdish = (
        np.sort((some[:10, None] != some[None, :10]).sum(-1)[np.triu_indices(10, 1)])[0] for some in codes
    )
    assert nearest > of_cosdish
    assert nearest >= n_bits // 2 - 1
    assert _loss(codes[0], labels, SINGLE) < 0.5 * _loss(codes[1], labels, SINGLE)


def test_rare_classes_have_codes_of_their_own():
    labels = as_labels(np.repeat(np.arange(12), [500, 200, 100, 50, 20, 10, 5, 3, 2, 1, 1, 1]))
    codes = codes_of_labels(labels, 16, SINGLE, np.random.default_rng(0))
    assert len(np.unique(codes, axis=0)) == 12


def test_sets_beyond_the_most_frequent_follow_those_they_are_similar_to(monkeypatch):
    monkeypatch.setattr("ddsh.methods._label_codes._MOST_SETS", 3)
    matrix = np.eye(4, dtype=int)[[0] * 5 + [1] * 5 + [2] * 5 + [0, 3]]
    matrix[-2, 3] = 1  # once: similar to the first class, and to the last image
    codes = codes_of_labels(as_labels(matrix), 16, MULTI, np.random.default_rng(0)).astype(int)
    assert codes[-2] @ codes[0] == 16
    assert abs(codes[-1] @ codes[0]) < 16  # nothing is known: a random code


def test_pairs_without_labels_are_coded_item_by_item():
    of = np.arange(30) % 3
    labels = PairLabels(lambda rows, columns: of[rows][:, None] == of[columns][None, :], 30)
    codes = codes_of_labels(labels, 9, SINGLE, np.random.default_rng(0)).astype(int)
    inner = codes @ codes.T
    same = of[:, None] == of[None, :]
    assert inner[same].min() > inner[~same].max()


def test_equal_seeds_give_equal_codes():
    labels = as_labels(np.arange(200) % 7)
    one, two = (codes_of_labels(labels, 24, SINGLE, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one, two)
