"""Labels (single, multi, pairwise) and the similarity they define."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.errors import InvalidInput

if TYPE_CHECKING:
    from scipy import sparse  # imported where it is used: it takes longer than NumPy

__all__ = [
    "Labels",
    "LabelsLike",
    "MultiLabels",
    "Overlap",
    "PairFunction",
    "PairLabels",
    "Rows",
    "SingleLabels",
    "as_labels",
    "draw_stratified",
]

Rows: TypeAlias = NDArray[np.integer[Any]] | NDArray[np.bool_] | slice
"""Selection of rows: positions, a mask, or a slice."""


Overlap: TypeAlias = Literal["jaccard", "cosine"]
"""Kinds of graded similarity; see :meth:`Labels.overlap`."""


class Labels(ABC):
    """Base class of labels; items are similar if they share a label."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} items, {len(self.classes()):,} classes)"

    @abstractmethod
    def take(self, rows: Rows) -> Self:
        """Return the labels of some rows."""

    @abstractmethod
    def similar(self, other: "Labels") -> NDArray[np.bool_]:
        """Return whether each pair shares a label, shape (len(self), len(other))."""

    def overlap(self, other: "Labels", kind: Overlap) -> NDArray[np.float64]:
        """Return how much of their labels each pair shares, 0 to 1; 1 for every similar pair of one label each.

        Parameters
        ----------
        other : Labels
            Labels of the other items.
        kind : {"jaccard", "cosine"}
            Shared labels divided by all labels of the pair, or by the geometric mean of their numbers.
        """
        return self.similar(other).astype(np.float64)

    def n_shared(self, other: "Labels") -> NDArray[np.int64]:
        """Return the number of labels that each pair shares."""
        return self.similar(other).astype(np.int64)

    @abstractmethod
    def distinct(self) -> tuple[Self, NDArray[np.intp]]:
        """Return the distinct label sets, and the position of each row's set among them."""

    @abstractmethod
    def classes(self) -> NDArray[Any]:
        """Return the classes that occur, sorted."""

    @abstractmethod
    def having(self, label: Any) -> NDArray[np.bool_]:  # noqa: ANN401 -- a class may be an int or a string
        """Return a mask of the rows that have the class `label`."""

    @abstractmethod
    def labelled(self) -> NDArray[np.bool_]:
        """Return a mask of the rows that have a label."""

    @abstractmethod
    def to_array(self) -> NDArray[Any]:
        """Return the labels as an array: a vector, or a 0/1 matrix for multi-labels."""

    def counts(self) -> dict[Any, int]:
        """Return the number of rows of each class."""
        return {label: int(self.having(label).sum()) for label in self.classes().tolist()}


class SingleLabels(Labels):
    """One label per item; an item without a label is not similar to any.

    Parameters
    ----------
    values : ndarray of int or str, shape (n,)
        The label of each item.
    missing : int or str, optional
        The value of items without a label, such as -1; by default every value is a label.
    """

    def __init__(self, values: NDArray[Any], missing: int | str | None = None) -> None:
        self.values = values
        self.missing = missing

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Rows) -> Self:
        """Return the labels of some rows."""
        return type(self)(self.values[rows], self.missing)

    def similar(self, other: Labels) -> NDArray[np.bool_]:
        """Return whether each pair has the same label."""
        if not isinstance(other, SingleLabels) or (self.values.dtype.kind == "U") != (other.values.dtype.kind == "U"):
            raise InvalidInput(_MIXED)
        result: NDArray[np.bool_] = self.values[:, None] == other.values[None, :]
        if self.missing is not None or other.missing is not None:
            result &= self.labelled()[:, None] & other.labelled()[None, :]
        return result

    def distinct(self) -> tuple[Self, NDArray[np.intp]]:
        """Return the distinct labels, and the position of each row's label among them."""
        values, inverse = np.unique(self.values, return_inverse=True)
        return type(self)(values, self.missing), inverse

    def classes(self) -> NDArray[Any]:
        """Return the labels that occur, sorted."""
        return np.unique(self.values[self.labelled()])

    def having(self, label: Any) -> NDArray[np.bool_]:  # noqa: ANN401
        """Return a mask of the rows that have this label."""
        result: NDArray[np.bool_] = (self.values == label) & self.labelled()
        return result

    def labelled(self) -> NDArray[np.bool_]:
        """Return a mask of the rows that have a label."""
        if self.missing is None:
            return np.ones(len(self), np.bool_)
        result: NDArray[np.bool_] = self.values != self.missing
        return result

    def to_array(self) -> NDArray[Any]:
        """Return the label vector; items without a label have the value `missing`."""
        return self.values


