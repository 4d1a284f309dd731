import itertools
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ddsh.errors import InvalidInput, UnknownName
from ddsh.labels import PairLabels, as_labels
from ddsh.methods.fasth import (
    MARGINS,
    FastH,
    add_bit,
    build_blocks,
    build_groups,
    cut,
    infer_bit,
    pair_weights,
    sample_relation,
)

KINDS = ["single", "multi", "pairs"]


def make_labels(kind, rng, n=150):
    """Labels of each kind; a few of the items with many labels have none."""
    if kind == "single":
        return as_labels(rng.integers(0, 5, n))
    matrix = rng.random((n, 6)) < 0.2
    return as_labels(matrix.astype(int)) if kind == "multi" else PairLabels(sparse.csr_array(matrix @ matrix.T * 1))


@pytest.fixture(params=KINDS)
def labels(request, rng):
    return make_labels(request.param, rng)


@pytest.fixture
def relation(labels, rng):
    return sample_relation(labels, 20, 20, rng)


def random_bit(rng, n):
    return rng.choice(np.array([-1, 1], np.int8), n)


def objective(weights, relation, bit):
    """The sum over all pairs of w_ij b_i b_j."""
    matrix = sparse.csr_array((weights, relation.indices, relation.indptr), shape=relation.shape)
    return bit.astype(float) @ (matrix @ bit) / 2


def known_bits(relation, rng, n_bits):
    """The relation after some random bits, and the bits."""
    bits = [random_bit(rng, relation.shape[0]) for _ in range(n_bits)]
    for bit in bits:
        relation = add_bit(relation, bit)
    return relation, np.array(bits, int).reshape(n_bits, relation.shape[0]).T


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_cut_is_as_good_as_the_best_of_all_vectors(m, seed):
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(m, 1)
    capacity, pull = rng.integers(0, 5, len(first)) * 1.0, rng.integers(-12, 13, m) * 1.0
    rows = np.array([cut(first, second, capacity, pull), *itertools.product((-1, 1), repeat=m)])
    values = rows @ pull - (rows[:, first] * rows[:, second]) @ capacity
    assert set(rows[0]) <= {-1, 1}
    assert values[0] == values[1:].min()


@pytest.mark.parametrize("loss", sorted(MARGINS))
@pytest.mark.parametrize("n_known", [0, 1, 4])
def test_a_round_never_raises_the_objective(labels, relation, rng, loss, n_known):
    relation, _ = known_bits(relation, rng, n_known)
    weights = pair_weights(relation, n_known, MARGINS[loss])
    blocks = build_blocks(build_groups(labels, relation, rng), relation)
    for start in [np.ones(len(labels), np.int8), *(random_bit(rng, len(labels)) for _ in range(3))]:
        before = objective(weights, relation, start)
        once = infer_bit(weights, blocks, start, rng)
        twice = infer_bit(weights, blocks, once, rng)
        assert objective(weights, relation, once) < before
        assert objective(weights, relation, twice) <= objective(weights, relation, once)


def test_a_start_is_left_as_it_is(labels, relation, rng):
    blocks = build_blocks(build_groups(labels, relation, rng), relation)
    start = np.ones(len(labels), np.int8)
    assert not np.array_equal(infer_bit(pair_weights(relation, 0, 1.0), blocks, start, rng), start)
    assert start.all()


@pytest.mark.parametrize("loss", sorted(MARGINS))
def test_blocks_hold_submodular_pairs_alone(labels, relation, rng, loss):
    blocks = build_blocks(build_groups(labels, relation, rng), relation)
    relation, _ = known_bits(relation, rng, 5)
    weights = pair_weights(relation, 5, MARGINS[loss])
    assert sum(len(block.inside) for block in blocks) > 0
    assert all((weights[block.inside] < 0).all() for block in blocks)


def test_every_item_is_in_a_block(labels, relation, rng):
    groups = build_groups(labels, relation, rng)
    assert np.array_equal(np.unique(np.concatenate(groups)), np.arange(len(labels)))
    assert all(len(np.unique(group)) == len(group) for group in groups)


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_the_items_of_a_class_are_a_block(rng, kind):
    labels = make_labels(kind, rng)
    groups = build_groups(labels, sample_relation(labels, 20, 20, rng), rng)
    classes = labels.classes()
    assert all(np.array_equal(groups[i], np.flatnonzero(labels.having(c))) for i, c in enumerate(classes))
    assert (len(groups) > len(classes)) == (kind == "multi")


