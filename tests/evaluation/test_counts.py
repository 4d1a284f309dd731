import numpy as np
import pytest

from ddsh.codes import BinaryCodes
from ddsh.evaluation import counts
from ddsh.evaluation.counts import Groups, count_by_distance, get_kernel
from ddsh.labels import as_labels


@pytest.mark.parametrize("n_bits", [12, 64, 100])
@pytest.mark.parametrize("n_labels", [1, 3])
def test_the_compiled_kernel_counts_as_numpy_does(rng, monkeypatch, n_bits, n_labels):
    pytest.importorskip("numba")
    groups = []
    for n_items in (30, 500):
        codes = BinaryCodes.from_bits(rng.integers(0, 2, (n_items, n_bits)))
        codes = BinaryCodes.stack([codes, codes[: n_items // 2]])  # some occur twice
        labels = rng.integers(0, 2, (len(codes), 4)) if n_labels > 1 else rng.integers(0, 4, len(codes))
        groups.append(Groups.of(codes, as_labels(labels)))
    monkeypatch.setattr(counts, "_kernel", None)
    monkeypatch.setattr(counts, "_compared", 0)
    expected = count_by_distance(*groups)
    assert counts._kernel is None
    assert get_kernel(1, worth_loading=1) is not None
    found = count_by_distance(*groups)
    assert np.array_equal(found.total, expected.total)
    assert np.array_equal(found.relevant, expected.relevant)
    assert found.total.sum() == len(groups[0].codes) * groups[1].sizes.sum()


def test_without_numba_numpy_goes_on(monkeypatch):
    monkeypatch.setattr(counts, "_kernel", None)
    monkeypatch.setattr(counts, "_compared", 0)
    monkeypatch.setitem(__import__("sys").modules, "ddsh.evaluation._compiled_counts", None)
    assert get_kernel(1, worth_loading=1) is None
    assert get_kernel(10**12) is None
