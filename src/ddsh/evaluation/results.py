"""From a method, a dataset and a protocol to a result: the one place where the query set is touched."""

import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import ddsh
from ddsh.codes import BinaryCodes
from ddsh.datasets.dataset import Dataset
from ddsh.datasets.images import SomeImages
from ddsh.datasets.protocols import Protocol, Split
from ddsh.errors import InvalidInput
from ddsh.evaluation.scores import Scores, score

if TYPE_CHECKING:
    from ddsh.base import Hasher

_BLOCK_ROWS = 1024
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pillow", "torch")


@dataclass(frozen=True)
class Result:
    """One run of one method, with all that is needed to make it again.

    Parameters
    ----------
    method : str
        The method's name.
    n_bits : int
        Code length.
    dataset, protocol : str
        What it was run on, and how it was split.
    network : str
        Where the features come from; ``pixels`` for the images themselves.
    seed : int
        Of the split.
    split : str
        The split's fingerprint.
    params : dict
        The method's parameters.
    scores : Scores
        How the query set did.
    history : list of dict
        What each pass of a training brought; empty for methods that do not train in passes.
    seconds : float
        Wall time of fitting, encoding and scoring.
    versions : dict of str to str
        Python and the packages that matter.
    """

    method: str
    n_bits: int
    dataset: str
    protocol: str
    network: str
    seed: int
    split: str
    params: dict[str, Any]
    scores: Scores
    history: list[dict[str, Any]]
    seconds: float
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return vars(self) | {"scores": self.scores.to_dict()}


def evaluate(
    hasher: "Hasher", dataset: Dataset, protocol: Protocol, seed: int, *, fit: Callable[..., Any] | None = None
) -> Result:
    """Split, fit on train, encode query and database, and score once.

    Parameters
    ----------
    hasher : Hasher
        The method with its parameters; it is fitted here.
    dataset : Dataset
        The images; for a method that takes features they must have one size, and their pixels are the features.
    protocol : Protocol
        How to split, and how far down the ranking to look.
    seed : int
        Of the split.
    fit : callable, optional
        Called with (items, labels) in place of the method's own ``fit``, to show progress or keep checkpoints.

    Returns
    -------
    Result
        With the split's fingerprint.
    """
    start = time.perf_counter()
    split = protocol.split(dataset, seed)
    (fit or hasher.fit)(items(hasher, dataset, split.train), dataset.labels.take(split.train))
    return score_fitted(hasher, dataset, split, start)


def score_fitted(hasher: "Hasher", dataset: Dataset, split: Split, start: float | None = None) -> Result:
    """Encode query and database with a fitted method and score them; time runs from `start`, or from now."""
    start = time.perf_counter() if start is None else start
    scores = score(
        encode_rows(hasher, dataset, split.query),
        encode_rows(hasher, dataset, split.database),
        dataset.labels.take(split.query),
        dataset.labels.take(split.database),
        top_k=split.protocol.top_k,
    )
    params = hasher.describe_params()
    return Result(
        method=hasher.card.name,
        n_bits=hasher.n_bits,
        dataset=dataset.name,
        protocol=split.protocol.name,
        network=params.get("network", "pixels"),
        seed=split.seed,
        split=split.fingerprint,
        params=params,
        scores=scores,
        history=getattr(hasher, "history_", []),
        seconds=time.perf_counter() - start,
        versions=versions(),
    )


def encode_rows(
    hasher: "Hasher",
    dataset: Dataset,
    rows: NDArray[np.int64],
    on_progress: Callable[[int, int], None] | None = None,
) -> BinaryCodes:
    """Return the codes of some images, made about a thousand at a time so that memory stays bounded."""
    parts = []
    for start in range(0, len(rows), _BLOCK_ROWS):
        parts.append(hasher.encode(items(hasher, dataset, rows[start : start + _BLOCK_ROWS])))
        if on_progress:
            on_progress(min(start + _BLOCK_ROWS, len(rows)), len(rows))
    return BinaryCodes.stack(parts)


def items(hasher: "Hasher", dataset: Dataset, rows: NDArray[np.int64]) -> SomeImages | NDArray[np.float32]:
    """Return some images as the method takes them: as they are, or their pixels as features."""
    return SomeImages(dataset.images, rows) if hasher.card.inputs == "images" else pixels(dataset, rows)


def pixels(dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return images of one size as feature vectors: their pixels, 0 to 1."""
    images = dataset.images.take(rows)
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise InvalidInput(f"{dataset.name}: images have {len(shapes)} different sizes; their pixels are no features.")
    return np.stack(list(images)).reshape(len(rows), -1).astype(np.float32) / np.float32(255)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a result depends on."""
    ours = {"ddsh": ddsh.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            ours[name] = version(name)
    return ours
