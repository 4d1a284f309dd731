import subprocess
import sys

import faiss
import numpy as np
import pytest

from ddsh.codes import BinaryCodes
from ddsh.index import ExactIndex, FaissIndex


@pytest.fixture
def codes(rng):
    return BinaryCodes.from_bits(rng.integers(0, 2, (5000, 10)))


@pytest.fixture
def two_threads():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    yield
    faiss.omp_set_num_threads(before)


def test_ties_go_to_the_smaller_id_where_faiss_itself_has_no_such_rule(codes, rng):
    ids = rng.permutation(5000)
    index, truth = FaissIndex(10), ExactIndex(10)
    for one in (index, truth):
        one.add(codes, ids)
    for k in (1, 4, 5, 6, 100, 1000):
        found, expected = index.search(codes[:50], k), truth.search(codes[:50], k)
        assert np.array_equal(found.ids, expected.ids)
        assert np.array_equal(found.distances, expected.distances)


@pytest.mark.usefixtures("two_threads")
def test_two_threads_give_the_same_answers(codes):
    index, truth = FaissIndex(10), ExactIndex(10)
    for one in (index, truth):
        one.add(codes)
    assert np.array_equal(index.search(codes[:300], 30).ids, truth.search(codes[:300], 30).ids)
    assert np.array_equal(index.within(codes[:300], 1).ids, truth.within(codes[:300], 1).ids)


def test_files_mapped_read_only_are_searched_where_they_are(codes, tmp_path):
    truth = ExactIndex(10)
    truth.add(codes)
    truth.save(tmp_path / "index")
    index = FaissIndex.load(tmp_path / "index")
    assert not index._codes.words.flags.writeable
    assert np.array_equal(index.search(codes[:9], 30).ids, truth.search(codes[:9], 30).ids)


def test_without_faiss_one_line_says_what_to_install():
    code = """
import sys
sys.modules["faiss"] = None
from ddsh.errors import DdshError
from ddsh.index import get_index
try:
    get_index("faiss")(64)
except DdshError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "The faiss index needs faiss. Run: pip install 'ddsh[search]'\n"


def test_listing_indexes_imports_nothing_heavy():
    code = "import sys, ddsh.index; print(len(ddsh.index.INDEXES), *sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, *loaded = run.stdout.split()
    assert count == "3"
    assert not {"numpy", "faiss", "sklearn", "torch"} & set(loaded)
    import ddsh.index

    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = ddsh.index.nothing