def test_a_block_knows_all_pairs_of_its_items(relation, rng):
    dense, everyone = relation.toarray(), np.arange(relation.shape[0])
    items = np.sort(rng.choice(everyone, 40, replace=False))
    outside = np.setdiff1d(everyone, items)
    (block,) = build_blocks([items], relation)
    inside, across = np.zeros((40, 40)), np.zeros((40, len(everyone)))
    inside[block.first, block.second] = relation.data[block.inside]
    across[block.member, block.other] = relation.data[block.across]
    assert np.array_equal(inside + inside.T, dense[np.ix_(items, items)])
    assert np.array_equal(across[:, outside], dense[np.ix_(items, outside)])
    assert not across[:, items].any()


def test_distances_are_counted_bit_by_bit(relation, rng):
    after, bits = known_bits(relation, rng, 9)
    rows, columns = relation.nonzero()
    distance = (bits[rows] != bits[columns]).sum(axis=1)
    assert np.array_equal(after.data, relation.data * (1 + distance))
    assert set(relation.data) == {-1, 1}


def test_ksh_is_the_l2_loss_on_inner_products(relation, rng):
    after, bits = known_bits(relation, rng, 6)
    rows, columns = relation.nonzero()
    inner = (bits[rows] * bits[columns]).sum(axis=1)
    fall = np.square(7 * relation.data - inner - 1.0) - np.square(7 * relation.data - inner + 1.0)
    assert np.array_equal(4 * pair_weights(after, 6, MARGINS["ksh"]), fall)


def test_the_hinge_leaves_dissimilar_pairs_alone_that_differ_in_half_of_the_bits(relation, rng):
    after, _ = known_bits(relation, rng, 5)
    distance, apart = np.abs(after.data) - 1, after.data < 0
    weights = pair_weights(after, 5, MARGINS["hinge"])
    assert np.array_equal(weights[apart] == 0, distance[apart] >= 3)
    assert np.array_equal(weights[~apart], -(2.0 * distance[~apart] + 1))


def test_sampled_pairs_are_those_of_the_labels(labels, relation):
    dense = relation.toarray()
    similar = labels.similar(labels)
    assert np.array_equal(dense, dense.T)
    assert not dense.diagonal().any()
    assert similar[dense > 0].all()
    assert not similar[dense < 0].any()
    np.fill_diagonal(similar, False)
    assert ((dense > 0).sum(axis=1) >= np.minimum(similar.sum(axis=1), 19)).all()
    assert ((dense < 0).sum(axis=1) >= np.minimum((~similar).sum(axis=1) - 1, 19)).all()


def test_a_pair_that_is_named_one_way_is_similar_both_ways(rng):
    one_way = PairLabels(sparse.csr_array(np.triu(np.ones((6, 6)), 1)[:, [0, 1, 2, 4, 3, 5]]))
    both = sample_relation(PairLabels(sparse.csr_array(np.ones((6, 6)) - np.eye(6))), 9, 9, rng)
    assert (both.toarray() == 1 - np.eye(6)).all()
    named = one_way.similar(one_way)
    expected = np.where(named | named.T, 1, -1)
    np.fill_diagonal(expected, 0)
    assert np.array_equal(sample_relation(one_way, 9, 9, rng).toarray(), expected)


def separation(signs, labels):
    """The mean share of bits in which similar and dissimilar pairs differ."""
    similar = labels.similar(labels)
    apart = (1 - signs.astype(float) @ signs.T / signs.shape[1]) / 2
    return apart[similar].mean(), apart[~similar].mean()


@pytest.mark.parametrize(("loss", "wanted"), [("hinge", 0.5), ("ksh", 0.55)])
def test_codes_of_classes_are_as_far_apart_as_the_loss_asks(rng, loss, wanted):
    labels = make_labels("single", rng)
    signs = FastH(24, loss=loss).learn_codes(labels)
    assert signs.shape == (150, 24)
    assert set(np.unique(signs)) == {-1, 1}
    within, between = separation(signs, labels)
    assert within < 0.05
    assert between > wanted


