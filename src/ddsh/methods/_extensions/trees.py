"""Extension ``trees``: boosted decision trees."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ddsh.errors import InvalidInput
from ddsh.methods._extensions.base import Arrays, Extension, Features, FitOptions, Learned, Signs, check_positive
from ddsh.methods._trees import grow_trees, project_trees, read_models
from ddsh.methods.base import Outputs

__all__ = ["Forest", "Trees"]


@dataclass(frozen=True)
class Trees(Extension):
    """Boosted decision trees per bit, by LightGBM.

    Parameters
    ----------
    n_trees : int
        Number of trees per bit.
    n_leaves : int
        Maximum number of leaves of a tree.
    learning_rate : float
        Shrinkage of each tree.
    max_features : int
        Number of features drawn at random for each tree; all, if there are fewer.
    n_bins : int
        Maximum number of bins of a feature.
    min_leaf : int
        Minimum number of training items in a leaf.
    n_workers : int, optional
        Bits learned in parallel, the number of cores by default; the result does not depend on it.
    """

    kind = "trees"
    n_trees: int = 400
    n_leaves: int = 16
    learning_rate: float = 0.1
    max_features: int = 64
    n_bins: int = 31
    min_leaf: int = 10
    n_workers: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive(self, "n_trees", "learning_rate", "max_features", "min_leaf")
        if min(self.n_leaves, self.n_bins) < 2:
            raise InvalidInput(f"n_leaves and n_bins must be at least 2; got {self.n_leaves}, {self.n_bins}.")
        if self.n_workers is not None:
            check_positive(self, "n_workers")

    def learn(self, items: Features, signs: Signs, *, seed: int, options: FitOptions) -> "Forest":
        """Grow the trees of every bit."""
        settings = {
            "num_leaves": self.n_leaves,
            "learning_rate": self.learning_rate,
            "feature_fraction": min(1.0, self.max_features / items.shape[1]),
            "max_bin": self.n_bins,
            "min_data_in_leaf": self.min_leaf,
        }
        models = grow_trees(items, signs, n_trees=self.n_trees, settings=settings, seed=seed, n_workers=self.n_workers)
        return Forest(models, self.n_workers)

    def restore(self, arrays: Arrays) -> "Forest":
        """Return the forest from its arrays."""
        texts = (arrays[_model_name(bit)].tobytes().decode() for bit in range(len(arrays)))
        return Forest(tuple(texts), self.n_workers)

    def describe(self) -> dict[str, Any]:
        """Return kind and parameters as plain JSON, without the number of workers."""
        return {name: value for name, value in super().describe().items() if name != "n_workers"}


@dataclass(frozen=True)
class Forest(Learned):
    """Boosted decision trees of all bits.

    Parameters
    ----------
    models : tuple of str
        Models in LightGBM's text format, one per bit.
    n_workers : int, optional
        Threads for prediction; the number of cores by default.
    """

    models: tuple[str, ...]
    n_workers: int | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._boosters[0].num_feature())

    def project(self, items: Features) -> Outputs:
        """Return the log-odds of each bit."""
        return project_trees(self._boosters, items, self.n_workers)

    def to_arrays(self) -> Arrays:
        """Return the models as bytes."""
        return {_model_name(bit): np.frombuffer(text.encode(), np.uint8) for bit, text in enumerate(self.models)}

    @cached_property
    def _boosters(self) -> list[Any]:
        return read_models(self.models)


def _model_name(bit: int) -> str:
    return f"bit{bit:04}"
