"""Dataset check: class counts, sizes, broken files, duplicates, leaks."""

import hashlib
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from ddsh.datasets.base import Dataset, ProgressCallback, Skipped
from ddsh.datasets.protocols import Protocol, Split
from ddsh.errors import BrokenImage, DataError

__all__ = ["DatasetReport", "check_dataset", "refuse_broken"]


@dataclass(frozen=True)
class DatasetReport:
    """Result of :func:`check_dataset`.

    Parameters
    ----------
    name : str
        Name of the dataset.
    n_images : int
        Number of images.
    n_readable : int
        Number of images that can be read.
    class_counts : dict of str to int
        Number of images of each class.
    labels_per_image : float
        Mean number of labels per labelled image.
    sizes : dict of str to int
        Number of images of each size ``width x height``, most frequent first.
    broken : tuple of Skipped
        Files that cannot be used, and why.
    n_duplicates : int
        Number of images with the same pixels as an earlier one.
    shared : tuple of (str, str)
        Pairs of a query and a database image with the same pixels.
    protocol, seed : str, int
        Protocol and seed of the split.
    split : str or None
        Fingerprint of the split, or None if the dataset cannot be split by this protocol.
    no_split : str or None
        Why it cannot be split.
    n_unlabelled : int
        Number of images without a label.
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
    n_unlabelled: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return asdict(self)


def check_dataset(
    dataset: Dataset, protocol: Protocol, seed: int = 0, on_progress: ProgressCallback | None = None
) -> DatasetReport:
    """Read every image once and report broken files, duplicates and leaks.

    Parameters
    ----------
    dataset : Dataset
        The dataset; it is not changed.
    protocol : Protocol
        Decides which images are query and which are database.
    seed : int
        Seed of the split.
    on_progress : callable, optional
        Called with (done, total) after each image.
    """
    split: Split | None = None
    reason: str | None = None
    try:
        split = protocol.split(dataset, seed)
    except DataError as error:
        reason = str(error)
    digests, sizes, broken = _read_all(dataset, on_progress)
    pairs: list[tuple[int, int]] = []
    if split is not None:
        copies = defaultdict(list)
        for row in split.database.tolist():
            copies[digests.get(row)].append(row)
        pairs += [(row, row) for row in protocol.listed_twice(dataset, split.query)]
        pairs += [(row, copy) for row in split.query.tolist() if row in digests for copy in copies[digests[row]]]
    counts = dataset.class_counts()
    return DatasetReport(
        name=dataset.name,
        n_images=len(dataset),
        n_readable=len(digests),
        class_counts=counts,
        labels_per_image=sum(counts.values()) / max(len(dataset) - len(dataset.unlabelled), 1),
        sizes=dict(sizes.most_common()),
        broken=dataset.skipped + broken,
        n_duplicates=len(digests) - len(set(digests.values())),
        shared=tuple((dataset.images.name(query), dataset.images.name(copy)) for query, copy in pairs),
        protocol=protocol.name,
        seed=seed,
        split=split.fingerprint if split else None,
        no_split=reason,
        n_unlabelled=len(dataset.unlabelled),
    )


def refuse_broken(dataset: Dataset, on_progress: ProgressCallback | None = None) -> None:
    """Raise if any image cannot be read; the message has the number and the first few."""
    broken = _read_all(dataset, on_progress)[2]
    if broken:
        named = "; ".join(f"{file.path} ({file.reason.removesuffix('.')})" for file in broken[:5])
        raise DataError(f"{dataset.name}: {len(broken):,} images cannot be read: {named}. Mend or remove them.")


def _read_all(
    dataset: Dataset, on_progress: ProgressCallback | None
) -> tuple[dict[int, bytes], Counter[str], tuple[Skipped, ...]]:
    """Return the digest of each readable image, the number of each size, and the broken images."""
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
            shape = repr(image.shape).encode()
            digests[row] = hashlib.blake2b(image.tobytes(), digest_size=16, key=shape).digest()
            sizes[f"{image.shape[1]} x {image.shape[0]}"] += 1
        if on_progress:
            on_progress(row + 1, len(dataset))
    return digests, sizes, tuple(broken)
