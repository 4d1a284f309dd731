import subprocess
import sys

import pytest

from ddsh.memory import reuse_freed_memory

FAULTS = """
import resource, sys
import numpy as np
from ddsh.memory import reuse_freed_memory
if sys.argv[1] == "yes":
    assert reuse_freed_memory()
def work():
    for _ in range(10):
        np.ones(20_000_000)  # 160 MB
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not reuse_freed_memory(), reason="the C library is not glibc")
def test_large_blocks_are_handed_out_again_without_new_pages():
    calls = [[sys.executable, "-c", FAULTS, word] for word in ("yes", "no")]
    reused, fresh = (int(subprocess.run(call, capture_output=True, text=True, check=True).stdout) for call in calls)
    assert reused < fresh / 20
