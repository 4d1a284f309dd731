"""Several processes that serve one index."""

import os
import signal
import socket
import sys
import urllib.request
from multiprocessing import get_context

import numpy as np
import pytest

from ddsh import ImageSearch
from ddsh.service.processes import further_processes, share_removed_items, stop_with_parent
from ddsh.service.removed_items import RemovedItems
from ddsh.service.server import _serve_further, listen
from ddsh.service.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are ended by signals")


def remove_twice(access, number, answers):
    """Remove an image in another process, then one that is not there."""
    removed = access()
    answers.put([removed.remove([number]), removed.remove([number])])


def test_what_one_process_removes_another_one_restores(index):
    with ImageSearch.open(index) as search:
        number, removed = search.add(np.full((16, 16, 3), 7, np.uint8)).added[0], RemovedItems(search)
        with share_removed_items(removed) as access:
            spawn = get_context("spawn")
            answers = spawn.Queue()
            process = spawn.Process(target=remove_twice, args=(access, number, answers))
            process.start()
            assert answers.get(timeout=60) == [([number], []), ([], [number])]
            process.join()
        assert search.entries([number]) == []
        assert removed.restore([number]) == ([number], [])
        assert search.entry(number).id == number


def write_pid_and_wait(listener):
    """Send the number of this process to the first connection, then wait."""
    stop_with_parent()
    connection, _ = listener.accept()
    connection.sendall(str(os.getpid()).encode())
    connection.close()
    signal.pause()


def read_pid(address):
    with socket.create_connection(address, timeout=60) as connection:
        return int(connection.recv(20))


def test_a_process_that_is_killed_is_replaced_and_all_end_with_the_block(caplog, until):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with further_processes(1, write_pid_and_wait, listener):
            first = read_pid(listener.getsockname())
            os.kill(first, signal.SIGKILL)
            second = read_pid(listener.getsockname())
            assert second != first
        assert "started again" in caplog.text
        with pytest.raises(ProcessLookupError):
            os.kill(second, 0)


def test_a_further_process_shows_what_the_first_one_adds(index):
    with (
        listen("127.0.0.1", 0) as listener,
        ImageSearch.open(index) as search,
        share_removed_items(RemovedItems(search)) as access,
        further_processes(1, _serve_further, listener, index, Settings(), None, access, False, None),
    ):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with urllib.request.urlopen(f"{url}/health", timeout=60) as reply:
            assert reply.status == 200
        number = search.add(np.full((16, 16, 3), 9, np.uint8)).added[0]
        with urllib.request.urlopen(f"{url}/search?id={number}&k=1", timeout=60) as reply:
            assert f'"id":{number},'.encode() in reply.read()
