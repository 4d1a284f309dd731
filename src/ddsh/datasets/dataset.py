"""What a dataset is: images, labels, class names, and the parts its makers divided it into."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import DataError
from ddsh.images import Images
from ddsh.labels import Labels


@dataclass(frozen=True)
class Skipped:
    """A file that was left out of a dataset, and why.

    Parameters
    ----------
    path : str
        The file.
    reason : str
        Why it was left out.
    """

    path: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """A set of labelled images.

    Parameters
    ----------
    name : str
        What to call it in results.
    images : Images
        The images, read when asked for.
    labels : Labels
        One or many labels per image; labels are positions in `class_names`.
    class_names : tuple of str
        What the labels mean.
    parts : mapping of str to ndarray of int
        Rows of the parts the makers divided it into, such as ``train`` and ``test``; may be empty.
    protocol : str
        The protocol that is usual for it.
    skipped : tuple of Skipped
        Files that were left out because they are broken.
    """

    name: str
    images: Images
    labels: Labels
    class_names: tuple[str, ...]
    parts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    protocol: str = "own"
    skipped: tuple[Skipped, ...] = ()

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"{self.name}: {len(self.images)} images but {len(self.labels)} labels.")

    def __len__(self) -> int:
        return len(self.images)

    def class_counts(self) -> dict[str, int]:
        """Return how many images carry each class, by class name."""
        counts = self.labels.counts()
        return {name: counts.get(label, 0) for label, name in enumerate(self.class_names)}