class MultiLabels(Labels):
    """Any number of labels per item; an item without labels is not similar to any.

    Parameters
    ----------
    matrix : sparse array of 0/1, shape (n, n_classes)
        Classes of each item.
    """

    def __init__(self, matrix: "sparse.csr_array[Any]") -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, rows: Rows) -> Self:
        """Return the labels of some rows."""
        return type(self)(self.matrix[rows])

    def similar(self, other: Labels) -> NDArray[np.bool_]:
        """Return whether each pair shares at least one class."""
        return self.n_shared(other) > 0

    def n_shared(self, other: Labels) -> NDArray[np.int64]:
        """Return the number of classes that each pair shares."""
        if not isinstance(other, MultiLabels) or self.matrix.shape[1] != other.matrix.shape[1]:
            raise InvalidInput(_MIXED)
        shared: NDArray[Any] = (self.matrix @ other.matrix.T).toarray()
        return shared

    def overlap(self, other: Labels, kind: Overlap) -> NDArray[np.float64]:
        """Return how much of their labels each pair shares; see :meth:`Labels.overlap`."""
        shared = self.n_shared(other).astype(np.float64)
        assert isinstance(other, MultiLabels), "n_shared has refused others"
        mine, theirs = np.diff(self.matrix.indptr)[:, None], np.diff(other.matrix.indptr)[None, :]
        whole = np.sqrt(mine * theirs) if kind == "cosine" else mine + theirs - shared
        grades: NDArray[np.float64] = shared / np.maximum(whole, 1)
        return grades

    def distinct(self) -> tuple[Self, NDArray[np.intp]]:
        """Return the distinct label sets, and the position of each row's set among them."""
        known: dict[bytes, int] = {}
        starts, columns = self.matrix.indptr, self.matrix.indices
        ids = np.empty(len(self), np.intp)
        for row, (start, stop) in enumerate(pairwise(starts)):
            ids[row] = known.setdefault(columns[start:stop].tobytes(), len(known))
        first = np.unique(ids, return_index=True)[1]
        return self.take(first), ids

    def classes(self) -> NDArray[Any]:
        """Return the columns that occur, sorted."""
        return np.unique(self.matrix.indices)

    def having(self, label: Any) -> NDArray[np.bool_]:  # noqa: ANN401
        """Return a mask of the rows that have the class of column `label`."""
        result: NDArray[np.bool_] = self.matrix[:, [label]].toarray().ravel().astype(np.bool_)
        return result

    def labelled(self) -> NDArray[np.bool_]:
        """Return a mask of the rows that have at least one class."""
        result: NDArray[np.bool_] = np.diff(self.matrix.indptr) > 0
        return result

    def counts(self) -> dict[Any, int]:
        """Return the number of rows of each class."""
        totals = np.bincount(self.matrix.indices)
        return {int(label): int(totals[label]) for label in self.classes()}

    def to_array(self) -> NDArray[Any]:
        """Return the dense 0/1 matrix."""
        dense: NDArray[Any] = self.matrix.toarray()
        return dense.astype(np.uint8)


class PairLabels(Labels):
    """Similarity given pair by pair instead of labels; for training only.

    Parameters
    ----------
    pairs : sparse matrix (n, n), or callable
        A pair is similar where the matrix is above zero, and dissimilar elsewhere; a callable takes two vectors of row
        numbers and returns which pairs are similar, shape (len(first), len(second)).
    n_items : int, optional
        Number of items; required with a callable.
    """

    def __init__(
        self,
        pairs: "sparse.sparray | sparse.spmatrix | PairFunction",
        n_items: int | None = None,
    ) -> None:
        if callable(pairs):
            if n_items is None:
                raise InvalidInput("Give n_items, the number of items, with a callable.")
            self._similar, self._rows = pairs, np.arange(n_items)
            return
        from scipy import sparse

        matrix = sparse.csr_array(cast("Any", pairs))
        if matrix.shape[0] != matrix.shape[1]:
            raise InvalidInput(f"A matrix of pairs is square; got {matrix.shape}.")
        self._similar = lambda first, second: matrix[first][:, second].toarray() > 0
        self._rows = np.arange(matrix.shape[0])

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows) -> Self:
        """Return the pairs of some rows."""
        taken = type(self)(self._similar, 0)
        taken._rows = self._rows[rows]
        return taken

    def similar(self, other: Labels) -> NDArray[np.bool_]:
        """Return whether each pair is similar."""
        if not isinstance(other, PairLabels):
            raise InvalidInput(_MIXED)
        return np.asarray(self._similar(self._rows, other._rows), np.bool_)

    def distinct(self) -> tuple[Self, NDArray[np.intp]]:
        """Return every item, because equal labels are unknown."""
        return self, np.arange(len(self))

    def classes(self) -> NDArray[Any]:
        """Return an empty array: pairs have no classes."""
        return np.empty(0, np.int64)

    def having(self, label: Any) -> NDArray[np.bool_]:  # noqa: ANN401
        """Return an empty mask: pairs have no classes."""
        return np.zeros(len(self), np.bool_)

    def labelled(self) -> NDArray[np.bool_]:
        """Return a full mask: every item belongs to pairs."""
        return np.ones(len(self), np.bool_)

    def to_array(self) -> NDArray[Any]:
        """Return the row numbers; a matrix of all pairs may be too large."""
        return self._rows


