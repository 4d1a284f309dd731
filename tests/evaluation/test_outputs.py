import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.codes import BinaryCodes
from ddsh.evaluation import score
from ddsh.evaluation.outputs import score_reranked
from ddsh.index.rerank import similarity_to, similarity_to_codes, to_half
from ddsh.labels import as_labels


def test_outputs_put_images_at_equal_distance_in_order():
    query, database = np.array([[1.0, 0.1]]), np.array([[-0.1, 1.0], [1.0, -0.1], [0.1, 1.0]])
    labels = as_labels([0]), as_labels([1, 0, 1])
    before = score(BinaryCodes.from_outputs(query), BinaryCodes.from_outputs(database), *labels)
    after = score_reranked(query, database, *labels, top_k=None)
    assert before.map == pytest.approx((1 / 2 + 1 / 3) / 2)  # the third image first, the other two tie
    assert after.map_by_codes == 1 / 2  # the query is not sure of its second bit, so that one differs least
    assert after.map_by_outputs == 1.0


def test_top_k_bounds_what_is_looked_at():
    query, database = np.array([[1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    whole, first = (
        score_reranked(query, database, as_labels([0]), as_labels([1, 1, 0]), top_k=top_k) for top_k in (None, 2)
    )
    assert (whole.map_by_codes, first.map_by_codes) == (1 / 3, 0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_equal_outputs_rank_as_codes_do(seed, n_bits):
    rng = np.random.default_rng(seed)
    query, database = (BinaryCodes.from_bits(rng.integers(0, 2, (n, n_bits), np.uint8)) for n in (1, 30))
    similarity = similarity_to_codes(query.signs()[0].astype(np.float32), database)
    distances = query.hamming(database)[0]
    nearer = distances[:, None] < distances
    assert (similarity[:, None] > similarity)[nearer].all()


def test_a_query_without_any_output_finds_all_images_alike():
    similarity = similarity_to(np.zeros(3), np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
    assert similarity.tolist() == [0.0, 0.0]


def test_outputs_too_large_for_half_precision_are_cut():
    assert np.isfinite(to_half(np.array([1e9, -1e9]))).all()
