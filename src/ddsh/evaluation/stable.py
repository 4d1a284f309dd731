"""Rankings that keep the order of the database within ties, as the authors' evaluation does."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.evaluation.metrics import APConvention, Floats
from ddsh.labels import Labels


@dataclass(frozen=True)
class StableRanking:
    """What is scored of a stable ranking.

    Parameters
    ----------
    average_precision : ndarray of float
        Average precision of each query.
    gains : ndarray of float, shape (2, n_database)
        Relevance at each rank, summed over queries: as it is, and as a share of each query's relevant items.
    """

    average_precision: Floats
    gains: Floats


def rank_stably(
    query_codes: BinaryCodes,
    query_labels: Labels,
    database_codes: BinaryCodes,
    database_labels: Labels,
    top_k: int | None,
    convention: APConvention,
) -> StableRanking:
    """Rank the database for each query, ties in database order, and score the rankings."""
    precisions = np.empty(len(query_codes))
    gains = np.zeros((2, len(database_codes)))
    label_sets, set_of = database_labels.distinct()
    for rows, distances in query_codes.hamming_blocks(database_codes):
        similar = query_labels.take(rows).similar(label_sets)
        for row, (row_distances, row_similar) in enumerate(zip(distances, similar, strict=True), rows.start):
            order = np.argsort(row_distances, kind="stable")
            places = np.flatnonzero(row_similar[set_of[order]])
            gains[0, places] += 1.0
            gains[1, places] += 1.0 / max(len(places), 1)
            precisions[row] = average_precision_of(places, top_k, convention)
    return StableRanking(precisions, gains)


def average_precision_of(places: NDArray[np.intp], top_k: int | None, convention: APConvention) -> float:
    """Return AP from the sorted places (from 0) of the relevant items."""
    found = places if top_k is None else places[places < top_k]
    divisor = len(found) if convention == "retrieved" or top_k is None else min(top_k, len(places))
    precisions = np.arange(1, len(found) + 1) / (found + 1)
    return float(precisions.sum() / max(divisor, 1))
