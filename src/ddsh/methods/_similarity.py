"""How codes are learned from pairs: what similar and dissimilar ones weigh, and the choices of the discrete step."""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import UnknownName
from ddsh.methods._bqp import Context, Solver

Dissimilar: TypeAlias = Literal["minus-one", "balanced"]
"""S of dissimilar pairs: -1, or -r with r = similar / dissimilar pairs, so that both weigh the same."""


def dissimilar_weight(similar: NDArray[np.bool_], kind: Dissimilar) -> float:
    """Return how much a dissimilar pair weighs beside a similar one: 1, or r; 1 where there are no dissimilar pairs."""
    share = float(similar.mean())
    return share / (1 - share) if kind == "balanced" and share < 1 else 1.0


def check_choices(solver: str, context: str, dissimilar: str) -> None:
    """Raise unless all three choices of the discrete step are known."""
    for name, value, known in (
        ("solver", solver, Solver),
        ("context", context, Context),
        ("dissimilar", dissimilar, Dissimilar),
    ):
        if value not in get_args(known):
            raise UnknownName(name, str(value), get_args(known))
