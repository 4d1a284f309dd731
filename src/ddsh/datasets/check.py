"""A look at a whole dataset: counts, sizes, broken files, and images that are both query and database."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ddsh.datasets.dataset import Dataset, Skipped
from ddsh.datasets.protocols import Protocol, Split
from ddsh.errors import BrokenImage, DataError
from ddsh.images import Image


@dataclass(frozen=True)
class DatasetReport:
    """What :func:`check` found.

    Parameters
    ----------
    name : str
        The dataset.
    n_images : int
        Images of the dataset.
    n_readable : int
        How many of them could be read.
    class_counts : dict of str to int
        Images of each class.
    labels_per_image : float
        Mean number of labels.
    sizes : dict of str to int
        Images of each size ``width x height``, most frequent first.
    broken : tuple of Skipped
        Files that cannot be used, and why.
    n_duplicates : int
        Images that are pixel for pixel equal to an earlier one.
    shared : tuple of (str, str)
        Pairs of a query and a database image that are pixel for pixel equal, or one and the same.
    protocol, seed : str, int
        The split that was looked at.
    split : str or None
        Its fingerprint, or None if the dataset cannot be split so.
    no_split : str or None
        Why it cannot.
    """

    name: str
    n_images: int
    n_readable: int
    class_counts: dict[str, int]
    labels_per_image: float
    sizes: dict[str, int]
    broken: tuple[Skipped, ...]
    n_duplicates: int
    shared: tuple[tuple[str, str], ...]
    protocol: str
    seed: int
    split: str | None
    no_split: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return asdict(self)


def check(
    dataset: Dataset, protocol: Protocol, seed: int = 0, on_progress: Callable[[int, int], None] | None = None
) -> DatasetReport:
    """Read every image once and report what is there.

    Parameters
    ----------
    dataset : Dataset
        What to look at.
    protocol : Protocol
        Which images are query and which are database.
    seed : int
        Of the split.
    on_progress : callable, optional
        Called with (done, total) as images are read.

    Returns
    -------
    DatasetReport
        The findings; nothing is changed.
    """
    split, reason = _try_split(dataset, protocol, seed)
    digests, sizes, broken = _read_all(dataset, on_progress)
    counts = dataset.class_counts()
    return DatasetReport(
        name=dataset.name,
        n_images=len(dataset),
        n_readable=len(digests),
        class_counts=counts,
        labels_per_image=sum(counts.values()) / max(len(dataset), 1),
        sizes=dict(sizes.most_common()),
        broken=dataset.skipped + broken,
        n_duplicates=len(digests) - len(set(digests.values())),
        shared=_shared(dataset, split, digests) if split else (),
        protocol=protocol.name,
        seed=seed,
        split=split.fingerprint if split else None,
        no_split=reason,
    )


def refuse_broken(dataset: Dataset, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Raise if any image cannot be read; the line says how many and names the first."""
    broken = _read_all(dataset, on_progress)[2]
    if broken:
        named = "; ".join(f"{file.path} ({file.reason.removesuffix('.')})" for file in broken[:5])
        raise DataError(f"{dataset.name}: {len(broken):,} images cannot be read: {named}. Mend or remove them.")


def _try_split(dataset: Dataset, protocol: Protocol, seed: int) -> tuple[Split | None, str | None]:
    try:
        return protocol.split(dataset, seed), None
    except DataError as error:
        return None, str(error)


def _read_all(
    dataset: Dataset, on_progress: Callable[[int, int], None] | None
) -> tuple[dict[int, bytes], Counter[str], tuple[Skipped, ...]]:
    """Return the digest of each readable image, how many have each size, and the broken ones."""
    digests: dict[int, bytes] = {}
    sizes: Counter[str] = Counter()
    broken = []
    for row in range(len(dataset)):
        try:
            image = dataset.images[row]
        except BrokenImage as error:
            name = dataset.images.name(row)
            broken.append(Skipped(name, str(error).removeprefix(f"{name}: ")))
        else:
            digests[row] = _digest(image)
            sizes[f"{image.shape[1]} x {image.shape[0]}"] += 1
        if on_progress:
            on_progress(row + 1, len(dataset))
    return digests, sizes, tuple(broken)


def _digest(image: Image) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16, key=repr(image.shape).encode()).digest()


def _shared(dataset: Dataset, split: Split, digests: dict[int, bytes]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of equal query and database images."""
    copies = defaultdict(list)
    for row in split.database.tolist():
        copies[digests.get(row)].append(row)
    pairs = [(row, row) for row in split.protocol.listed_twice(dataset, split.query)]
    pairs += [(row, copy) for row in split.query.tolist() if row in digests for copy in copies[digests[row]]]
    return tuple((dataset.images.name(query), dataset.images.name(copy)) for query, copy in pairs)
