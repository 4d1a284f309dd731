"""Similarity in per cent, learned from pairs of images."""

import numpy as np
import pytest
from pydantic import ValidationError

from ddsh.calibration import CUT_OFF, Calibration, SimilarityCurve, altered_copy
from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import InvalidInput


def codes(rng, n, n_bits=32):
    return BinaryCodes.from_bits(rng.integers(0, 2, (n, n_bits)))


@pytest.fixture
def pairs(rng):
    """Distances of 200 queries to 100 items, relevant with a probability that falls from 1 to 0."""
    distances = rng.integers(0, 41, (200, 100))
    return distances, rng.random((200, 100)) < 1 - distances / 40


def test_the_curve_is_the_share_of_relevant_pairs_at_each_distance(pairs):
    curve = SimilarityCurve.fit(*pairs)
    everywhere = np.arange(41)
    assert np.abs(curve.at(everywhere) - (1 - everywhere / 40)).max() < 0.05
    assert (np.diff(curve.at(everywhere)) <= 0).all()
    assert curve.at(np.array([99])) == curve.shares[-1]


@pytest.mark.parametrize(("share", "expected"), [(None, 0.5), (0.5, 0.99), (0.1, 0.917)])
def test_pairs_are_weighed_as_if_a_given_share_of_them_were_relevant(share, expected):
    distances = np.array([5] * 10 + [5] * 10 + [9] * 990)
    relevant = np.array([True] * 10 + [False] * 1000)
    curve = SimilarityCurve.fit(np.tile(distances, (1000, 1)), np.tile(relevant, (1000, 1)), share)
    assert curve.at(np.array([5]))[0] == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize("n_queries", [20, 500])
def test_few_queries_are_never_sure_however_many_pairs_they_make(n_queries):
    distances, relevant = np.array([1] * 500 + [8] * 500), np.array([True] * 500 + [False] * 500)
    curve = SimilarityCurve.fit(np.tile(distances, (n_queries, 1)), np.tile(relevant, (n_queries, 1)))
    assert curve.at(np.array([1]))[0] == pytest.approx((n_queries + 0.5) / (n_queries + 1), abs=1e-4)


def test_a_share_that_one_query_of_many_stands_behind_is_drawn_to_that_of_all_pairs():
    distances, relevant = np.full((100, 50), 9), np.zeros((100, 50), bool)
    distances[0], relevant[0] = 1, True
    curve = SimilarityCurve.fit(distances, relevant)
    assert curve.at(np.array([1]))[0] == pytest.approx((1 + 0.01) / 2, abs=1e-4)


def test_from_twenty_queries_stated_shares_are_those_of_other_queries(rng):
    """A third of the queries have a wrong code: the nearest items are then not relevant."""
    stated, actual = [], []
    for _ in range(40):
        distances = np.sort(rng.integers(0, 60, (220, 80)), axis=1)
        is_right = rng.random((220, 1)) < 0.67
        relevant = np.where(is_right, distances < 15, rng.random((220, 80)) < 0.05)
        curve = SimilarityCurve.fit(distances[:20], relevant[:20])
        stated.append(curve.at(distances[20:, 0]).mean())
        actual.append(relevant[20:, 0].mean())
    assert abs(np.mean(stated) - np.mean(actual)) < 0.05


def test_the_reach_of_a_similarity_is_the_last_distance_that_has_it_as_shown(pairs):
    curve = SimilarityCurve.fit(*pairs)
    found = Calibration(meaning="labels", n_queries=29, curves={"look": curve}, unfamiliar=None, familiar=None)
    shown = found.similarity("look", np.arange(curve.distances[-1] + 1))
    for similarity in shown[shown > shown[-1]]:  # rounded, so that it may be more than the share itself
        assert found.reach("look", similarity) == np.flatnonzero(shown >= similarity)[-1]
    assert found.reach("look", 110) == -1
    assert found.reach("look", 0) > 1000


@pytest.mark.parametrize(
    ("distances", "shares"), [((), ()), ((1, 1), (0.5, 0.4)), ((1, 2), (0.4, 0.5)), ((1,), (1.5,)), ((1,), ())]
)
def test_a_curve_that_does_not_fall_is_refused(distances, shares):
    with pytest.raises(ValidationError):
        SimilarityCurve(distances=distances, shares=shares)


def test_labels_calibrate_every_order_that_the_codes_allow(rng):
    queries, database = (CodePair(codes(rng, n), codes(rng, n, 64)) for n in (40, 100))
    similar = rng.random((40, 100)) < 0.3
    both = Calibration.from_labels(queries, database, similar, rng.random(40))
    assert sorted(both.curves) == ["both", "label", "look"]
    assert both.similarity("both", np.array([10_000]))[0] <= 35
    alone = Calibration.from_labels(CodePair(queries.label, None), CodePair(database.label, None), similar)
    assert list(alone.curves) == ["label"]
    assert alone.weight(-1.0) == 1
    with pytest.raises(InvalidInput, match="20 images held out"):
        Calibration.from_labels(queries[:19], database, similar[:19])


def test_copies_calibrate_look_bits_without_labels(rng):
    images = codes(rng, 100, 64)
    bits = images.bits()[:50].copy()
    bits[:, :4] ^= 1
    found = Calibration.from_copies(
        CodePair(None, images), CodePair(None, BinaryCodes.from_bits(bits)), np.arange(50), np.arange(100.0)
    )
    assert found.meaning == "copies"
    assert found.similarity("look", np.array([0, 4, 64])).tolist() == [98.2, 98.2, 0.2]  # 50.1 and 0.1 of 51
    assert found.reach("look", CUT_OFF) < 25


def test_an_unfamiliar_image_lowers_all_similarities(rng):
    images = codes(rng, 100, 64)
    found = Calibration.from_copies(
        CodePair(None, images), CodePair(None, images), np.arange(100), np.arange(1000.0, 2000.0)
    )
    assert [found.weight(value) for value in (2500, 1200, 1004, 0)] == [1, 1, 0, 0]
    assert 0 < found.weight(1020) < 1
    assert found.similarity("look", np.array([0]), found.weight(0)) == 0
    assert found.reach("look", CUT_OFF, 0.0) == -1
    assert found.reach("look", CUT_OFF, 0.4) == -1 < found.reach("look", 30, 0.4)
    assert found.reach("look", 0, 0.0) > 1000


@pytest.mark.parametrize("shape", [(40, 30, 3), (28, 28, 1), (1, 1, 3)])
def test_an_altered_copy_is_cropped_and_changed_but_keeps_its_channels(rng, shape):
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    for _ in range(5):
        copy = altered_copy(image, rng)
        assert copy.dtype == np.uint8
        assert copy.shape[2] == shape[2]
        assert all(side / 2 <= after <= side for side, after in zip(shape[:2], copy.shape[:2], strict=True))


def test_a_calibration_survives_json(rng):
    images = codes(rng, 30, 64)
    found = Calibration.from_copies(CodePair(None, images), CodePair(None, images), np.arange(30), np.arange(30.0))
    assert Calibration.model_validate_json(found.model_dump_json()) == found
    with pytest.raises(ValidationError):
        Calibration.model_validate_json(found.model_dump_json().replace('"version":1', '"version":2'))
