"""Codes with labels in ``.npz`` files, of ddsh or of other programs."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError, DdshError
from ddsh.labels import Labels, MultiLabels, as_labels
from ddsh.storage import read_npz, write_npz

__all__ = ["LabelledCodes", "label_arrays"]

_FOREIGN = {
    "signs": BinaryCodes.from_signs,
    "bits": BinaryCodes.from_bits,
    "outputs": BinaryCodes.from_outputs,
}


@dataclass(frozen=True)
class LabelledCodes:
    """Codes and labels of the same items.

    Parameters
    ----------
    codes : BinaryCodes
        The codes.
    labels : Labels
        Their labels.
    """

    codes: BinaryCodes
    labels: Labels

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file that :meth:`load` and ``ddsh score`` read."""
        write_npz(path, self.codes.to_arrays() | label_arrays(self.labels))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "LabelledCodes":
        """Read codes and labels.

        Parameters
        ----------
        path : path
            An ``.npz`` file with ``labels`` (a vector, or a 0/1 matrix) and codes: in the format of :meth:`save`, or as
            an array (n, n_bits) named ``signs`` (-1/+1), ``bits`` (0/1), ``outputs`` (reals) or ``codes`` (signs or
            bits). The rows that an array ``unlabelled`` lists are left out.
        """
        arrays = read_npz(path)
        try:
            codes, labels = _codes(arrays, path), _labels(arrays, path)
            if "unlabelled" not in arrays:
                return cls(codes, labels)
            labelled = np.setdiff1d(np.arange(len(codes)), arrays["unlabelled"])
            return cls(codes[labelled], labels.take(labelled))
        except ArtefactError:
            raise
        except DdshError as error:
            raise ArtefactError(f"{path}: {error}") from error


def _codes(arrays: dict[str, NDArray[Any]], path: str | os.PathLike[str]) -> BinaryCodes:
    if "packed" in arrays:
        return BinaryCodes.from_arrays(arrays, path)
    for name, read in _FOREIGN.items():
        if name in arrays:
            return read(arrays[name])
    if "codes" in arrays:
        negative = arrays["codes"].dtype.kind in "if" and bool((arrays["codes"] < 0).any())
        return _FOREIGN["signs" if negative else "bits"](arrays["codes"])
    found = ", ".join(arrays) or "nothing"
    raise ArtefactError(f"{path} holds no codes: expected an array signs, bits, outputs or codes, found {found}.")


def _labels(arrays: dict[str, NDArray[Any]], path: str | os.PathLike[str]) -> Labels:
    if "labels" in arrays:
        return as_labels(arrays["labels"])
    if not {"label_columns", "label_starts", "n_labels"} <= arrays.keys():
        raise ArtefactError(f"{path} holds no labels: add an array labels (a vector, or a 0/1 matrix).")
    columns, starts, n_labels = (arrays[name] for name in ("label_columns", "label_starts", "n_labels"))
    try:
        if any(array.dtype.kind not in "iu" for array in (columns, starts, n_labels)):
            raise ValueError("label_columns, label_starts and n_labels must be whole numbers")
        shape = (len(starts) - 1, int(n_labels))
        matrix = sparse.csr_array((np.ones(len(columns), np.int8), columns, starts), shape=shape)
        matrix.check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise ArtefactError(f"{path} holds damaged labels: {error}") from error
    return as_labels(matrix)


def label_arrays(labels: Labels) -> dict[str, NDArray[Any]]:
    """Return the arrays of labels for an ``.npz`` file."""
    if isinstance(labels, MultiLabels):
        matrix = labels.matrix
        return {
            "label_columns": matrix.indices,
            "label_starts": matrix.indptr,
            "n_labels": np.array(matrix.shape[1]),
        }
    return {"labels": labels.to_array()}
