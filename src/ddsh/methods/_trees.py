"""Boosted decision trees that predict the bits of a code from features, one LightGBM model per bit."""

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import ArtefactError, DdshError
from ddsh.methods.base import Outputs

_FIXED: Mapping[str, Any] = {
    "objective": "binary",
    "verbosity": -1,
    # One thread a model: sums are then always added in the same order, however many models grow side by side.
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
}


def grow_trees(
    features: NDArray[np.float64],
    signs: NDArray[np.int8],
    *,
    n_trees: int,
    settings: Mapping[str, Any],
    seed: int,
    n_workers: int | None = None,
) -> tuple[str, ...]:
    """Learn every column of `signs` from `features`; the result does not depend on the number of workers.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        The training items.
    signs : ndarray of -1 and +1, shape (n, n_bits)
        Their codes.
    n_trees : int
        Trees for each bit.
    settings : mapping
        LightGBM's parameters of the trees and of the bins.
    seed : int
        Of the features that each tree sees.
    n_workers : int, optional
        Bits learned at the same time, as many as there are processor cores if not given.

    Returns
    -------
    tuple of str
        The model of each bit, in LightGBM's text format.
    """
    n_bits = signs.shape[1]
    # LightGBM takes seeds below 2^31.
    seeds = [int(state >> 1) for state in np.random.SeedSequence(seed).generate_state(n_bits)]
    n_shares = min(n_workers or n_cores(), n_bits)

    def grow(first: int) -> list[str]:
        """Grow the trees of every bit of a share."""
        return _grow_some(features, signs[:, first::n_shares], n_trees, settings, seeds[first::n_shares])

    with ThreadPoolExecutor(n_shares) as pool:
        shares = list(pool.map(grow, range(n_shares)))
    return tuple(shares[bit % n_shares][bit // n_shares] for bit in range(n_bits))


def _grow_some(
    features: NDArray[np.float64], signs: NDArray[np.int8], n_trees: int, settings: Mapping[str, Any], seeds: list[int]
) -> list[str]:
    """Return the models of some bits, learned one after the other."""
    lightgbm = load_lightgbm()
    params = {**_FIXED, **settings}
    # A data set holds one label at a time, so that workers cannot share it.
    binned = lightgbm.Dataset(features, params=params).construct()
    models = []
    for column, seed in zip(signs.T, seeds, strict=True):
        binned.set_label((column > 0).astype(np.float32))
        booster = lightgbm.train(params | {"feature_fraction_seed": seed}, binned, n_trees)
        models.append(booster.model_to_string())
    return models


def read_models(models: Sequence[str]) -> list[Any]:
    """Return the boosters that texts of :func:`grow_trees` describe, or raise."""
    lightgbm = load_lightgbm()
    for bit, text in enumerate(models):
        if not _is_whole(text):
            raise ArtefactError(
                f"The trees of bit {bit} are damaged: their sizes are not as they say; save them again."
            )
    return [lightgbm.Booster(model_str=text) for text in models]


def _is_whole(text: str) -> bool:
    """Return whether every tree is where the header says: LightGBM ends the process over a text that is cut short."""
    sizes = re.search(r"^tree_sizes=([0-9 ]+)$", text, re.MULTILINE)
    if sizes is None:
        return False
    *starts, end = accumulate(map(int, sizes[1].split()), initial=text.find("\nTree=0\n") + 1)
    trees_are_there = all(text.startswith(f"Tree={number}\n", start) for number, start in enumerate(starts))
    return trees_are_there and text.startswith("end of trees\n", end)


def project_trees(boosters: Sequence[Any], features: NDArray[np.float64], n_workers: int | None = None) -> Outputs:
    """Return the log-odds of every bit, shape (n, n_bits)."""
    n_threads = n_workers or n_cores()
    return np.stack([booster.predict(features, raw_score=True, num_threads=n_threads) for booster in boosters], axis=1)


def n_cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux alone can bind a process to some of the cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_lightgbm() -> ModuleType:
    """Return the LightGBM package, or say how to get it."""
    try:
        return importlib.import_module("lightgbm")
    except ModuleNotFoundError as error:
        raise DdshError("Boosted trees need LightGBM. Run: pip install 'ddsh[methods]'") from error
