"""From a method, a dataset and a protocol to a result: the one place where the query set is touched."""

import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

import ddsh
from ddsh.backbones.registry import BACKBONES
from ddsh.codes import BinaryCodes
from ddsh.datasets.base import Dataset
from ddsh.datasets.protocols import Protocol, Split
from ddsh.errors import InvalidInput
from ddsh.evaluation.examples import Examples, draw_examples
from ddsh.evaluation.health import BitHealth, Histogram, bit_health, histogram_of_outputs
from ddsh.evaluation.reranking import Reranked, score_reranked
from ddsh.evaluation.scores import Scores, score
from ddsh.images import SomeImages

if TYPE_CHECKING:
    from ddsh.methods.base import Hasher

_BLOCK_ROWS = 1024
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pillow", "torch")


class Extractor(Interface):
    """Turns images into features; a method that takes features may get them from it."""

    @property
    def name(self) -> str:
        """The network that the features come from."""
        ...

    @property
    def image_size(self) -> int:
        """Side of the images that it sees."""
        ...

    @property
    def checksum(self) -> str | None:
        """Of its pretrained weights, where it is known."""
        ...

    def extract(self, images: SomeImages) -> NDArray[np.float32]:
        """Return the features of images, shape (n, d)."""
        ...


@dataclass(frozen=True)
class Machine:
    """What a result was made on.

    Parameters
    ----------
    system, cpu : str
        Operating system and processor.
    cores : int
        Processor cores that may be used.
    memory : int
        Bytes.
    device : str
        Where networks ran, such as ``cpu``.
    """

    system: str
    cpu: str
    cores: int
    memory: int
    device: str


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
    weights : str or None
        Checksum of the network's pretrained weights, where it is known.
    image_size : int or None
        Side of the images that the network saw; None for pixels.
    seed : int
        Of the split.
    split : str
        The split's fingerprint.
    params : dict
        The method's parameters.
    scores : Scores
        How the query set did.
    bits : BitHealth
        How well the codes of the database use their bits.
    outputs : Histogram or None
        What the network puts out for the queries, after tanh; None for methods on features.
    examples : Examples or None
        A few queries with what they find, where they were asked for.
    reranked : Reranked or None
        The scores with real outputs beside the codes, where they were asked for.
    history : list of dict
        What each pass of a training brought; empty for methods that do not train in epochs.
    seconds : float
        Wall time of fitting, encoding and scoring.
    peak_memory : int or None
        Highest resident memory of the process so far, in bytes; None where the system does not say.
    versions : dict of str to str
        Python and the packages that matter.
    commit : str or None
        Of the code, where it is known.
    machine : Machine or None
        What it was made on, where it is known.
    """

    method: str
    n_bits: int
    dataset: str
    protocol: str
    network: str
    weights: str | None
    image_size: int | None
    seed: int
    split: str
    params: dict[str, Any]
    scores: Scores
    bits: BitHealth
    outputs: Histogram | None
    examples: Examples | None
    reranked: Reranked | None
    history: list[dict[str, Any]]
    seconds: float
    peak_memory: int | None
    versions: dict[str, str]
    commit: str | None = None
    machine: Machine | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        parts = ("bits", "outputs", "examples", "reranked", "machine")
        plain = {name: asdict(part) for name in parts if (part := getattr(self, name)) is not None}
        return vars(self) | plain | {"scores": self.scores.to_dict()}


def evaluate(
    hasher: "Hasher",
    dataset: Dataset,
    protocol: Protocol,
    seed: int,
    *,
    fit: Callable[..., Any] | None = None,
    extractor: Extractor | None = None,
    examples: bool = False,
    reranked: bool = False,
) -> Result:
    """Split, fit on train, encode query and database, and score once.

    Parameters
    ----------
    hasher : Hasher
        The method with its parameters; it is fitted here.
    dataset : Dataset
        The images; a method on features gets those of `extractor`, or their pixels, for which they must have one size.
    protocol : Protocol
        How to split, and how far down the ranking to look.
    seed : int
        Of the split.
    fit : callable, optional
        Called with (items, labels) in place of the method's own ``fit``, to show progress or keep checkpoints.
    extractor : Extractor, optional
        Where methods on features get them from.
    examples : bool
        Keep a few queries with the images that they find.
    reranked : bool
        Score also the ranking by real outputs.

    Returns
    -------
    Result
        With the split's fingerprint.
    """
    start = time.perf_counter()
    split = protocol.split(dataset, seed)
    (fit or hasher.fit)(items(hasher, dataset, split.train, extractor), dataset.labels.take(split.train))
    return score_fitted(hasher, dataset, split, start, extractor=extractor, examples=examples, reranked=reranked)


def score_fitted(
    hasher: "Hasher",
    dataset: Dataset,
    split: Split,
    start: float | None = None,
    *,
    extractor: Extractor | None = None,
    examples: bool = False,
    reranked: bool = False,
) -> Result:
    """Encode query and database with a fitted method and score them; time runs from `start`, or from now."""
    start = time.perf_counter() if start is None else start
    query_outputs = _project(hasher, dataset, split.query, extractor)
    outputs = query_outputs, _project(hasher, dataset, split.database, extractor)
    query, database = map(BinaryCodes.from_outputs, outputs)
    labels = dataset.labels.take(split.query), dataset.labels.take(split.database)
    network, image_size, weights = _network(hasher, extractor)
    return Result(
        method=hasher.card.name,
        n_bits=hasher.n_bits,
        dataset=dataset.name,
        protocol=split.protocol.name,
        network=network,
        weights=weights,
        image_size=image_size,
        seed=split.seed,
        split=split.fingerprint,
        params=hasher.describe_params(),
        scores=score(query, database, *labels, top_k=split.protocol.top_k),
        bits=bit_health(database, len(dataset.class_names)),
        outputs=histogram_of_outputs(query_outputs) if hasher.inputs == "images" else None,
        examples=draw_examples(dataset, split, query, database) if examples else None,
        reranked=score_reranked(*outputs, *labels, split.protocol.top_k) if reranked else None,
        history=getattr(hasher, "history_", []),
        seconds=time.perf_counter() - start,
        peak_memory=peak_memory(),
        versions=versions(),
    )


def _network(hasher: "Hasher", extractor: Extractor | None) -> tuple[str, int | None, str | None]:
    """Return the name of the network behind a method, the side of its images, and the checksum of its weights."""
    if hasher.inputs == "features":
        return (extractor.name, extractor.image_size, extractor.checksum) if extractor else ("pixels", None, None)
    params = network_params(hasher)
    name = str(params.get("network"))
    card = BACKBONES.get(name)
    own_size = card.image_size if card else getattr(hasher.get_params().get("network"), "image_size", None)
    return name, params.get("image_size") or own_size, card.sha256 if card else None


def network_params(hasher: "Hasher") -> dict[str, Any]:
    """Return the parameters among which a method names its network: its own, or those of a part of it."""
    described = hasher.describe_params()
    parts = (part for part in (described, *described.values()) if isinstance(part, dict) and "network" in part)
    return next(parts, {})


def _project(
    hasher: "Hasher", dataset: Dataset, rows: NDArray[np.int64], extractor: Extractor | None
) -> NDArray[np.floating[Any]]:
    return np.concatenate([hasher.project(block) for block in _blocks(hasher, dataset, rows, extractor)])


def encode_rows(
    hasher: "Hasher",
    dataset: Dataset,
    rows: NDArray[np.int64],
    on_progress: Callable[[int, int], None] | None = None,
    extractor: Extractor | None = None,
) -> BinaryCodes:
    """Return the codes of some images, made about a thousand at a time so that memory stays bounded."""
    parts: list[BinaryCodes] = []
    for block in _blocks(hasher, dataset, rows, extractor):
        parts.append(hasher.encode(block))
        if on_progress:
            on_progress(min(len(parts) * _BLOCK_ROWS, len(rows)), len(rows))
    return BinaryCodes.stack(parts)


def _blocks(
    hasher: "Hasher", dataset: Dataset, rows: NDArray[np.int64], extractor: Extractor | None
) -> Iterator[SomeImages | NDArray[np.float32]]:
    """Yield some images as the method takes them, about a thousand at a time."""
    for start in range(0, len(rows), _BLOCK_ROWS):
        yield items(hasher, dataset, rows[start : start + _BLOCK_ROWS], extractor)


def items(
    hasher: "Hasher", dataset: Dataset, rows: NDArray[np.int64], extractor: Extractor | None = None
) -> SomeImages | NDArray[np.float32]:
    """Return some images as the method takes them: as they are, their features, or their pixels as features."""
    images = SomeImages(dataset.images, rows)
    if hasher.inputs == "images":
        return images
    return extractor.extract(images) if extractor else pixels(dataset, rows)


def pixels(dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return images of one size as feature vectors: their pixels, 0 to 1."""
    images = dataset.images.take(rows)
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise InvalidInput(
            f"{dataset.name}: images have {len(shapes)} different sizes; their pixels are no features. Name a network."
        )
    return np.stack(list(images)).reshape(len(rows), -1).astype(np.float32) / np.float32(255)


def peak_memory() -> int | None:
    """Return the highest resident memory of this process so far, in bytes; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows keeps no such record
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a result depends on."""
    ours = {"ddsh": ddsh.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            ours[name] = version(name)
    return ours
