"""FastH: bits inferred by graph cuts, and predicted by boosted trees."""

import importlib
from collections.abc import Mapping, Sequence
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
"""Target distance of dissimilar items; see `MARGINS`."""

Signs: TypeAlias = NDArray[np.int8]
Items: TypeAlias = NDArray[np.integer[Any]]
Weights: TypeAlias = NDArray[np.float64]
Relation: TypeAlias = "sparse.csr_array[Any]"
"""Sampled pairs, symmetric: 1 + d for a similar pair, -(1 + d) for a dissimilar one, d their distance so far."""

MARGINS: Mapping[str, float] = {"hinge": 0.5, "ksh": 1.0}
"""Fraction of the bits in which dissimilar items should differ, by loss."""

_Drawn: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]
_KINDS_AT_ONCE = 256


class FastH(TwoStepHasher):
    """Fast supervised hashing.

    Bits are inferred from similarities by block-wise graph cuts, and predicted by boosted trees.

    Parameters
    ----------
    n_bits : int
        Code length.
    loss : {"hinge", "ksh"}
        With ``"hinge"`` dissimilar items should differ in half of the bits, with ``"ksh"`` in all of them (the L2 loss
        on inner products).
    n_similar : int
        Similar items sampled per item; memory and time grow with the sampled pairs only.
    n_dissimilar : int
        Dissimilar items sampled per item.
    n_rounds : int
        Rounds over all blocks per bit.
    extension : {"trees", "linear", "kernel", "cnn"} or Extension
        Model that predicts the codes; the paper's is ``"trees"``.
    seed : int
        Random seed of the sampled pairs, the order of the blocks, and the extension.

    References
    ----------
    Lin, G., Shen, C., Shi, Q., van den Hengel, A. and Suter, D. "Fast Supervised Hashing with Decision Trees for
    High-Dimensional Data." CVPR 2014. Lin, G., Shen, C. and van den Hengel, A. "Supervised Hashing Using Graph Cuts
    and Boosted Decision Trees." TPAMI 2015. Numbers of pairs and rounds are those of the authors' demonstration.
    Differs from the paper in inferring all bits before the first tree is grown, so that a bit corrects the errors of
    the inferred bits before it, not of those that trees predict; in equal weights of all items in the trees, where the
    paper sums the weights of an item's pairs; and in LightGBM's gradient boosting instead of AdaBoost.
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

    def learn_codes(self, labels: Labels) -> Signs:
        """Return codes of -1 and +1 for the labelled items, shape (n, n_bits)."""
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
    """Sample similar and dissimilar pairs of every item, at distance 0.

    Parameters
    ----------
    labels : Labels
        Labels of n items.
    n_similar, n_dissimilar : int
        Pairs sampled per item, at most; an item may have more, since every pair counts for both of its items.
    rng : numpy Generator
        Source of randomness.

    Returns
    -------
    sparse array of int16, shape (n, n)
        +1 for a similar pair, -1 for a dissimilar one, symmetric.
    """
    drawn: list[_Drawn] = []
    kinds, kind_of = labels.distinct()
    members = np.split(np.argsort(kind_of, kind="stable"), np.cumsum(np.bincount(kind_of))[:-1])
    for start in range(0, len(kinds), _KINDS_AT_ONCE):
        similar = kinds.take(slice(start, start + _KINDS_AT_ONCE)).similar(kinds)
        for row in range(len(similar)):
            alike, items = similar[row][kind_of], members[start + row]
            # A matrix of pairs may have a pair one way only; since 2 - 1 is above zero, it counts as similar both ways.
            drawn.append(_draw(items, np.flatnonzero(alike), n_similar, 2, rng))
            drawn.append(_draw(items, np.flatnonzero(~alike), n_dissimilar, -1, rng))
    firsts, partners, signs = (np.concatenate(part) for part in zip(*drawn, strict=True))
    one_way = sparse.csr_array((signs, (firsts, partners)), shape=(len(labels), len(labels)))
    both_ways = sparse.csr_array(one_way + one_way.T)
    return _with_data(both_ways, np.sign(both_ways.data))


def build_groups(labels: Labels, relation: Relation, rng: np.random.Generator) -> list[Items]:
    """Return groups of items without a dissimilar pair.

    Groups may overlap, and every item is in at least one. A class is a group; items without a class (or all items, if
    similarity is given by pairs) are grouped greedily.
    """
    groups: list[Items] = [np.flatnonzero(labels.having(label)) for label in labels.classes()]
    left = np.ones(len(labels), np.bool_)
    for group in groups:
        left[group] = False
    while left.any():
        # From a random item on, add the items similar to it and then others, as long as no pair is dissimilar.
        root = rng.choice(np.flatnonzero(left))
        candidates = np.concatenate([[root], _partners(relation, root, 1), rng.permutation(np.flatnonzero(left))])
        barred = np.zeros(len(left), np.bool_)
        members = []
        for item in candidates:
            if not barred[item]:
                members.append(item)
                barred[item] = True
                barred[_partners(relation, item, -1)] = True
        groups.append(np.sort(np.array(members, np.intp)))
        left[groups[-1]] = False
    return groups


@dataclass(frozen=True)
class Block:
    """Items that are solved together, with the entries of their pairs.

    Parameters
    ----------
    items : ndarray of int, shape (m,)
        Row numbers.
    inside, first, second : ndarray of int
        Pairs inside the block, each once: entries in the relation, and both ends as positions in `items`.
    across, member, other : ndarray of int
        Pairs with items outside: entries in the relation, the end inside as a position in `items`, and the row number
        of the other end.
    """

    items: Items
    inside: Items
    first: Items
    second: Items
    across: Items
    member: Items
    other: Items


def build_blocks(groups: Sequence[Items], relation: Relation) -> list[Block]:
    """Return a block with the pairs of each group."""
    entries = _with_data(relation, np.arange(relation.nnz, dtype=relation.indices.dtype))
    blocks = []
    for items in groups:
        rows = entries[items]
        places = np.arange(len(items), dtype=rows.indices.dtype)
        place_of = np.full(entries.shape[0], -1, places.dtype)
        place_of[items] = places
        member, end = np.repeat(places, np.diff(rows.indptr)), place_of[rows.indices]
        inside, across = np.flatnonzero(end > member), np.flatnonzero(end < 0)
        pairs = rows.data[inside], member[inside], end[inside]
        blocks.append(Block(items, *pairs, rows.data[across], member[across], rows.indices[across]))
    return blocks


def pair_weights(relation: Relation, n_known: int, margin: float) -> Weights:
    """Return the decrease of the loss of each pair if its items differ in the next bit.

    At bit r, the loss of a similar pair is d^2 and that of a dissimilar one max(m r - d, 0)^2, d their distance.

    Parameters
    ----------
    relation : sparse array
        The pairs and their distances in the known bits.
    n_known : int
        Number of known bits, r - 1.
    margin : float
        Fraction m of the bits in which dissimilar items should differ.

    Returns
    -------
    ndarray
        Weight of each entry of the relation: negative for similar pairs, never negative for dissimilar ones.
    """
    distance = np.arange(n_known + 2.0)
    similar = -np.diff(np.square(distance))
    dissimilar = -np.diff(np.square(np.maximum(margin * (n_known + 1) - distance, 0)))
    # The weight of entry s is at index s; negative ones count from the end.
    weights: Weights = np.concatenate([[0], similar, dissimilar[::-1]])[relation.data]
    return weights


def infer_bit(weights: Weights, blocks: Sequence[Block], bit: Signs, rng: np.random.Generator) -> Signs:
    """Decrease the sum of w_ij b_i b_j over all pairs by block coordinate descent.

    Each block is solved once, exactly, in random order.

    Parameters
    ----------
    weights : ndarray
        Weight w of each entry of a relation, never positive inside a block.
    blocks : sequence of Block
        Items that are solved together.
    bit : ndarray of -1 and +1, shape (n,)
        Starting point; not modified.
    rng : numpy Generator
        Source of randomness.

    Returns
    -------
    ndarray of int8, shape (n,)
        The bit of every item, never worse than the starting point.
    """
    better = bit.copy()
    for number in rng.permutation(len(blocks)):
        block = blocks[number]
        pulls = weights[block.across] * better[block.other]
        pull = np.bincount(block.member, pulls, len(block.items)).astype(np.float64)
        better[block.items] = cut(block.first, block.second, -weights[block.inside], pull)
    return better


def cut(first: Items, second: Items, capacity: Weights, pull: Weights) -> Signs:
    """Minimise pull'b - sum of capacity * b_first b_second over b in {-1, +1}^m.

    The minimum is exact.

    Parameters
    ----------
    first, second : ndarray of int
        The pairs, each once.
    capacity : ndarray
        Capacity of each pair, not negative, which makes the problem submodular.
    pull : ndarray, shape (m,)
        The linear term.

    Returns
    -------
    ndarray of int8, shape (m,)
        Vector of -1 and +1.
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
    """Return the relation with distances updated by one more bit."""
    differs = np.repeat(bit, np.diff(relation.indptr)) != bit[relation.indices]
    return _with_data(relation, relation.data + np.sign(relation.data) * differs)


