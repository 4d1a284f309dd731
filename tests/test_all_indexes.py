"""One contract for every index."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ddsh.codes import BinaryCodes
from ddsh.errors import DdshError, InvalidInput, UnknownName
from ddsh.index import INDEXES, _engine, get_index, load_index, load_kernels, verify

pytestmark = [
    pytest.mark.parametrize("name", sorted(INDEXES)),
    pytest.mark.parametrize("engine", ["numpy", "numba"], indirect=True),
    pytest.mark.usefixtures("engine"),
]

BITS = [1, 2, 7, 8, 12, 16, 31, 48, 63, 64, 65, 127, 128, 129, 192, 193, 255, 256]


def draw_bits(rng, kind, n_rows, n_bits):
    """Codes of one kind: all over the place, around three centres, or one of five codes."""
    if kind == "random":
        return rng.integers(0, 2, (n_rows, n_bits), np.uint8)
    if kind == "clustered":
        centres = np.random.default_rng(n_bits).integers(0, 2, (3, n_bits), np.uint8)
        return centres[rng.integers(0, 3, n_rows)] ^ (rng.random((n_rows, n_bits)) < 0.05)
    few = np.random.default_rng(n_bits).integers(0, 2, (5, n_bits), np.uint8)
    return few[rng.integers(0, 5, n_rows)]


@pytest.fixture(scope="module")
def engine(request):
    """What searches: NumPy alone, or the compiled kernels."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(_engine, "_module", None)
            patch.setattr(_engine, "_loader", Thread())
        elif not load_kernels():
            pytest.skip("numba is not installed")
        yield request.param


