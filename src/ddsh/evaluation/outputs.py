"""Histogram of real outputs, and scores of rankings by real outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.evaluation.metrics import average_precision_of
from ddsh.index.rerank import Outputs, similarity_to, similarity_to_codes, to_half
from ddsh.labels import Labels

__all__ = ["Histogram", "Reranked", "histogram_of_outputs", "score_reranked"]

N_BINS = 50
_Similarity = Callable[[Outputs], NDArray[np.floating]]


@dataclass(frozen=True)
class Histogram:
    """Histogram of values.

    Parameters
    ----------
    edges : list of float
        Edges of the bins, ascending; one more than `counts`.
    counts : list of int
        Number of values in each bin.
    """

    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class Reranked:
    """Mean average precision of rankings by real outputs.

    Parameters
    ----------
    map_by_codes : float
        Real outputs of the queries against codes of the database.
    map_by_outputs : float
        Real outputs of the queries against real outputs of the database, stored as float16.
    """

    map_by_codes: float
    map_by_outputs: float


def score_reranked(
    query: Outputs, database: Outputs, query_labels: Labels, database_labels: Labels, top_k: int | None
) -> Reranked:
    """Rank the database by real outputs and score the ranking.

    Ties, which are rare, keep the order of the database.

    Parameters
    ----------
    query, database : ndarray, shape (n, n_bits)
        Real outputs.
    query_labels, database_labels : Labels
        Their labels.
    top_k : int, optional
        Score only the first `top_k` items.
    """
    codes, kept = BinaryCodes.from_outputs(database), to_half(database).astype(np.float32)
    ways: tuple[_Similarity, ...] = (
        lambda asked: similarity_to_codes(asked, codes),
        lambda asked: similarity_to(asked, kept),
    )
    label_sets, set_of = database_labels.distinct()
    precisions = np.empty((len(query), len(ways)))
    for row, asked in enumerate(query):
        similar = query_labels.take(np.array([row])).similar(label_sets)[0][set_of]
        for way, similarity in enumerate(ways):
            order = np.argsort(-similarity(asked), kind="stable")
            precisions[row, way] = average_precision_of(np.flatnonzero(similar[order]), top_k, "retrieved")
    return Reranked(*precisions.mean(axis=0).tolist())


def histogram_of_outputs(outputs: NDArray[np.floating[Any]]) -> Histogram:
    """Return the histogram of outputs after tanh, from -1 to 1."""
    counts, edges = np.histogram(np.tanh(outputs.astype(np.float64)), bins=N_BINS, range=(-1.0, 1.0))
    return Histogram(edges.tolist(), counts.tolist())
