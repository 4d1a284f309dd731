"""Faults: a stopped writer, two writers, a clock that is set back, a file that is cut off."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from small_photos import draw

from ddsh import ImageSearch
from ddsh.errors import ArtefactError, Busy

WRITER = """
import sys
from ddsh.search.local import LocalStore
store = LocalStore(sys.argv[1], wait=5)
with store.write() as writer:
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def writer(search):
    """A process that holds the lock of the writer until it gets a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, search.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def test_a_stopped_writer_keeps_others_out_and_goes_on_when_it_is_resumed(search, writer, rng):
    writer.send_signal(signal.SIGSTOP)
    with ImageSearch.open(search.folder, wait=0.1) as other:
        assert len(other.query(1, k=100)) == 18
        with pytest.raises(Busy, match=f"is being changed by process {writer.pid}"):
            other.add(draw(rng, (1, 2, 3)))
        writer.send_signal(signal.SIGCONT)
        writer.communicate("\n", timeout=60)
        assert len(other.add(draw(rng, (1, 2, 3))).added) == 1
    assert search.verify() == []


def test_a_clock_that_is_set_back_loses_no_change_of_a_file(search, photos):
    """A changed file that is older than its entry is read again."""
    path = sorted(photos.rglob("*.png"))[0]
    path.write_bytes(sorted(photos.rglob("*.png"))[-1].read_bytes())
    past = time.time() - 10**8
    os.utime(path, (past, past))
    assert len(search.refresh().changed) == 1
    assert search.verify() == []


def test_a_catalogue_that_is_cut_off_while_it_is_open_ends_no_process(search):
    """Mapped into memory, it would be read in less time, but reading beyond its end is a bus error."""
    path = search.folder / "catalogue.sqlite"
    with ImageSearch.open(search.folder) as other:
        ids = other.ids()
        os.truncate(path, path.stat().st_size // 2)
        for number in ids:
            with suppress(ArtefactError):  # or an answer from the pages that were read before
                other.query(number, k=5)
    with ImageSearch.open(search.folder) as other, pytest.raises(ArtefactError, match=r"damaged|malformed"):
        other.verify()