@st.composite
def problems(draw):
    """Codes with ids in no order, and queries of the same kind."""
    n_bits = draw(st.sampled_from(BITS))
    kind = draw(st.sampled_from(["random", "clustered", "ties"]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    bits = draw_bits(rng, kind, draw(st.sampled_from([0, 1, 2, 30, 300, 3000])), n_bits)
    queries = draw_bits(rng, kind, draw(st.sampled_from([0, 1, 9])), n_bits)
    return bits, rng.permutation(10_000)[: len(bits)], queries


def truth(bits, ids, queries, k=None, radius=None, allowed=None):
    """What any index must answer, from the definitions."""
    answers = []
    for query in queries:
        distances = np.count_nonzero(bits != query, axis=1)
        order = np.lexsort((ids, distances))
        order = order[distances[order] <= (radius if radius is not None else bits.shape[1])]
        order = order if allowed is None else order[np.isin(ids[order], allowed)]
        answers.append((ids[order][:k], distances[order][:k]))
    return answers


def assert_same(hits, answers):
    assert len(hits) == len(answers)
    assert hits.offsets.tolist() == [0, *np.cumsum([len(ids) for ids, _ in answers])]
    for query, (ids, distances) in enumerate(answers):
        assert hits.of(query)[0].tolist() == ids.tolist()
        assert hits.of(query)[1].tolist() == distances.tolist()


def make(name, bits, ids=None):
    index = get_index(name)(bits.shape[1])
    index.add(BinaryCodes.from_bits(bits), ids)
    return index


@pytest.fixture
def bits(rng):
    return draw_bits(rng, "clustered", 500, 24)


@pytest.fixture
def index(name, bits):
    return make(name, bits)


@pytest.fixture
def queries(bits):
    return bits[::50]


@settings(max_examples=60)
@given(problem=problems(), k=st.sampled_from([1, 2, 10, 299, 5000]))
def test_the_nearest_are_those_of_brute_force(name, problem, k):
    bits, ids, queries = problem
    hits = make(name, bits, ids).search(BinaryCodes.from_bits(queries), k)
    assert_same(hits, truth(bits, ids, queries, k=k))


@settings(max_examples=60)
@given(problem=problems(), radius=st.sampled_from([0, 1, 2, 3, 12, 300]))
def test_what_lies_within_a_radius_is_that_of_brute_force(name, problem, radius):
    bits, ids, queries = problem
    hits = make(name, bits, ids).within(BinaryCodes.from_bits(queries), radius)
    assert_same(hits, truth(bits, ids, queries, radius=radius))


@settings(max_examples=60)
@given(problem=problems(), share=st.sampled_from([0.0, 0.01, 0.5, 0.99]), k=st.sampled_from([1, 10, 5000]))
def test_a_filter_leaves_only_the_ids_allowed(name, problem, share, k):
    bits, ids, queries = problem
    index = make(name, bits, ids)
    allowed = np.random.default_rng(0).permutation(10_000)[: int(share * 10_000)]
    allowed = np.concatenate([allowed, allowed[:3]])
    asked = BinaryCodes.from_bits(queries)
    assert_same(index.search(asked, k, allowed=allowed), truth(bits, ids, queries, k=k, allowed=allowed))
    assert_same(index.within(asked, 2, allowed=allowed), truth(bits, ids, queries, radius=2, allowed=allowed))


@pytest.mark.parametrize("n_bits", [255, 256, 300, 1000, 1024])
@pytest.mark.parametrize("kind", ["random", "clustered", "ties"])
def test_long_codes_are_searched_too(name, rng, n_bits, kind):
    bits = draw_bits(rng, kind, 200, n_bits)
    bits[0], queries = 1 - bits[1], bits[:4]
    index, asked = make(name, bits), BinaryCodes.from_bits(queries)
    assert_same(index.search(asked, 200), truth(bits, np.arange(200), queries, k=200))
    assert_same(index.within(asked, 60), truth(bits, np.arange(200), queries, radius=60))


def test_more_queries_than_are_answered_at_a_time_get_their_answers(name, rng):
    bits = draw_bits(rng, "clustered", 700, 20)
    index, asked = make(name, bits), BinaryCodes.from_bits(bits[:600])
    assert_same(index.search(asked, 3), truth(bits, np.arange(700), bits[:600], k=3))


class ChangingIndex(RuleBasedStateMachine):
    """An index that is changed, saved and opened at random, beside a plain dictionary."""

    name: str
    folder: str

    @initialize(n_bits=st.sampled_from([1, 5, 10, 64, 70]), seed=st.integers(0, 100))
    def start(self, n_bits, seed):
        self.rng = np.random.default_rng(seed)
        self.index = get_index(self.name)(n_bits)
        self.model = {}

    def bits(self, n_rows):
        return draw_bits(self.rng, "clustered", n_rows, self.index.n_bits)

    @rule(count=st.integers(0, 60))
    def add_at_the_end(self, count):
        bits, first = self.bits(count), max(self.model, default=-1) + 1
        self.index.add(BinaryCodes.from_bits(bits))
        self.model |= dict(enumerate(bits, first))

    @rule(count=st.integers(0, 60))
    def add_in_between(self, count):
        ids = np.setdiff1d(self.rng.permutation(500)[:count], list(self.model))
        ids = self.rng.permutation(ids).astype(np.int64)
        bits = self.bits(len(ids))
        self.index.add(BinaryCodes.from_bits(bits), ids)
        self.model |= dict(zip(ids.tolist(), bits, strict=True))

    @rule(share=st.sampled_from([0.1, 0.5, 1.0]))
    def remove(self, share):
        ids = [number for number in self.model if self.rng.random() < share]
        assert self.index.remove(ids) == len(ids)
        for number in ids:
            del self.model[number]

    @rule()
    def save_and_open(self):
        self.index.save(self.folder)
        self.index = load_index(self.folder)

    @rule(k=st.integers(1, 30), radius=st.integers(0, 6), is_filtered=st.booleans())
    def ask(self, k, radius, is_filtered):
        ids = np.array(list(self.model), np.int64)
        bits = np.array(list(self.model.values()), np.uint8).reshape(len(ids), self.index.n_bits)
        queries = self.bits(3)
        allowed = self.rng.permutation(500)[:250] if is_filtered else None
        asked = BinaryCodes.from_bits(queries)
        assert_same(self.index.search(asked, k, allowed=allowed), truth(bits, ids, queries, k=k, allowed=allowed))
        within = truth(bits, ids, queries, radius=radius, allowed=allowed)
        assert_same(self.index.within(asked, radius, allowed=allowed), within)

    @invariant()
    def it_holds_what_was_put_in(self):
        ids = sorted(self.model)
        assert len(self.index) == len(ids)
        assert self.index.ids.tolist() == ids
        assert np.array_equal(self.index.codes_of(ids).bits().tolist(), [self.model[number].tolist() for number in ids])


def test_an_index_that_is_changed_again_and_again_stays_right(name, tmp_path):
    machine = type("Machine", (ChangingIndex,), {"name": name, "folder": str(tmp_path / "index")})
    run_state_machine_as_test(machine, settings=settings(max_examples=10, stateful_step_count=15))


def test_an_empty_index_finds_nothing(name, tmp_path, queries):
    asked = BinaryCodes.from_bits(queries)
    index = get_index(name)(24)
    index.save(tmp_path / "index")
    for empty in (index, load_index(tmp_path / "index")):
        assert len(empty) == 0
        assert empty.search(asked, 3).offsets.tolist() == [0] * 11
        assert empty.within(asked, 3).offsets.tolist() == [0] * 11
        assert empty.remove([]) == 0
        assert len(empty.codes_of([])) == 0


def test_all_can_be_removed_and_added_again(name, index, bits, queries):
    asked = BinaryCodes.from_bits(queries)
    index.search(asked, 1)
    assert index.remove(np.arange(500)) == 500
    assert len(index.search(asked, 1).ids) == 0
    index.add(BinaryCodes.from_bits(bits))
    assert_same(index.search(asked, 4), truth(bits, np.arange(500), queries, k=4))


@pytest.mark.parametrize("last", [300, 499])
def test_a_few_removed_codes_stay_where_they_are_and_are_not_found_added_to_or_saved(name, bits, tmp_path, last):
    index = make(name, bits)
    for gone in ([5], [last, 7]):  # so few that no row moves
        assert index.remove(gone) == len(gone)
    left = np.setdiff1d(np.arange(500), [5, 7, last])
    index.save(tmp_path / "index")
    for one in (index, load_index(tmp_path / "index")):
        assert_same(one.search(BinaryCodes.from_bits(bits[:9]), 20), truth(bits[left], left, bits[:9], k=20))
        one.add(BinaryCodes.from_bits(bits[:20]))
        ids = np.append(left, np.arange(left.max() + 1, left.max() + 21))
        assert one.ids.tolist() == ids.tolist()
        both = np.concatenate([bits[left], bits[:20]])
        assert_same(one.within(BinaryCodes.from_bits(bits[:9]), 2), truth(both, ids, bits[:9], radius=2))


def test_ids_may_be_as_large_as_they_come(name, bits):
    ids = np.arange(500)[::-1] + (2**63 - 500)
    index = make(name, bits, ids)
    assert_same(index.search(BinaryCodes.from_bits(bits[:2]), 9), truth(bits, ids, bits[:2], k=9))
    with pytest.raises(InvalidInput, match="No 1 ids are left after 9223372036854775807; give ids"):
        index.add(BinaryCodes.from_bits(bits[:1]))


def test_codes_come_back_in_the_order_asked_for(name, index, bits):
    assert np.array_equal(index.codes_of([400, 3, 3, 77]).bits(), bits[[400, 3, 3, 77]])


def test_what_was_given_is_not_changed_and_may_be_changed(name, bits, queries):
    codes, ids = BinaryCodes.from_bits(bits), np.arange(500)[::-1].copy()
    index = get_index(name)(24)
    index.add(codes, ids)
    assert ids[0] == 499
    assert codes == BinaryCodes.from_bits(bits)
    codes.packed[:], ids[:] = 0, 0
    index.ids[:] = 0
    expected = truth(bits, np.arange(500)[::-1], queries, k=5)
    assert_same(index.search(BinaryCodes.from_bits(queries), 5), expected)


def test_several_threads_may_search_at_once(name, index, bits, queries):
    asked, expected = BinaryCodes.from_bits(queries), truth(bits, np.arange(500), queries, k=7)
    with ThreadPoolExecutor(4) as threads:
        for hits in threads.map(lambda _: index.search(asked, 7), range(12)):
            assert_same(hits, expected)


def test_a_saved_index_gives_the_same_answers(name, index, bits, queries, tmp_path):
    index.save(tmp_path / "index")
    opened = load_index(tmp_path / "index")
    assert type(opened) is get_index(name)
    assert (len(opened), opened.n_bits) == (500, 24)
    assert_same(opened.search(BinaryCodes.from_bits(queries), 6), truth(bits, np.arange(500), queries, k=6))
    assert_same(opened.within(BinaryCodes.from_bits(queries), 2), truth(bits, np.arange(500), queries, radius=2))


def test_an_opened_index_may_be_changed_and_saved_over_itself(name, index, bits, queries, tmp_path):
    index.save(tmp_path / "index")
    opened = load_index(tmp_path / "index")
    opened.add(BinaryCodes.from_bits(bits[:0]))
    opened.add(BinaryCodes.from_bits(bits[:9]))
    opened.remove(np.arange(100))
    assert len(load_index(tmp_path / "index")) == 500
    opened.save(tmp_path / "index")
    bits, ids = np.concatenate([bits[100:], bits[:9]]), np.arange(100, 509)
    for changed in (opened, load_index(tmp_path / "index")):
        assert_same(changed.search(BinaryCodes.from_bits(queries), 6), truth(bits, ids, queries, k=6))
    verify(tmp_path / "index")


def test_who_has_an_index_open_keeps_it_when_it_is_replaced(name, index, bits, queries, tmp_path):
    index.save(tmp_path / "index")
    opened = load_index(tmp_path / "index")
    make(name, 1 - bits).save(tmp_path / "index")
    assert_same(opened.search(BinaryCodes.from_bits(queries), 6), truth(bits, np.arange(500), queries, k=6))


@pytest.mark.parametrize("other", sorted(INDEXES))
def test_every_index_opens_what_any_other_saved(name, other, index, bits, queries, tmp_path):
    index.save(tmp_path / "index")
    opened = get_index(other).load(tmp_path / "index")
    assert_same(opened.search(BinaryCodes.from_bits(queries), 6), truth(bits, np.arange(500), queries, k=6))


def codes(n_rows, n_bits=24):
    return BinaryCodes.from_bits(np.zeros((n_rows, n_bits), np.uint8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(codes(1), [7]), "Id 7 is in the index already; remove it first"),
        (lambda index: index.add(codes(2), [900, 900]), "Id 900 is given twice; ids must be unique"),
        (lambda index: index.add(codes(2), [900]), "2 codes but 1 ids; give one id per code"),
        (lambda index: index.add(codes(1), [-1]), "Ids must be 0 to 9223372036854775807; got -1 to -1"),
        (lambda index: index.add(codes(1), [2**63]), "Ids must be 0 to 9223372036854775807; got 9223372036854775808"),
        (lambda index: index.add(codes(1), [2**70]), "vector of integers; got object"),
        (lambda index: index.add(codes(1), [1.5]), "vector of integers; got float64"),
        (lambda index: index.add(codes(1), [[900]]), r"vector of integers; got int64 of shape \(1, 1\)"),
        (lambda index: index.add(codes(1, 23), [900]), "holds codes of 24 bits; got codes of 23 bits"),
        (lambda index: index.remove([3, 600, 601]), "2 of 3 ids are not in the index, such as 600"),
        (lambda index: index.codes_of([600]), "1 of 1 ids are not in the index, such as 600"),
        (lambda index: index.search(codes(1, 23), 1), "holds codes of 24 bits; got codes of 23 bits"),
        (lambda index: index.within(codes(1, 32), 1), "holds codes of 24 bits; got codes of 32 bits"),
        (lambda index: index.search(codes(1), 0), "k must be 1 or more; got 0"),
        (lambda index: index.search(codes(1), 2.5), "k must be an integer; got 2.5"),
        (lambda index: index.within(codes(1), -1), "radius must be 0 or more; got -1"),
        (lambda index: index.search(codes(1), 1, allowed=["a"]), "vector of integers; got <U1"),
        (lambda index: index.search(codes(1), 1).of(1), "hits of 1 queries, counted from 0; got query 1"),
        (lambda index: type(index)(0), "n_bits must be 1 or more; got 0"),
        (lambda index: type(index)(1025), "n_bits must be 1024 at most; got 1025"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_changes_nothing(name, index, bits, call, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        call(index)
    assert "\n" not in str(caught.value)
    assert np.array_equal(index.codes_of(np.arange(500)).bits(), bits)
    assert len(index) == 500


def test_k_may_be_beyond_all_numbers(name, index, queries):
    assert len(index.search(BinaryCodes.from_bits(queries[:1]), 10**30).ids) == 500
    assert len(index.within(BinaryCodes.from_bits(queries[:1]), 10**30).ids) == 500


def test_the_registry_knows_its_index(name, index):
    assert index.name == name
    assert repr(index) == f"{type(index).__name__}(500 codes of 24 bits)"
    with pytest.raises(UnknownName, match=f"Did you mean '{name}'"):
        get_index(name + name[-1])
    assert issubclass(UnknownName, DdshError)
