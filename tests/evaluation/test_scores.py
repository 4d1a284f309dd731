import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import loadmat
from sklearn.metrics import average_precision_score

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.evaluation import Scores, score


def _codes(bits):
    return BinaryCodes.from_bits(np.asarray(bits))


def _orders(distances):
    """All rankings that are sorted by distance: every order of every tie block."""
    blocks = [np.flatnonzero(distances == d) for d in np.unique(distances)]
    for parts in itertools.product(*(itertools.permutations(block) for block in blocks)):
        yield np.concatenate([np.array(part) for part in parts])


def _brute_force_ap(relevant, k, convention):
    top = relevant[:k]
    precisions = [top[: i + 1].mean() for i in range(len(top)) if top[i]]
    divisor = top.sum() if convention == "retrieved" else min(k, relevant.sum())
    return sum(precisions) / divisor if divisor else 0.0


@st.composite
def tiny_problems(draw):
    """One query and up to seven items with few bits, so that ties abound; up to two labels an item."""
    n_items, n_bits = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    bit = st.integers(0, 1)
    row = st.lists(bit, min_size=n_bits, max_size=n_bits)
    label = st.lists(bit, min_size=2, max_size=2)
    return (
        draw(row),
        draw(st.lists(row, min_size=n_items, max_size=n_items)),
        draw(label),
        draw(st.lists(label, min_size=n_items, max_size=n_items)),
        draw(st.integers(1, n_items + 1)),
        draw(st.sampled_from(["retrieved", "min_k"])),
    )


@given(tiny_problems())
def test_scores_equal_brute_force_over_all_orders_of_ties(problem):
    query, items, query_label, item_labels, k, convention = problem
    distances = (np.array(items) != np.array(query)).sum(axis=1)
    relevant = (np.array(item_labels) @ np.array(query_label)) > 0
    rankings = [relevant[order] for order in _orders(distances)]
    found = score(
        _codes([query]), _codes(items), np.array([query_label]), np.array(item_labels),
        top_k=k, ap_convention=convention, precision_at=range(1, len(items) + 1), radii=(0, 1, 2, 3),
    )  # fmt: skip
    precisions = [_brute_force_ap(ranking, k, convention) for ranking in rankings]
    assert found.map == pytest.approx(np.mean(precisions), abs=1e-12)
    assert found.map_low == pytest.approx(min(precisions), abs=1e-12)
    assert found.map_high == pytest.approx(max(precisions), abs=1e-12)
    for rank in range(1, len(items) + 1):
        hits = np.mean([ranking[:rank].sum() for ranking in rankings])
        assert found.precision_at[rank] == pytest.approx(hits / rank, abs=1e-12)
        assert found.recall_at[rank] == pytest.approx(hits / max(relevant.sum(), 1), abs=1e-12)
        assert found.precision_recall.by_rank.precision[rank - 1] == found.precision_at[rank]
    for radius, rate in found.success_rate.items():
        assert rate == float(relevant[distances <= radius].any())


@given(tiny_problems())
def test_stable_scores_equal_a_stable_sort(problem):
    query, items, query_label, item_labels, k, convention = problem
    distances = (np.array(items) != np.array(query)).sum(axis=1)
    ranking = ((np.array(item_labels) @ np.array(query_label)) > 0)[np.argsort(distances, kind="stable")]
    found = score(
        _codes([query]), _codes(items), np.array([query_label]), np.array(item_labels),
        top_k=k, ap_convention=convention, ties="stable", precision_at=[1, len(items)],
    )  # fmt: skip
    assert found.map == pytest.approx(_brute_force_ap(ranking, k, convention), abs=1e-12)
    assert found.map_low - 1e-12 <= found.map <= found.map_high + 1e-12
    assert found.precision_at[1] == ranking[0]
    assert found.recall_at[len(items)] == pytest.approx(float(ranking.any()))


