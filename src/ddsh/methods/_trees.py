"""Boosted decision trees with LightGBM, one model per bit."""

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

__all__ = ["grow_trees", "load_lightgbm", "n_cores", "project_trees", "read_models"]

_FIXED: Mapping[str, Any] = {
    "objective": "binary",
    "verbosity": -1,
    # One thread per model: sums are then computed in the same order for any number of workers.
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
    """Fit one LightGBM model per column of `signs`.

    The result does not depend on the number of workers.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        The training items.
    signs : ndarray of -1 and +1, shape (n, n_bits)
        Their codes.
    n_trees : int
        Number of trees per bit.
    settings : mapping
        LightGBM's parameters of the trees and of the bins.
    seed : int
        Random seed of the features of each tree.
    n_workers : int, optional
        Bits learned in parallel; the number of processor cores by default.

    Returns
    -------
    tuple of str
        The model of each bit, in LightGBM's text format.
    """
    n_bits = signs.shape[1]
    # LightGBM takes seeds below 2^31.
    seeds = [int(state >> 1) for state in np.random.SeedSequence(seed).generate_state(n_bits)]
    n_shares = min(n_workers or n_cores(), n_bits)

    lightgbm = load_lightgbm()
    params = {**_FIXED, **settings}

    def grow(first: int) -> list[str]:
        """Return the models of one worker's bits."""
        # A LightGBM dataset holds one label vector, so workers cannot share it.
        binned = lightgbm.Dataset(features, params=params).construct()
        models = []
        for column, seed in zip(signs[:, first::n_shares].T, seeds[first::n_shares], strict=True):
            binned.set_label((column > 0).astype(np.float32))
            booster = lightgbm.train(params | {"feature_fraction_seed": seed}, binned, n_trees)
            models.append(booster.model_to_string())
        return models

    with ThreadPoolExecutor(n_shares) as pool:
        shares = list(pool.map(grow, range(n_shares)))
    return tuple(shares[bit % n_shares][bit // n_shares] for bit in range(n_bits))


def read_models(models: Sequence[str]) -> list[Any]:
    """Return the boosters of the texts of :func:`grow_trees`, or raise."""
    lightgbm = load_lightgbm()
    for bit, text in enumerate(models):
        # LightGBM aborts the process on a truncated text: check that every tree starts where the header says.
        sizes = re.search(r"^tree_sizes=([0-9 ]+)$", text, re.MULTILINE)
        given = map(int, sizes[1].split()) if sizes else ()
        *starts, end = accumulate(given, initial=text.find("\nTree=0\n") + 1)
        is_whole = all(text.startswith(f"Tree={number}\n", start) for number, start in enumerate(starts))
        if sizes is None or not is_whole or not text.startswith("end of trees\n", end):
            raise ArtefactError(
                f"The trees of bit {bit} are damaged: their sizes do not match the header; save the model again."
            )
    return [lightgbm.Booster(model_str=text) for text in models]


def project_trees(boosters: Sequence[Any], features: NDArray[np.float64], n_workers: int | None = None) -> Outputs:
    """Return the log-odds of every bit, shape (n, n_bits)."""
    n_threads = n_workers or n_cores()
    return np.stack([booster.predict(features, raw_score=True, num_threads=n_threads) for booster in boosters], axis=1)


def n_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # only on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_lightgbm() -> ModuleType:
    """Import LightGBM; raise with the command that installs it if it is missing."""
    try:
        return importlib.import_module("lightgbm")
    except ModuleNotFoundError as error:
        raise DdshError("Boosted trees need LightGBM. Run: pip install 'ddsh[methods]'") from error
