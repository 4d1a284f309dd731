"""Codes learned from labels alone, without images."""

# ruff: noqa: N803 -- arguments carry the paper's letters

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.labels import Labels
from ddsh.methods._bqp import Signs, code_omega

__all__ = ["codes_of_labels"]

_MOST_SETS = 2000
_SWEEPS = 20


def codes_of_labels(
    labels: Labels,
    n_bits: int,
    similarity: Callable[[Labels, Labels], NDArray[np.float64]],
    rng: np.random.Generator,
) -> Signs:
    """Learn one code for each label set, by 1-flip descent on the loss of all pairs.

    Images with equal labels cannot be told apart by similarities, so their sets are coded instead of a sample of them:
    the discrete step with the most frequent sets as Omega, without Gamma, and all other bits fixed while one is
    solved. A pair of sets counts with the square root of its number of pairs of images, so that rare sets are told
    apart, too. Where the descent ends depends on the random codes it begins with, most of all with few sets; the best
    of up to ten attempts is taken. Sets beyond the 2,000 most frequent get the signs of S times their codes.

    Parameters
    ----------
    labels : Labels
        Labels of the images.
    n_bits : int
        Code length.
    similarity : callable
        S between the rows of two label objects.
    rng : numpy Generator
        Source of randomness.

    Returns
    -------
    ndarray of -1 and +1, shape (n, n_bits)
        The code of each image.
    """
    sets, groups = labels.distinct()
    counts = np.bincount(groups)
    by_count = np.argsort(-counts, kind="stable")
    frequent, rare = by_count[:_MOST_SETS], by_count[_MOST_SETS:]
    weights = np.sqrt(counts[frequent] / counts.max())
    S = similarity(sets.take(frequent), sets.take(frequent))
    n_attempts = min(10, max(1, 1000 // len(S)))
    best = min((_descend(S, weights, n_bits, rng) for _ in range(n_attempts)), key=lambda one: _loss(one, S, weights))
    codes = rng.choice(np.array([-1, 1], np.int8), (len(sets), n_bits))
    codes[frequent] = best
    if len(rare):
        pull = similarity(sets.take(rare), sets.take(frequent))
        known = (pull > 0).any(axis=1)  # a set unlike all others keeps a random code
        codes[rare[known]] = np.where((pull[known] * weights) @ best > 0, 1, -1)
    return codes[groups]


def _descend(S: NDArray[np.float64], weights: NDArray[Any], n_bits: int, rng: np.random.Generator) -> Signs:
    """Return codes that no change of one bit of one code improves, or those after 20 rounds."""
    codes = rng.choice(np.array([-1, 1], np.int8), (len(S), n_bits))
    nobody, nothing = np.empty((0, n_bits)), np.empty((0, len(S)))
    for _ in range(_SWEEPS):
        before = codes
        codes = code_omega(codes, nobody, S, nothing, solver="local", context="others", weights=weights, rng=rng)
        if np.array_equal(codes, before):
            break
    return codes


def _loss(codes: Signs, S: NDArray[np.float64], weights: NDArray[Any]) -> float:
    inner = codes.astype(np.float64) @ codes.T
    return float(weights @ np.square(codes.shape[1] * S - inner) @ weights)
