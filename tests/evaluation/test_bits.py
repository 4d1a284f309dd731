import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddsh.codes import BinaryCodes
from ddsh.evaluation.bits import bit_health
from ddsh.evaluation.outputs import histogram_of_outputs


def test_balanced_independent_bits_are_in_best_health():
    every_code = np.arange(16)[:, None] >> np.arange(4) & 1
    health = bit_health(BinaryCodes.from_bits(every_code), n_classes=10)
    assert health.share == [0.5] * 4
    assert health.entropy == [1.0] * 4
    assert (health.mean_correlation, health.max_correlation) == (0.0, 0.0)
    assert (health.n_distinct, health.n_codes, health.collapsed) == (16, 16, False)


def test_a_constant_bit_is_a_collapse_and_has_no_correlations(rng):
    bits = rng.integers(0, 2, (100, 6))
    bits[:, 2] = 1
    health = bit_health(BinaryCodes.from_bits(bits), n_classes=2)
    assert health.collapsed
    assert (health.share[2], health.entropy[2]) == (1.0, 0.0)
    assert 0 < health.max_correlation < 1


def test_opposite_bits_are_as_alike_as_equal_ones():
    bits = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1]])
    health = bit_health(BinaryCodes.from_bits(bits), n_classes=2)
    assert health.max_correlation == 1.0
    assert health.mean_correlation == pytest.approx(1 / 3)


def test_fewer_codes_than_classes_are_a_collapse():
    bits = np.array([[0, 0, 1], [1, 1, 0]] * 20)
    assert not bit_health(BinaryCodes.from_bits(bits), n_classes=2).collapsed
    assert bit_health(BinaryCodes.from_bits(bits), n_classes=3).collapsed
    one_bit = BinaryCodes.from_bits([[0], [1]])
    assert not bit_health(one_bit, n_classes=10).collapsed


def test_codes_that_are_all_equal_are_a_collapse_without_correlations():
    health = bit_health(BinaryCodes.from_bits(np.ones((5, 3), int)), n_classes=1)
    assert health.collapsed
    assert (health.n_distinct, health.mean_correlation, health.max_correlation) == (1, 0.0, 0.0)


@given(arrays(np.uint8, st.tuples(st.integers(2, 40), st.integers(2, 12)), elements=st.integers(0, 1)))
def test_health_agrees_with_the_textbook(bits):
    health = bit_health(BinaryCodes.from_bits(bits), n_classes=2)
    assert health.share == pytest.approx(bits.mean(axis=0))
    assert health.n_distinct == len({tuple(row) for row in bits.tolist()})
    varying = bits[:, bits.std(axis=0) > 0]
    if varying.shape[1] > 1:
        pairs = np.abs(np.corrcoef(varying.T))[np.triu_indices(varying.shape[1], 1)]
        assert health.mean_correlation == pytest.approx(pairs.mean(), abs=1e-9)
        assert health.max_correlation == pytest.approx(pairs.max(), abs=1e-9)


def test_more_codes_than_a_block_holds_are_all_counted(rng):
    bits = rng.integers(0, 2, (20_000, 5))
    health = bit_health(BinaryCodes.from_bits(bits), n_classes=2)
    assert health.share == pytest.approx(bits.mean(axis=0))
    assert health.n_codes == 20_000


def test_outputs_are_counted_after_tanh_and_none_is_lost():
    outputs = np.array([[-1e9, 0.0], [1e9, 0.1]], np.float32)
    histogram = histogram_of_outputs(outputs)
    assert (histogram.edges[0], histogram.edges[-1], len(histogram.counts)) == (-1.0, 1.0, 50)
    assert sum(histogram.counts) == 4
    assert (histogram.counts[0], histogram.counts[-1], histogram.counts[25], histogram.counts[27]) == (1, 1, 1, 1)
