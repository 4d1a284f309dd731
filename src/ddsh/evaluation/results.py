"""From a method, a dataset and a protocol to a result: the one place where the query set is touched."""

import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import ddsh
from ddsh.codes import BinaryCodes
from ddsh.datasets.dataset import Dataset
from ddsh.datasets.protocols import Protocol
from ddsh.errors import InvalidInput
from ddsh.evaluation.scores import Scores, score

if TYPE_CHECKING:
    from ddsh.base import Hasher

_BLOCK_ROWS = 4096
_PACKAGES = ("numpy", "scipy", "scikit-learn")


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
    seconds: float
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return vars(self) | {"scores": self.scores.to_dict()}


def evaluate(hasher: "Hasher", dataset: Dataset, protocol: Protocol, seed: int) -> Result:
    """Split, fit on train, encode query and database, and score once.

    Parameters
    ----------
    hasher : Hasher
        The method with its parameters; it is fitted here.
    dataset : Dataset
        Images of one size: their pixels are the features.
    protocol : Protocol
        How to split, and how far down the ranking to look.
    seed : int
        Of the split.

    Returns
    -------
    Result
        With the split's fingerprint.
    """
    start = time.perf_counter()
    split = protocol.split(dataset, seed)
    hasher.fit(pixels(dataset, split.train), dataset.labels.take(split.train))
    scores = score(
        encode_rows(hasher, dataset, split.query),
        encode_rows(hasher, dataset, split.database),
        dataset.labels.take(split.query),
        dataset.labels.take(split.database),
        top_k=protocol.top_k,
    )
    return Result(
        method=hasher.card.name,
        n_bits=hasher.n_bits,
        dataset=dataset.name,
        protocol=protocol.name,
        network="pixels",
        seed=seed,
        split=split.fingerprint,
        params=hasher.get_params(),
        scores=scores,
        seconds=time.perf_counter() - start,
        versions=versions(),
    )


def encode_rows(hasher: "Hasher", dataset: Dataset, rows: NDArray[np.int64]) -> BinaryCodes:
    """Return the codes of some images, made a few thousand at a time so that memory stays bounded."""
    blocks = [rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS)]
    return BinaryCodes.stack([hasher.encode(pixels(dataset, block)) for block in blocks])


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
    return ours | {name: version(name) for name in _PACKAGES}