@pytest.mark.parametrize("kind", ["multi", "pairs"])
def test_codes_of_items_that_share_a_label_are_nearer(rng, kind):
    labels = make_labels(kind, rng)
    within, between = separation(FastH(24).learn_codes(labels), labels)
    assert within < 0.7 * between


def test_new_items_get_the_codes_of_their_class(rng):
    centres, labels = rng.normal(size=(5, 16)), np.arange(300) % 5
    features = centres[labels] + 0.2 * rng.normal(size=(300, 16))
    codes = FastH(16, extension="linear").fit(features[:200], labels[:200]).encode(features[200:])
    within, between = separation(2.0 * codes.bits() - 1, as_labels(labels[200:]))
    assert within < 0.05
    assert between > 0.45


def test_trees_learn_two_classes_though_the_hinge_leaves_bits_constant(rng):
    labels = np.arange(80) % 2
    features = labels[:, None] + 0.1 * rng.normal(size=(80, 4))
    method = FastH(6).fit(features, labels)
    assert (np.ptp(method.codes_.bits(), axis=0) == 0).any()
    assert separation(2.0 * method.encode(features).bits() - 1, as_labels(labels)) == (0, 0.5)


def test_new_items_with_many_labels_get_codes_near_those_they_share_labels_with(rng):
    matrix = (rng.random((400, 5)) < 0.3).astype(int)
    features = matrix @ rng.normal(size=(5, 16)) + 0.1 * rng.normal(size=(400, 16))
    codes = FastH(16, extension="kernel").fit(features[:300], matrix[:300]).encode(features[300:])
    within, between = separation(2.0 * codes.bits() - 1, as_labels(matrix[300:]))
    assert within < 0.8 * between


def test_equal_seeds_give_equal_codes_and_others_do_not(labels):
    first, second, other = (FastH(16, n_similar=9, n_dissimilar=9, seed=seed).learn_codes(labels) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_more_rounds_never_raise_the_objective_of_the_first_bit(rng):
    labels = make_labels("multi", rng)
    values = []
    for n_rounds in (1, 2, 5):
        bit = FastH(1, n_rounds=n_rounds).learn_codes(labels)[:, 0]
        relation = sample_relation(labels, 100, 100, np.random.default_rng(0))
        values.append(objective(pair_weights(relation, 0, MARGINS["hinge"]), relation, bit))
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_memory_grows_with_the_sampled_pairs_not_with_all_pairs(rng, kind):
    n = 20_000
    labels = make_labels(kind, rng, n)
    method = FastH(1, n_similar=10, n_dissimilar=10)
    tracemalloc.start()
    method.learn_codes(labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n / 8, "not even one bit for each pair of items"


def test_one_class_alone_is_refused(rng):
    with pytest.raises(InvalidInput, match="one class"):
        FastH(8).fit(rng.normal(size=(20, 3)), np.ones(20))


def test_items_that_are_all_dissimilar_are_coded():
    signs = FastH(16).learn_codes(as_labels(np.arange(40)))
    assert len(np.unique(signs, axis=0)) == 40


@pytest.mark.parametrize("name", ["n_similar", "n_dissimilar", "n_rounds"])
def test_numbers_below_one_are_refused(rng, name):
    with pytest.raises(InvalidInput, match=f"{name} must be 1 or more; got 0"):
        FastH(8, **{name: 0}).fit(rng.normal(size=(20, 3)), np.arange(20) % 2)


def test_a_misspelt_loss_is_answered_with_the_nearest(rng):
    with pytest.raises(UnknownName, match="Did you mean 'hinge'"):
        FastH(8, loss="hing").fit(rng.normal(size=(20, 3)), np.arange(20) % 2)


def test_without_pymaxflow_one_line_says_what_to_install():
    script = """
import sys
sys.modules["maxflow"] = None
import numpy as np
from ddsh.errors import DdshError
from ddsh.methods import get_method
try:
    get_method("fasth")(8).fit(np.eye(4), [0, 0, 1, 1])
except DdshError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "fasth needs PyMaxflow. Run: pip install 'ddsh[methods]'\n"
