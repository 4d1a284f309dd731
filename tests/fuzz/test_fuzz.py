"""A short, repeatable run of the fuzz targets; ``make fuzz`` is the long one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutation import mutate
from targets import TARGETS, seeds

from ddsh.errors import DdshError

REPRODUCERS = Path(__file__).parent / "reproducers"
N_RUNS = 200


VALID = ("host", "idx", "image", "manifests", "metadata", "npz", "query_code", "request_body", "staged_codes")


def survive(target, data):
    message = ""
    try:
        TARGETS[target](data)
    except DdshError as error:
        message = str(error)
    assert "\n" not in message


@pytest.fixture(scope="module")
def inputs():
    return seeds()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore")  # of libraries about damaged files
def test_changed_inputs_are_read_or_refused(target, inputs):
    for number in range(N_RUNS):
        survive(target, mutate(inputs[target][number % len(inputs[target])], inputs[target], number))
    survive(target, b"")


@pytest.mark.parametrize("path", sorted(REPRODUCERS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.filterwarnings("ignore")
def test_what_was_found_once_stays_mended(path):
    survive(path.parent.name, path.read_bytes())


def test_every_target_has_valid_inputs(inputs):
    assert inputs.keys() == TARGETS.keys()
    for target in VALID:
        for data in inputs[target]:
            TARGETS[target](data)
