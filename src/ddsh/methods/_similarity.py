"""Weights of dissimilar pairs, and the options of the discrete step."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import UnknownName
from ddsh.labels import Labels, MultiLabels
from ddsh.methods._bqp import Context, Solver

__all__ = ["Dissimilar", "Multilabel", "Sampling", "Start", "check_choices", "dissimilar_weight", "similarity"]

Dissimilar: TypeAlias = Literal["minus-one", "balanced"]
"""S of dissimilar pairs: -1, or -r with r = similar / dissimilar pairs, so that both have equal total weight."""

Multilabel: TypeAlias = Literal["authors", "none", "jaccard", "cosine"]
"""S of multi-label items: 0 for dissimilar pairs that both have several labels, as in the authors' release; as for
single labels; or, for similar pairs, the share of their labels that they have in common (Jaccard or cosine)."""

Sampling: TypeAlias = Literal["random", "stratified"]
"""How Omega is drawn: at random, or with the share of each class."""

Start: TypeAlias = Literal["random", "cosdish", "labels"]
"""Codes before the first epoch: random, as in the authors' release, those of COSDISH, or those that the discrete step
learns from the labels alone."""

_CHOICES: Mapping[str, Any] = {
    "solver": Solver,
    "context": Context,
    "dissimilar": Dissimilar,
    "multilabel": Multilabel,
    "sampling": Sampling,
    "start": Start,
}


def similarity(rows: Labels, columns: Labels, *, dissimilar: Dissimilar, multilabel: Multilabel) -> NDArray[np.float64]:
    """Return the similarities S of items to the sampled items Omega.

    Parameters
    ----------
    rows, columns : Labels
        Of all items, and of Omega.
    dissimilar, multilabel
        See :data:`Dissimilar` and :data:`Multilabel`.
    """
    similar = rows.similar(columns)
    if multilabel in ("jaccard", "cosine") and isinstance(rows, MultiLabels):
        grades = rows.overlap(columns, multilabel)
        weight = 1.0
        if dissimilar == "balanced" and not similar.all():
            weight = float(grades.sum() / np.count_nonzero(~similar))
        return np.where(similar, grades, -weight)
    S = np.where(similar, 1.0, -dissimilar_weight(similar, dissimilar))
    if multilabel == "authors" and isinstance(rows, MultiLabels) and isinstance(columns, MultiLabels):
        several, others = np.diff(rows.matrix.indptr) > 1, np.diff(columns.matrix.indptr) > 1
        # Dissimilar pairs of two multi-label images are uninformative: the authors set S = 0.
        S[~similar & several[:, None] & others[None, :]] = 0.0
    return S


def dissimilar_weight(similar: NDArray[np.bool_], kind: Dissimilar) -> float:
    """Return the weight of a dissimilar pair: 1, or r; 1 if there are no dissimilar pairs."""
    share = float(similar.mean())
    return share / (1 - share) if kind == "balanced" and share < 1 else 1.0


def check_choices(**chosen: str) -> None:
    """Raise unless every choice, such as ``solver="local"``, is a known name."""
    for name, value in chosen.items():
        if value not in get_args(_CHOICES[name]):
            raise UnknownName(name, str(value), get_args(_CHOICES[name]))
