"""Methods on features are scikit-learn estimators."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsh.errors import InvalidInput
from ddsh.methods import (
    AGH,
    COSDISH,
    DDSH,
    DGH,
    IMH,
    ITQ,
    KLSH,
    KSH,
    LFH,
    LSH,
    METHODS,
    SDH,
    SH,
    SPH,
    STH,
    TSH,
    FastH,
    IsoHash,
    SemanticHashing,
    Training,
    get_method,
)


@parametrize_with_checks(
    [
        LSH(4),
        ITQ(2),
        SDH(4, n_anchors=10),
        COSDISH(4, extension="linear"),
        LFH(4, extension="linear"),
        FastH(4, extension="linear"),
        KLSH(4),
        SH(4),
        IsoHash(2),
        SPH(4),
        IMH(2, embedding="eigenmaps"),
        AGH(2),
        DGH(2),
        STH(2),
        SemanticHashing(4, n_hidden=8, epochs=2),
        KSH(4, n_anchors=10),
        TSH(4, extension="linear"),
    ]
)
@pytest.mark.filterwarnings("ignore")  # scikit-learn's own checks warn
def test_a_method_on_features_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def features(rng):
    labels = np.arange(120) % 4
    return rng.normal(size=(4, 20))[labels] + 0.5 * rng.normal(size=(120, 20)), labels


def test_transform_returns_the_bits_of_the_codes(features):
    items, labels = features
    method = SDH(8)
    bits = method.fit_transform(items, labels)
    assert np.array_equal(bits, method.encode(items).bits())
    assert np.array_equal(bits, method.transform(items))


def test_a_pipeline_ends_in_a_classifier_on_codes(features):
    items, labels = features
    pipeline = make_pipeline(StandardScaler(), SDH(16), KNeighborsClassifier(metric="hamming"))
    assert pipeline.fit(items[:80], labels[:80]).score(items[80:], labels[80:]) > 0.8


def test_a_grid_search_chooses_by_mean_average_precision(features):
    items, labels = features
    search = GridSearchCV(SDH(), {"n_bits": [1, 16]}, cv=3).fit(items, labels)
    assert search.best_params_ == {"n_bits": 16}
    assert 0.6 < search.best_score_ <= 1


def test_the_score_leaves_each_item_out_of_its_own_ranking(features):
    items, labels = features
    method = LSH(16).fit(items)
    codes, expected = method.encode(items), []
    for row in range(len(items)):
        others = np.delete(np.arange(len(items)), row)
        distances = codes[[row]].hamming(codes[others])[0]
        relevant = labels[others] == labels[row]
        # The expectation over ties, by brute force over many random orders.
        rng = np.random.default_rng(row)
        draws = []
        for _ in range(200):
            order = np.lexsort((rng.random(len(others)), distances))
            places = np.flatnonzero(relevant[order])
            draws.append((np.arange(1, len(places) + 1) / (places + 1)).mean())
        expected.append(np.mean(draws))
    assert method.score(items, labels) == pytest.approx(np.mean(expected), abs=2e-3)


def test_a_deep_method_can_be_searched_and_scored_as_well(rng):
    labels = np.arange(60) % 3
    images = (rng.integers(0, 60, (60, 8, 8, 1)) + 60 * labels[:, None, None, None]).astype(np.uint8)
    method = DDSH(8, backbone="small-grey", training=Training(2, 0.1), n_omega=10)
    search = GridSearchCV(method, {"solver": ["clustering", "local"]}, cv=2).fit(images, labels)
    assert search.best_estimator_.encode(images).n_bits == 8


def test_a_score_of_one_item_is_refused(features):
    method = LSH(4).fit(features[0])
    with pytest.raises(InvalidInput, match="two or more"):
        method.score(features[0][:1], [0])


def test_parameters_that_must_be_above_zero_are_refused_at_zero():
    checked = [(name, parameter) for name in METHODS for parameter in get_method(name).above_zero]
    assert len(checked) > 10
    for name, parameter in checked:
        with pytest.raises(InvalidInput, match=f"{parameter} must be above 0; got 0"):
            get_method(name)(**{parameter: 0})._check_parameters()
