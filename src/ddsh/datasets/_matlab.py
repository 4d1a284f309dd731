"""Numeric variables of MATLAB files (version 5 to 7)."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import DataError
from ddsh.matlab import load_mat, mat_shapes

__all__ = ["mat_shape", "read_mat"]


def read_mat(path: Path, variable: str) -> NDArray[Any]:
    """Read one numeric variable of a MATLAB file."""
    if not path.exists():
        raise DataError(f"{path} does not exist.")
    content = load_mat(path, (variable,))
    if not isinstance(content.get(variable), np.ndarray) or content[variable].dtype.kind not in "biuf":
        raise DataError(f"{path} has no numeric variable {variable!r}.")
    return np.asarray(content[variable])


def mat_shape(path: Path, variable: str) -> tuple[int, ...]:
    """Return the shape of a variable of a MATLAB file without reading it."""
    shapes = mat_shapes(path)
    if variable not in shapes:
        raise DataError(f"{path} has no variable {variable!r}.")
    return shapes[variable]
