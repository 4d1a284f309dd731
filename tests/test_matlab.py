"""MATLAB files: read as SciPy does, and damaged ones end no process."""

import io

import numpy as np
import pytest
from scipy.io import savemat

from ddsh.datasets._matlab import read_mat
from ddsh.errors import DataError
from ddsh.matlab import load_mat, mat_shapes


def _write(path, changes=()):
    file = io.BytesIO()
    savemat(file, {"X": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "y": np.arange(3.0), "s": {"a": 1.0}})
    data = bytearray(file.getvalue())
    for place, value in changes:
        data[place] = value
    path.write_bytes(data)
    return path


def test_variables_shapes_and_structures_are_read(tmp_path):
    path = _write(tmp_path / "a.mat")
    assert (read_mat(path, "X") == np.arange(24).reshape(2, 3, 4)).all()
    assert mat_shapes(path)["X"] == (2, 3, 4)
    assert load_mat(path, simplify=True)["s"] == {"a": 1.0}


def test_a_file_that_crashes_the_reader_is_an_error_of_one_line(tmp_path):
    path = _write(tmp_path / "crash.mat", [(146, 1), (312, 9), (178, 127), (254, 4)])
    with pytest.raises(DataError, match=r"is damaged: reading it|not a readable MATLAB file") as caught:
        read_mat(path, "X")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"x" * 200, bytes(1000)])
def test_what_is_no_matlab_file_is_an_error_of_one_line(tmp_path, content):
    path = tmp_path / "no.mat"
    path.write_bytes(content)
    for read in (load_mat, mat_shapes):
        with pytest.raises(DataError):
            read(path)