def test_without_ties_map_equals_scikit_learn(rng):
    n_bits = 40
    items = np.tril(np.ones((n_bits, n_bits), int))[rng.permutation(n_bits)]
    query, relevant = np.zeros((1, n_bits), int), rng.random(n_bits) < 0.3
    found = score(_codes(query), _codes(items), [1], relevant.astype(int))
    expected = average_precision_score(relevant, -items.sum(axis=1))
    assert found.map == pytest.approx(expected, abs=1e-12)
    assert found.map_low == pytest.approx(found.map_high, abs=1e-12)


@pytest.fixture
def noisy(rng):
    """Queries and items of 5 classes whose codes are noisy copies of one code a class."""
    centres = rng.integers(0, 2, (5, 10))

    def draw(n):
        labels = rng.integers(0, 5, n)
        return _codes(centres[labels] ^ (rng.random((n, 10)) < 0.15)), labels

    return *draw(60), *draw(500)


def _plain(found):
    return [
        found.map,
        found.map_low,
        found.map_high,
        *found.precision_at.values(),
        *found.success_rate.values(),
    ]


@pytest.mark.parametrize("options", [{}, {"top_k": 37}, {"top_k": 37, "ap_convention": "min_k"}])
def test_the_order_of_the_database_does_not_matter_in_expectation(noisy, rng, options):
    query, query_labels, items, labels = noisy
    order = rng.permutation(len(items))
    first = score(query, items, query_labels, labels, **options)
    second = score(query, items[order], query_labels, labels[order], **options)
    assert _plain(first) == pytest.approx(_plain(second), abs=1e-12)
    assert np.allclose(first.average_precision, second.average_precision, atol=1e-12)


def test_the_expectation_is_the_mean_of_stable_scores_over_shuffled_databases(noisy, rng):
    query, query_labels, items, labels = noisy
    expected = score(query, items, query_labels, labels)
    orders = [rng.permutation(len(items)) for _ in range(200)]
    maps = [score(query, items[o], query_labels, labels[o], ties="stable").map for o in orders]
    assert np.mean(maps) == pytest.approx(expected.map, abs=5 * np.std(maps) / np.sqrt(len(maps)))
    assert expected.map_low <= min(maps) <= max(maps) <= expected.map_high


def test_one_hot_labels_score_like_a_vector(noisy):
    query, query_labels, items, labels = noisy
    hot = np.eye(5, dtype=int)
    plain = score(query, items, query_labels, labels)
    matrix = score(query, items, hot[query_labels], sparse.csr_array(hot[labels]))
    assert _plain(plain) == pytest.approx(_plain(matrix), abs=1e-12)


def test_every_query_counts_on_its_own(noisy):
    query, query_labels, items, labels = noisy
    together = score(query, items, query_labels, labels, top_k=50)
    alone = [score(query[[i]], items, query_labels[[i]], labels, top_k=50).map for i in range(len(query))]
    assert np.allclose(together.average_precision, alone, atol=1e-12)
    assert together.map == pytest.approx(np.mean(alone))


def test_the_map_of_the_whole_database_stands_beside_that_of_the_first_items(rng):
    labels = rng.integers(0, 3, 80)
    codes = BinaryCodes.from_bits(rng.integers(0, 2, (80, 6), dtype=np.uint8))
    first, whole = (score(codes[:9], codes, labels[:9], labels, top_k=k) for k in (20, None))
    assert first.metrics["map_all"] == pytest.approx(whole.map, abs=1e-12)
    assert first.metrics["map"] == pytest.approx(first.map, abs=1e-12)
    assert first.map != pytest.approx(whole.map, abs=1e-3)


def test_a_query_without_relevant_items_counts_as_zero():
    found = score(_codes([[0], [0]]), _codes([[0], [1]]), [1, 9], [1, 1])
    assert found.average_precision.tolist() == [1.0, 0.0]
    assert found.n_without_relevant == 1
    assert found.recall_at[100] == 0.5


