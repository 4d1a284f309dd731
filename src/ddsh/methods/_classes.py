"""Labels as a matrix of classes, and binary codes of classes."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.errors import InvalidInput
from ddsh.labels import Labels, PairLabels

if TYPE_CHECKING:
    ClassMatrix: TypeAlias = sparse.csc_array[Any]
else:
    ClassMatrix = sparse.csc_array

__all__ = ["ClassMatrix", "class_matrix", "hadamard", "hash_centres", "majority_vote"]

Signs: TypeAlias = NDArray[np.int8]

_N_DRAWS = 100


def class_matrix(labels: Labels, method: str) -> ClassMatrix:
    """Return the labels as a 0/1 matrix (n, n_classes), or raise."""
    if isinstance(labels, PairLabels):
        raise InvalidInput(
            f"{method} learns from classes, and pairs have none. Give a label per item or a 0/1 matrix, or use a method"
            " that takes pairs, such as ddsh."
        )
    if len(labels.distinct()[0]) < 2:
        raise InvalidInput(
            f"{method} needs at least two classes, but all {len(labels)} items have the same labels (one class only?)."
        )
    carriers = [np.flatnonzero(labels.having(label)) for label in labels.classes()]
    starts = np.cumsum([0, *map(len, carriers)])
    shape = len(labels), len(carriers)
    return sparse.csc_array((np.ones(starts[-1]), np.concatenate(carriers), starts), shape=shape)


def hadamard(side: int) -> Signs | None:
    """Return a matrix of -1 and +1 whose rows are orthogonal, or None where no construction is known here.

    Sylvester's construction doubles a matrix, Paley's first makes one of side p + 1 from the squares modulo a prime p
    that is 3 modulo 4; together they cover 1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 44, 48, 60, 64 and so on.
    """
    if side == 1:
        return np.ones((1, 1), np.int8)
    p = side - 1
    if p % 4 == 3 and all(p % factor for factor in range(3, int(p**0.5) + 1, 2)):
        squares = np.unique(np.arange(1, p) ** 2 % p)
        residues = np.where(np.isin((np.arange(p) - np.arange(p)[:, None]) % p, squares), 1, -1)
        matrix = np.ones((side, side), np.int8)
        matrix[1:, 1:] = residues
        matrix[np.arange(1, side), np.arange(1, side)] = -1
        return matrix
    half = hadamard(side // 2) if side % 2 == 0 else None
    return None if half is None else np.block([[half, half], [half, -half]])


def hash_centres(n_classes: int, n_bits: int, rng: np.random.Generator) -> Signs:
    """Return one code per class, far from each other, shape (n_classes, n_bits).

    Rows of a Hadamard matrix, each negated at random, differ in half of the bits; with their negatives there are twice
    as many. Where there is no such matrix, or too many classes, the best of several random sets is returned: half of
    the bits of each code are +1, and the smallest distance of two codes is as large as possible.
    """
    matrix = hadamard(n_bits)
    if matrix is not None and n_classes <= 2 * n_bits:
        order = np.argsort(rng.random(n_bits), kind="stable")
        rows = matrix[order] * rng.choice(np.array([-1, 1], np.int8), (n_bits, 1))
        return np.concatenate([rows, -rows])[:n_classes]
    best, best_gap = None, -1
    for _ in range(_N_DRAWS):
        places = np.argsort(rng.random((n_classes, n_bits)), axis=1)
        drawn = np.where(places < n_bits // 2, 1, -1).astype(np.int8)
        distances = (n_bits - drawn.astype(np.int64) @ drawn.T) // 2
        gap = int(distances[~np.eye(n_classes, dtype=np.bool_)].min(initial=n_bits))
        if gap > best_gap:
            best, best_gap = drawn, gap
    assert best is not None, "at least one set is drawn"
    return best


def majority_vote(classes: ClassMatrix, centres: Signs, rng: np.random.Generator) -> Signs:
    """Return the code of each item: the majority of its classes' centres, bit by bit.

    Ties take the bits of one random code, the same for all items, so that items with the same classes have the same
    code.
    """
    votes = classes @ centres.astype(np.float64)
    drawn = rng.choice(np.array([-1.0, 1.0]), votes.shape[1])
    return np.sign(np.where(votes == 0, drawn, votes)).astype(np.int8)