PairFunction: TypeAlias = Callable[[NDArray[np.integer[Any]], NDArray[np.integer[Any]]], NDArray[Any]]
"""Function of two vectors of row numbers that returns a matrix: which pairs are similar."""

if TYPE_CHECKING:
    LabelsLike: TypeAlias = Labels | ArrayLike | sparse.sparray | sparse.spmatrix
else:
    LabelsLike = Labels | ArrayLike
"""Labels in any form that :func:`as_labels` converts."""

_MIXED = (
    "Query and database labels must be of one kind: both one label per item (same type), "
    "or both 0/1 matrices with the same columns."
)


def as_labels(labels: LabelsLike) -> Labels:
    """Convert labels of any supported form.

    Parameters
    ----------
    labels : Labels, vector of int or str, 0/1 matrix, or scipy sparse matrix
        A vector (or a dense matrix of one column) has one label per item, a matrix any number.

    Returns
    -------
    Labels
        :class:`SingleLabels` or :class:`MultiLabels`.
    """
    from scipy import sparse

    if isinstance(labels, Labels):
        return labels
    if sparse.issparse(labels):
        return _multi(sparse.csr_array(cast("Any", labels)))
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise InvalidInput("Labels must be a vector or a 0/1 matrix; the rows given differ in length.") from error
    if array.dtype == object:
        if array.ndim != 1 or not all(isinstance(value, str) for value in array):
            raise InvalidInput(
                "Unknown label type: labels must be whole numbers or names; found missing or mixed values."
            )
        array = array.astype(np.str_)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim == 1:
        return SingleLabels(_single(array))
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return _multi(sparse.csr_array(array))
    raise InvalidInput(
        f"Labels must be a vector (one label each) or a 0/1 matrix (n, classes); got {array.dtype} {array.shape}."
    )


def _single(values: NDArray[Any]) -> NDArray[Any]:
    """Return a vector of whole numbers or strings, or raise."""
    if values.dtype.kind == "f":
        if not np.all((np.abs(values) < 2**53) & (values == np.round(values))):
            raise InvalidInput("Labels must be whole numbers or names; found NaN, infinity or fractions.")
        return values.astype(np.int64)
    if values.dtype.kind in "bui":
        return values.astype(np.int64)
    if values.dtype.kind == "U":
        return values
    raise InvalidInput(f"Labels must be whole numbers or names; got {values.dtype}.")


def _multi(matrix: "sparse.csr_array[Any]") -> MultiLabels:
    """Return multi-labels of a 0/1 sparse matrix in canonical form, or raise."""
    from scipy import sparse

    if not np.isin(matrix.data, (0, 1)).all():
        raise InvalidInput("A label matrix holds only 0 and 1; for one label per item give a vector.")
    clean = sparse.csr_array(matrix.astype(np.int32), copy=True)
    clean.eliminate_zeros()
    clean.sum_duplicates()
    clean.data[:] = 1
    return MultiLabels(clean)


def draw_stratified(labels: Labels, n_rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw `n_rows` rows that keep about the share of each class; rare classes are drawn first.

    Parameters
    ----------
    labels : Labels
        Labels of the items.
    n_rows : int
        How many to draw.
    rng : Generator
        Equal states give equal rows.

    Returns
    -------
    ndarray of bool
        Which rows were drawn.
    """
    counts = labels.counts()
    # Shuffling by sorting random numbers: their stream is fixed for all time, that of `permutation` is not.
    order = np.argsort(rng.random(len(labels)), kind="stable")
    chosen = np.zeros(len(labels), np.bool_)
    for label in sorted(counts, key=lambda label: (counts[label], label)):
        having = labels.having(label)
        wanted = counts[label] * n_rows // len(labels) - int((chosen & having).sum())
        room = n_rows - int(chosen.sum())
        candidates = order[(having & ~chosen)[order]]
        chosen[candidates[: max(0, min(wanted, room))]] = True
    rest = order[~chosen[order]]
    chosen[rest[: n_rows - int(chosen.sum())]] = True
    return chosen
