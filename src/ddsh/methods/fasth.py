"""FastH: each bit is inferred from similarities by block-wise graph cuts, then learned by boosted trees."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.errors import DdshError, InvalidInput, UnknownName
from ddsh.labels import Labels
from ddsh.methods._extensions import Extension
from ddsh.methods._two_step import TwoStepHasher
from ddsh.methods.base import MethodCard

__all__ = ["FastH"]

Loss: TypeAlias = Literal["hinge", "ksh"]
"""How far apart dissimilar items should be; see `MARGINS`."""

Signs: TypeAlias = NDArray[np.int8]
Items: TypeAlias = NDArray[np.integer[Any]]
Weights: TypeAlias = NDArray[np.float64]
Relation: TypeAlias = "sparse.csr_array[Any]"
"""The sampled pairs, both ways: 1 + d for a similar pair and -(1 + d) for a dissimilar one, d bits apart so far."""

MARGINS: Mapping[str, float] = {"hinge": 0.5, "ksh": 1.0}
"""The share of the bits by which a loss wants dissimilar items to differ."""

_Drawn: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]
_KINDS_AT_ONCE = 256


class FastH(TwoStepHasher):
    """Fast supervised hashing: bits inferred from similarities by graph cuts, and boosted trees that predict them.

    Parameters
    ----------
    n_bits : int
        Code length.
    loss : {"hinge", "ksh"}
        ``"hinge"`` asks dissimilar items to differ in half of the bits, ``"ksh"`` in all of them: that is the L2 loss
        on inner products.
    n_similar : int
        Similar items sampled for each item; memory and time grow with these pairs, never with all pairs.
    n_dissimilar : int
        Dissimilar items sampled for each item.
    n_rounds : int
        How often all blocks are solved for one bit.
    extension : {"trees", "linear", "kernel", "cnn"} or Extension
        What learns the codes out of sample; the paper's is ``"trees"``.
    seed : int
        Of the sampled pairs, the order of the blocks, and the extension.

    References
    ----------
    Lin, G., Shen, C., Shi, Q., van den Hengel, A. and Suter, D. "Fast Supervised Hashing with Decision Trees for
    High-Dimensional Data." CVPR 2014. Lin, G., Shen, C. and van den Hengel, A. "Supervised Hashing Using Graph Cuts
    and Boosted Decision Trees." TPAMI 2015. Numbers of pairs and rounds are those of the authors' demonstration.
    Differs from the paper in inferring all bits before the first tree grows: a bit makes up for the faults of the bits
    inferred before it, not of those that trees predict; in giving all items the same weight in the trees, where the
    paper adds up the weights of an item's pairs; and in LightGBM's gradient boosting in place of AdaBoost.
    """

    card = MethodCard(
        name="fasth",
        title="Fast supervised hashing",
        authors="Lin, Shen, Shi, van den Hengel, Suter",
        venue="CVPR",
        year=2014,
        supervision="supervised",
        inputs="features",
        deviations=(
            "all bits are inferred before the trees grow; the trees' own bits are not fed back",
            "all items weigh the same to the trees",
            "trees by gradient boosting (LightGBM) instead of AdaBoost",
        ),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        loss: Loss = "hinge",
        n_similar: int = 100,
        n_dissimilar: int = 100,
        n_rounds: int = 2,
        extension: str | Extension = "trees",
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.loss = loss
        self.n_similar = n_similar
        self.n_dissimilar = n_dissimilar
        self.n_rounds = n_rounds
        self.extension = extension
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss not in MARGINS:
            raise UnknownName("loss", self.loss, MARGINS)
        for name in ("n_similar", "n_dissimilar", "n_rounds"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be 1 or more; got {getattr(self, name)}.")
        load_maxflow()

    def _learn_codes(self, labels: Labels) -> Signs:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        relation = sample_relation(labels, self.n_similar, self.n_dissimilar, rng)
        blocks = build_blocks(build_groups(labels, relation, rng), relation)
        codes = np.ones((len(labels), self.n_bits), np.int8)
        for bit in range(self.n_bits):
            weights = pair_weights(relation, bit, MARGINS[self.loss])
            for _ in range(self.n_rounds):
                codes[:, bit] = infer_bit(weights, blocks, codes[:, bit], rng)
            relation = add_bit(relation, codes[:, bit])
        return codes


def sample_relation(labels: Labels, n_similar: int, n_dissimilar: int, rng: np.random.Generator) -> Relation:
    """Return up to so many similar and dissimilar pairs of every item, all of them zero bits apart.

    Parameters
    ----------
    labels : Labels
        Of n items.
    n_similar, n_dissimilar : int
        How many pairs each item asks for; it may get more, since every pair counts for both of its items.
    rng : numpy Generator
        Equal states give equal pairs.

    Returns
    -------
    sparse array of int16, shape (n, n)
        +1 for a similar pair, -1 for a dissimilar one, symmetric.
    """
    drawn: list[_Drawn] = []
    for members, alike in _alike_by_kind(labels):
        # A matrix of pairs may name a pair one way only; since 2 - 1 is above zero, it counts as similar both ways.
        drawn.append(_draw(members, np.flatnonzero(alike), n_similar, 2, rng))
        drawn.append(_draw(members, np.flatnonzero(~alike), n_dissimilar, -1, rng))
    items, partners, signs = (np.concatenate(part) for part in zip(*drawn, strict=True))
    one_way = sparse.csr_array((signs, (items, partners)), shape=(len(labels), len(labels)))
    both_ways = sparse.csr_array(one_way + one_way.T)
    return _with_data(both_ways, np.sign(both_ways.data))


def build_groups(labels: Labels, relation: Relation, rng: np.random.Generator) -> list[Items]:
    """Return groups of items without a dissimilar pair among them; they may overlap, and every item is in one.

    A class is a group; items without a class (or all, where similarity is given pair by pair) are gathered greedily.
    """
    groups: list[Items] = [np.flatnonzero(labels.having(label)) for label in labels.classes()]
    left = np.ones(len(labels), np.bool_)
    for group in groups:
        left[group] = False
    while left.any():
        groups.append(_grow_group(relation, left, rng))
        left[groups[-1]] = False
    return groups


@dataclass(frozen=True)
class Block:
    """Items that are solved together, and where their pairs are in a relation.

    Parameters
    ----------
    items : ndarray of int, shape (m,)
        Row numbers.
    inside, first, second : ndarray of int
        The pairs of two items of the block, each once: their entries, and their ends as places in `items`.
    across, member, other : ndarray of int
        The pairs with items outside: their entries, the end as a place in `items`, and the row number of the other.
    """

    items: Items
    inside: Items
    first: Items
    second: Items
    across: Items
    member: Items
    other: Items


def build_blocks(groups: Sequence[Items], relation: Relation) -> list[Block]:
    """Find the pairs of each group."""
    entries = _with_data(relation, np.arange(relation.nnz, dtype=relation.indices.dtype))
    return [_block(items, entries) for items in groups]


def pair_weights(relation: Relation, n_known: int, margin: float) -> Weights:
    """Return how much the loss of each pair falls if its items differ in the next bit.

    At bit r, the loss of a similar pair is d^2 and that of a dissimilar one max(m r - d, 0)^2, d bits apart.

    Parameters
    ----------
    relation : sparse array
        The pairs and their distances in the known bits.
    n_known : int
        How many bits are known: r - 1.
    margin : float
        The share m of the bits by which dissimilar items should differ.

    Returns
    -------
    ndarray
        One weight for each entry of the relation: below zero for similar pairs, never so for dissimilar ones.
    """
    distance = np.arange(n_known + 2.0)
    similar = -np.diff(np.square(distance))
    dissimilar = -np.diff(np.square(np.maximum(margin * (n_known + 1) - distance, 0)))
    # Entry s of a relation finds its weight at s, those below zero from the end.
    weights: Weights = np.concatenate([[0], similar, dissimilar[::-1]])[relation.data]
    return weights


def infer_bit(weights: Weights, blocks: Sequence[Block], bit: Signs, rng: np.random.Generator) -> Signs:
    """Lower the sum of w_ij b_i b_j over all pairs, once block after block in random order, each solved exactly.

    Parameters
    ----------
    weights : ndarray
        The w of each entry of a relation, nowhere above zero inside a block.
    blocks : sequence of Block
        The items that are solved together.
    bit : ndarray of -1 and +1, shape (n,)
        Where the descent starts; it is left as it is.
    rng : numpy Generator
        Equal states give equal bits.

    Returns
    -------
    ndarray of int8, shape (n,)
        The bit of every item, never worse than the start.
    """
    better = bit.copy()
    for number in rng.permutation(len(blocks)):
        block = blocks[number]
        pulls = weights[block.across] * better[block.other]
        pull = np.bincount(block.member, pulls, len(block.items)).astype(np.float64)
        better[block.items] = cut(block.first, block.second, -weights[block.inside], pull)
    return better


def cut(first: Items, second: Items, capacity: Weights, pull: Weights) -> Signs:
    """Minimise pull'b - sum of capacity * b_first b_second over b in {-1, +1}^m, exactly.

    Parameters
    ----------
    first, second : ndarray of int
        The pairs, each once.
    capacity : ndarray
        Theirs, none below zero: that makes the problem submodular.
    pull : ndarray, shape (m,)
        The linear term.

    Returns
    -------
    ndarray of int8, shape (m,)
        The vector of -1 and +1.
    """
    # With b_i b_j = 1 - 2 [b_i != b_j], half the objective is a constant and the capacity of a cut that ends at the
    # source for -1 and at the sink for +1.
    graph = load_maxflow().GraphFloat(len(pull), len(first))
    nodes = graph.add_grid_nodes(len(pull))
    graph.add_edges(first, second, capacity, capacity)
    graph.add_grid_tedges(nodes, np.maximum(pull, 0), np.maximum(-pull, 0))
    graph.maxflow()
    return np.where(graph.get_grid_segments(nodes), 1, -1).astype(np.int8)


def add_bit(relation: Relation, bit: Signs) -> Relation:
    """Return the pairs with their distances after one bit more."""
    differs = np.repeat(bit, np.diff(relation.indptr)) != bit[relation.indices]
    return _with_data(relation, relation.data + np.sign(relation.data) * differs)


def _with_data(relation: Relation, data: NDArray[Any]) -> Relation:
    """Return other numbers for the same pairs."""
    return sparse.csr_array((data, relation.indices, relation.indptr), shape=relation.shape)


def _alike_by_kind(labels: Labels) -> Iterator[tuple[Items, NDArray[np.bool_]]]:
    """Yield, for each distinct label set, the items that have it and which of all items are similar to them."""
    kinds, kind_of = labels.distinct()
    members = np.split(np.argsort(kind_of, kind="stable"), np.cumsum(np.bincount(kind_of))[:-1])
    for start in range(0, len(kinds), _KINDS_AT_ONCE):
        alike = kinds.take(slice(start, start + _KINDS_AT_ONCE)).similar(kinds)
        yield from ((members[start + row], alike[row][kind_of]) for row in range(len(alike)))


def _draw(members: Items, pool: Items, count: int, sign: int, rng: np.random.Generator) -> _Drawn:
    """Pair every member with `count` random others, or with the whole smaller pool; no item with itself."""
    if len(pool) <= count:
        partners = np.tile(pool, len(members))
    else:
        partners = np.concatenate([pool[rng.choice(len(pool), count, replace=False, shuffle=False)] for _ in members])
    items = np.repeat(members, min(count, len(pool)))
    other = items != partners
    return items[other].astype(np.int32), partners[other].astype(np.int32), np.full(other.sum(), sign, np.int16)


def _grow_group(relation: Relation, left: NDArray[np.bool_], rng: np.random.Generator) -> Items:
    """Gather, from a random item on, those similar to it and then others that are left, as long as no pair clashes."""
    root = rng.choice(np.flatnonzero(left))
    candidates = np.concatenate([[root], _partners(relation, root, 1), rng.permutation(np.flatnonzero(left))])
    barred = np.zeros(len(left), np.bool_)
    group = []
    for item in candidates:
        if not barred[item]:
            group.append(item)
            barred[item] = True
            barred[_partners(relation, item, -1)] = True
    return np.sort(np.array(group, np.intp))


def _block(items: Items, entries: Relation) -> Block:
    """Find the pairs of some items in the numbered entries of a relation."""
    rows = entries[items]
    places = np.arange(len(items), dtype=rows.indices.dtype)
    place_of = np.full(entries.shape[0], -1, places.dtype)
    place_of[items] = places
    member, end = np.repeat(places, np.diff(rows.indptr)), place_of[rows.indices]
    inside, across = np.flatnonzero(end > member), np.flatnonzero(end < 0)
    pairs = rows.data[inside], member[inside], end[inside]
    return Block(items, *pairs, rows.data[across], member[across], rows.indices[across])


def _partners(relation: Relation, item: int, sign: int) -> NDArray[np.int32]:
    """Return the items that form a similar (+1) or dissimilar (-1) pair with one item."""
    row = slice(relation.indptr[item], relation.indptr[item + 1])
    partners: NDArray[np.int32] = relation.indices[row][np.sign(relation.data[row]) == sign]
    return partners


def load_maxflow() -> ModuleType:
    """Return PyMaxflow, or say how to get it."""
    try:
        return importlib.import_module("maxflow")
    except ModuleNotFoundError as error:
        raise DdshError("fasth needs PyMaxflow. Run: pip install 'ddsh[methods]'") from error