def test_an_empty_bucket_is_a_lookup_failure():
    found = score(_codes([[0, 0]]), _codes([[1, 1]]), [1], [1], radii=(0, 1, 2, 99))
    assert found.success_rate == {0: 0.0, 1: 0.0, 2: 1.0, 99: 1.0}
    assert found.precision_recall.by_radius.precision.tolist() == [0.0, 0.0, 1.0]
    assert found.precision_recall.by_radius.recall.tolist() == [0.0, 0.0, 1.0]


def test_precision_beyond_the_database_means_all_of_it():
    found = score(_codes([[0]]), _codes([[0], [1]]), [1], [1, 2], precision_at=[2, 1000])
    assert found.precision_at[1000] == found.precision_at[2] == 0.5


def test_many_bits_and_many_queries_are_scored_in_blocks(rng):
    bits = rng.integers(0, 2, (1500, 1024))
    labels = rng.integers(0, 3, 1500)
    found = score(_codes(bits), _codes(bits[:40]), labels, labels[:40])
    assert len(found.average_precision) == 1500
    alone = score(_codes(bits[1400:]), _codes(bits[:40]), labels[1400:], labels[:40])
    assert np.allclose(found.average_precision[1400:], alone.average_precision)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_labels": [1, 2]}, "1 query codes but 2 query labels"),
        ({"database_labels": [1]}, "2 database codes but 1 database labels"),
        ({"query_codes": _codes([[0, 1, 1]])}, "3 and of 2 bits"),
        ({"query_codes": _codes(np.zeros((0, 2))), "query_labels": []}, "query set is empty"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 2.5}, "whole number"),
        ({"ties": "stabel"}, "Did you mean 'stable'"),
        ({"ap_convention": "min"}, "Did you mean 'min_k'"),
        ({"precision_at": [0]}, "precision_at"),
        ({"radii": [-1]}, "radius"),
        ({"leave_one_out": True}, "leave_one_out takes the same two or more items"),
        ({"leave_one_out": True, "ties": "stable"}, "ties expected"),
    ],
)
def test_bad_input_gets_one_clear_line(changes, message):
    good = {
        "query_codes": _codes([[0, 1]]),
        "database_codes": _codes([[0, 1], [1, 1]]),
        "query_labels": [1],
        "database_labels": [1, 2],
    }
    with pytest.raises(InvalidInput, match=message) as caught:
        score(**(good | changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_items", [1000, 300_000])
def test_relevant_items_at_the_very_end_are_scored_to_many_digits(n_items):
    packed = np.zeros((n_items, 1), np.uint8)
    packed[-3:] = 1
    labels = np.zeros(n_items, int)
    labels[-1] = 1
    found = score(_codes([[0]]), BinaryCodes(packed, 1), [1], labels)
    exact = sum(1 / (n_items - 2 + place) for place in range(3)) / 3
    assert found.map == pytest.approx(exact, rel=1e-9)
    assert found.map_low == pytest.approx(1 / n_items, rel=1e-9)
    assert found.map_high == pytest.approx(1 / (n_items - 2), rel=1e-9)


GOLDEN = {
    12: (0.76405822, 0.7702, 0.76405814),
    24: (0.82220949, 0.8329, 0.82235336),
    32: (0.83092103, 0.8427, 0.83083991),
    48: (0.83178068, 0.8446, 0.83176110),
}


@pytest.fixture
def authors(data_root):
    """A reader of the DDSH authors' own CIFAR-10 codes; their queries and database are sorted by class."""
    folder = data_root / "ddsh-author-codes"
    if not folder.is_dir():
        pytest.skip("DDSH_DATA has no ddsh-author-codes")

    def read(n_bits):
        content = loadmat(folder / f"hashCodes-{n_bits}.mat")
        codes = [BinaryCodes.from_signs(content[name]) for name in ("tB", "dB")]
        return *codes, np.repeat(np.arange(10), 100), np.repeat(np.arange(10), 5900)

    return read


@pytest.mark.parametrize("n_bits", sorted(GOLDEN))
def test_the_authors_codes_score_what_they_should(authors, n_bits):
    query, database, query_labels, labels = authors(n_bits)
    stable, expected, logged = GOLDEN[n_bits]
    in_order = score(query, database, query_labels, labels, ties="stable")
    assert in_order.map == pytest.approx(stable, abs=1e-7)
    assert in_order.map == pytest.approx(logged, abs=2e-4)
    found = score(query, database, query_labels, labels)
    assert found.map == pytest.approx(expected, abs=5e-5)
    rates = {12: (0.973, 0.998, 1.0), 48: (0.752, 0.823, 0.872)}
    if n_bits in rates:
        assert tuple(found.success_rate.values()) == pytest.approx(rates[n_bits], abs=5e-4)
    if n_bits == 12:
        assert (found.map_low, found.map_high) == pytest.approx((0.7154, 0.8243), abs=5e-5)
        assert in_order.precision_at[100] == pytest.approx(0.618, abs=5e-4)
        assert found.precision_at[100] == pytest.approx(0.813, abs=5e-4)


def test_the_two_conventions_of_the_curve_by_radius_differ_where_lookups_are_empty(authors):
    curves = score(*authors(48)).precision_recall
    assert curves.by_radius.precision[0] == pytest.approx(0.711, abs=1e-3)
    assert curves.by_radius_pooled.precision[0] == pytest.approx(0.963, abs=5e-4)
    assert curves.by_radius_pooled.precision[-1] == pytest.approx(0.1)
    assert curves.by_radius_pooled.recall[-1] == 1.0


def test_the_two_conventions_of_ap_at_k_differ_as_published(authors):
    query, database, query_labels, labels = authors(12)
    maps = [
        score(query, database, query_labels, labels, top_k=5000, ties="stable", ap_convention=convention).map
        for convention in ("retrieved", "min_k")
    ]
    assert maps == pytest.approx([0.812, 0.715], abs=5e-4)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_a_database_of_any_size_is_scored_in_blocks_with_the_same_scores(rng, monkeypatch, leave_one_out):
    codes, labels = _codes(rng.integers(0, 2, (3000, 10))), rng.integers(0, 5, 3000)
    queries, query_labels = (codes, labels) if leave_one_out else (codes[:40], labels[:40])
    options = {"leave_one_out": leave_one_out, "precision_at": (1, 7, 100, 9999)}
    expected = score(queries, codes, query_labels, labels, **options)
    monkeypatch.setattr("ddsh.evaluation.scores._BLOCK_ITEMS", 700)
    monkeypatch.setattr("ddsh.evaluation.scores._MAX_CURVE", 1000)
    monkeypatch.setattr("ddsh.evaluation.metrics._MAX_STORED", 1000)
    monkeypatch.setattr("ddsh.evaluation.metrics._FEW_STORED", 500)
    found = score(queries, codes, query_labels, labels, **options)
    assert found.average_precision == pytest.approx(expected.average_precision, abs=1e-12)
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-12)
    assert found.precision_at == pytest.approx(expected.precision_at, abs=1e-12)
    assert found.recall_at == pytest.approx(expected.recall_at, abs=1e-12)
    curve, whole = found.precision_recall.by_rank, expected.precision_recall.by_rank
    assert len(curve.rank) < 300
    assert curve.precision == pytest.approx(whole.precision[np.array(curve.rank) - 1], abs=1e-12)
    assert curve.recall == pytest.approx(whole.recall[np.array(curve.rank) - 1], abs=1e-12)
    assert found.thinned().precision_recall.by_rank.rank == curve.rank


def test_scores_without_curves_are_thin_already(noisy):
    scores = Scores(0.5, 0.4, 0.6)
    assert scores.thinned() is scores
