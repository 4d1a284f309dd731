"""Pickles that others made, read without running code: containers, numbers, texts and NumPy arrays, nothing else."""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ddsh.errors import DataError

MAX_BYTES = 1 << 30

# NumPy's own ways to make an array: empty, for the pickle to fill, or (since protocol 5) from bytes at once.
_rebuild_array = np.empty(0).__reduce__()[0]
_array_of_bytes = np.empty(0).__reduce_ex__(5)[0]


class _ArrayUnpickler(pickle.Unpickler):
    """Knows how to rebuild NumPy arrays and nothing else: a pickle cannot run code."""

    _ALLOWED: Mapping[tuple[str, str], Any] = {
        ("numpy.core.multiarray", "_reconstruct"): _rebuild_array,
        ("numpy._core.multiarray", "_reconstruct"): _rebuild_array,
        ("numpy.core.numeric", "_frombuffer"): _array_of_bytes,
        ("numpy._core.numeric", "_frombuffer"): _array_of_bytes,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
    }

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 -- pickle's own signature
        """Return what arrays are made of, and nothing else."""
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a file of arrays") from None


def unpickle_arrays(path: Path) -> Any:  # noqa: ANN401 -- a pickle holds what it holds
    """Return what a pickle of Python 2 or 3 holds; texts of Python 2 come as bytes."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path} has {path.stat().st_size:,} bytes, at most {MAX_BYTES:,} are read.")
        return _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle makes the unpickler raise almost anything
        raise DataError(f"{path} is not a pickle of arrays ({type(error).__name__}: {error}).") from error
