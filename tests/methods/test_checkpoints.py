"""Checkpoints: what is written is read, and everything else is refused in one line."""

import json
import struct

import numpy as np
import pytest

from ddsh.errors import ArtefactError
from ddsh.methods._checkpoints import Checkpoint, Checkpoints


def safetensors_file(facts: str, dtype: str = "F32") -> bytes:
    tensors = {"a": {"dtype": dtype, "shape": [1], "data_offsets": [0, 2 if dtype == "BF16" else 4]}}
    header = json.dumps({"__metadata__": {"ddsh": facts}, **tensors}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(tensors["a"]["data_offsets"][1])


def test_the_newest_checkpoint_is_read_and_the_oldest_are_removed(tmp_path):
    checkpoints = Checkpoints(tmp_path, "configuration")
    assert checkpoints.latest() is None
    for step in (1, 2, 3):
        checkpoints.save(Checkpoint(step, {"a": np.full(2, step)}, {"loss": step}))
    found = checkpoints.latest()
    assert found is not None
    assert (found.step, found.tensors["a"].tolist(), found.facts) == (3, [3, 3], {"loss": 3})
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"nothing",
        safetensors_file("[" * 100_000),
        safetensors_file('{"fingerprint": "x", "step": 1e400, "facts": {}}'),
        safetensors_file('{"fingerprint": "x", "step": 1, "facts": {}}', "BF16"),
        safetensors_file("{}"),
    ],
    ids=["no file", "nested", "infinite step", "a type that NumPy lacks", "no facts"],
)
def test_what_is_no_checkpoint_is_refused_in_one_line(tmp_path, data):
    (tmp_path / "checkpoint-000000001.safetensors").write_bytes(data)
    with pytest.raises(ArtefactError, match="is not a checkpoint of ddsh") as raised:
        Checkpoints(tmp_path, "x").latest()
    assert "\n" not in str(raised.value)
