"""Numeric variables of MATLAB files (version 5 to 7)."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import DataError

__all__ = ["mat_shape", "read_mat"]


def read_mat(path: Path, variable: str) -> NDArray[Any]:
    """Read one numeric variable of a MATLAB file."""
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=[variable])
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except Exception as error:  # a damaged file makes the reader raise almost anything
        raise DataError(f"{path} is not a readable MATLAB file ({type(error).__name__}: {error}).") from error
    if variable not in content or content[variable].dtype.kind not in "biuf":
        raise DataError(f"{path} has no numeric variable {variable!r}.")
    return np.asarray(content[variable])


def mat_shape(path: Path, variable: str) -> tuple[int, ...]:
    """Return the shape of a variable of a MATLAB file without reading it."""
    from scipy.io import whosmat

    try:
        shapes = {name: shape for name, shape, _ in whosmat(path)}
    except Exception as error:
        raise DataError(f"{path} is not a readable MATLAB file ({type(error).__name__}: {error}).") from error
    if variable not in shapes:
        raise DataError(f"{path} has no variable {variable!r}.")
    return tuple(shapes[variable])
