"""Weights of dissimilar pairs, and the options of the discrete step."""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import UnknownName
from ddsh.methods._bqp import Context, Solver

__all__ = ["Dissimilar", "check_choices", "dissimilar_weight"]

Dissimilar: TypeAlias = Literal["minus-one", "balanced"]
"""S of dissimilar pairs: -1, or -r with r = similar / dissimilar pairs, so that both have equal total weight."""


def dissimilar_weight(similar: NDArray[np.bool_], kind: Dissimilar) -> float:
    """Return the weight of a dissimilar pair: 1, or r; 1 if there are no dissimilar pairs."""
    share = float(similar.mean())
    return share / (1 - share) if kind == "balanced" and share < 1 else 1.0


def check_choices(solver: str, context: str, dissimilar: str) -> None:
    """Raise unless solver, context and dissimilar are known names."""
    for name, value, known in (
        ("solver", solver, Solver),
        ("context", context, Context),
        ("dissimilar", dissimilar, Dissimilar),
    ):
        if value not in get_args(known):
            raise UnknownName(name, str(value), get_args(known))
