"""How similar pairs and dissimilar ones weigh against each other."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Dissimilar: TypeAlias = Literal["minus-one", "balanced"]
"""S of dissimilar pairs: -1, or -r with r = similar / dissimilar pairs, so that both weigh the same."""


def dissimilar_weight(similar: NDArray[np.bool_], kind: Dissimilar) -> float:
    """Return how much a dissimilar pair weighs beside a similar one: 1, or r; 1 where there are no dissimilar pairs."""
    share = float(similar.mean())
    return share / (1 - share) if kind == "balanced" and share < 1 else 1.0