def _with_data(relation: Relation, data: NDArray[Any]) -> Relation:
    """Return a relation of the same pairs with other data."""
    return sparse.csr_array((data, relation.indices, relation.indptr), shape=relation.shape)


def _draw(members: Items, pool: Items, count: int, sign: int, rng: np.random.Generator) -> _Drawn:
    """Pair every member with `count` random items of `pool`, never with itself."""
    if len(pool) <= count:
        partners = np.tile(pool, len(members))
    else:
        partners = np.concatenate([pool[rng.choice(len(pool), count, replace=False, shuffle=False)] for _ in members])
    items = np.repeat(members, min(count, len(pool)))
    other = items != partners
    return items[other].astype(np.int32), partners[other].astype(np.int32), np.full(other.sum(), sign, np.int16)


def _partners(relation: Relation, item: int, sign: int) -> NDArray[np.int32]:
    """Return the items in a similar (+1) or dissimilar (-1) pair with `item`."""
    row = slice(relation.indptr[item], relation.indptr[item + 1])
    partners: NDArray[np.int32] = relation.indices[row][np.sign(relation.data[row]) == sign]
    return partners


def load_maxflow() -> ModuleType:
    """Import PyMaxflow; raise with the command that installs it if it is missing."""
    try:
        return importlib.import_module("maxflow")
    except ModuleNotFoundError as error:
        raise DdshError("fasth needs PyMaxflow. Run: pip install 'ddsh[methods]'") from error
