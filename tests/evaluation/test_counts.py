import numpy as np
import pytest

from ddsh.codes import BinaryCodes
from ddsh.evaluation import counts
from ddsh.evaluation.counts import Groups, count_by_distance, get_kernel
from ddsh.labels import as_labels


@pytest.mark.parametrize("n_bits", [12, 64, 100])
@pytest.mark.parametrize("n_labels", [1, 3])
@pytest.mark.parametrize("has_copies", [True, False])
def test_the_compiled_kernel_counts_as_numpy_does(rng, monkeypatch, n_bits, n_labels, has_copies):
    pytest.importorskip("numba")
    groups = []
    for n_items in (30, 500):
        codes = BinaryCodes.from_bits(rng.integers(0, 2, (n_items, n_bits)))
        if has_copies:
            codes = BinaryCodes.stack([codes, codes[: n_items // 2]])
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


@pytest.mark.parametrize("n_bits", [12, 62, 63, 64, 65])
def test_items_with_equal_code_and_labels_are_one_group(rng, n_bits):
    bits = rng.integers(0, 2, (40, n_bits))
    bits[20:] = bits[:20]
    labels = np.arange(40) % 2
    labels[20:30] = labels[:10]  # ten items equal another one in both
    labels[30:] = 1 - labels[10:20]
    groups = Groups.of(BinaryCodes.from_bits(bits), as_labels(labels))
    seen = {(tuple(row), label) for row, label in zip(bits.tolist(), labels.tolist(), strict=True)}
    assert len(groups.codes) == len(seen)
    assert np.array_equal(groups.codes[groups.group_of].bits(), bits)
    assert np.array_equal(groups.label_ids[groups.group_of], labels)
    assert np.array_equal(np.bincount(groups.group_of), groups.sizes)
    assert np.array_equal(groups.label_ids, np.sort(groups.label_ids))


def test_without_numba_numpy_goes_on(monkeypatch):
    monkeypatch.setattr(counts, "_kernel", None)
    monkeypatch.setattr(counts, "_compared", 0)
    monkeypatch.setitem(__import__("sys").modules, "ddsh.evaluation._compiled_counts", None)
    assert get_kernel(1, worth_loading=1) is None
    assert get_kernel(10**12) is None
