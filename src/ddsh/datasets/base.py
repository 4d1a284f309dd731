"""Dataset: images with labels, class names, and predefined parts."""

import base64
import html
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import BrokenImage, DataError
from ddsh.images import Images, thumbnail
from ddsh.labels import Labels

__all__ = ["Dataset", "ProgressCallback", "Skipped"]

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called with the number of files done and the number of all files."""

_HTML_CLASSES = 20
_HTML_THUMBNAILS = 4
_HTML_SIDE = 48


@dataclass(frozen=True)
class Skipped:
    """A file that was left out of a dataset.

    Parameters
    ----------
    path : str
        The file.
    reason : str
        Why it was left out.
    """

    path: str
    reason: str


@dataclass(frozen=True, repr=False)
class Dataset:
    """A set of images, all or some of them labelled.

    Parameters
    ----------
    name : str
        Name used in results.
    images : Images
        The images, decoded on access.
    labels : Labels
        One or several labels per image; a label is a position in `class_names`.
    class_names : tuple of str
        Names of the classes.
    parts : mapping of str to ndarray of int
        Row numbers of predefined parts, such as ``train`` and ``test``; may be empty.
    protocol : str
        Name of the default protocol.
    skipped : tuple of Skipped
        Files that were left out because they cannot be read.
    unlabelled : ndarray of int
        Row numbers of images whose labels are unknown, in ascending order. No protocol draws them; they can be encoded
        and indexed. An image that is known to have none of the classes is not among them.
    """

    name: str
    images: Images
    labels: Labels
    class_names: tuple[str, ...]
    parts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    protocol: str = "own"
    skipped: tuple[Skipped, ...] = ()
    unlabelled: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"{self.name}: {len(self.images)} images but {len(self.labels)} labels.")
        if self.labels.labelled()[self.unlabelled].any():
            raise DataError(f"{self.name}: images that have a label are listed as unlabelled.")

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        without = f", {len(self.unlabelled):,} unlabelled" if len(self.unlabelled) else ""
        return f"Dataset({self.name}: {len(self):,} images, {len(self.class_names):,} classes{without})"

    def _repr_html_(self) -> str:
        """Return a table of the first classes with counts and thumbnails, for notebooks."""
        rows = []
        for label, (name, count) in enumerate(list(self.class_counts().items())[:_HTML_CLASSES]):
            pictures = ""
            for row in np.flatnonzero(self.labels.having(label))[:_HTML_THUMBNAILS].tolist():
                with suppress(BrokenImage):
                    data = base64.b64encode(thumbnail(self.images[row], _HTML_SIDE)).decode()
                    pictures += f'<img alt="" src="data:image/jpeg;base64,{data}"> '
            rows.append(f"<tr><td>{html.escape(name)}</td><td>{count:,}</td><td>{pictures}</td></tr>")
        n_more = len(self.class_names) - len(rows)
        more = f"<p>and {n_more:,} more classes</p>" if n_more else ""
        head = "<tr><th>class</th><th>images</th><th>examples</th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{''.join(rows)}</table>{more}"

    def class_counts(self) -> dict[str, int]:
        """Return the number of images of each class, by class name."""
        counts = self.labels.counts()
        return {name: counts.get(label, 0) for label, name in enumerate(self.class_names)}
