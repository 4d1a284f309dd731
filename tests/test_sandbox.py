"""Calls in a worker process: results, errors, limits, and what is left of a worker."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ddsh.errors import OverLimit, UnknownName
from ddsh.sandbox import Sandbox

FUNCTIONS = """
import os, signal, time
import numpy as np
from ddsh.errors import UnknownName

def work(data=b"", kind="echo", n=0):
    if kind == "echo": return data
    if kind == "array": return np.arange(n, dtype=np.int32).reshape(2, -1)
    if kind == "process": return str(os.getpid()).encode()
    if kind == "unknown": raise UnknownName("colour", "bleu", ["blue"])
    if kind == "bug": return 1 // 0
    if kind == "sleep": time.sleep(n)
    if kind == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "memory": return bytes(n)[:1]
    began = time.process_time()
    while kind == "burn" and time.process_time() < began + n: pass
    while kind == "loop": pass
    return b""
"""


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    (tmp_path / "functions_of_a_test.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Sandbox("functions_of_a_test:work", cpu_seconds=0.5, timeout=20, max_bytes=300_000_000) as made:
        yield made


def _process(sandbox: Sandbox) -> int:
    return int(sandbox.call(kind="process").tobytes())


def test_bytes_and_arrays_of_any_size_come_back(sandbox):
    for size in (0, 1, 5_000_000):
        assert sandbox.call(b"x" * size).tobytes() == b"x" * size
    for n in (2, 2_000_000):
        result = sandbox.call(kind="array", n=n)
        assert result.dtype == np.int32
        assert (result == np.arange(n, dtype=np.int32).reshape(2, -1)).all()


def test_a_worker_is_kept_for_the_next_call(sandbox):
    assert _process(sandbox) == _process(sandbox) != os.getpid()


def test_errors_of_the_function_keep_their_class_and_message_and_bugs_their_traceback(sandbox):
    with pytest.raises(UnknownName, match="Did you mean 'blue'"):
        sandbox.call(kind="unknown")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        sandbox.call(kind="bug")
    assert sandbox.call(b"still there").tobytes() == b"still there"


@pytest.mark.parametrize(
    ("kind", "n", "message"),
    [("loop", 0, "0.5 seconds of CPU time"), ("memory", 10**9, "memory"), ("crash", 0, "crashes the decoder")],
)
def test_a_call_beyond_its_limits_is_ended_and_the_next_one_works(sandbox, kind, n, message):
    with pytest.raises(OverLimit, match=message):
        sandbox.call(kind=kind, n=n)
    assert sandbox.call(b"again").tobytes() == b"again"


def test_cpu_time_is_counted_per_call(sandbox):
    for _ in range(3):
        sandbox.call(kind="burn", n=0.3)


def test_a_call_that_waits_too_long_is_ended(tmp_path, monkeypatch):
    (tmp_path / "functions_of_a_test.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Sandbox("functions_of_a_test:work", cpu_seconds=5, timeout=0.2, max_bytes=300_000_000) as sandbox:
        with pytest.raises(OverLimit, match=r"longer than 0\.2 seconds"):
            sandbox.call(kind="sleep", n=1000)
        assert sandbox.call(b"again").tobytes() == b"again"


def test_closing_ends_the_calls_in_progress_and_refuses_new_ones(sandbox):
    outcomes: list[BaseException] = []

    def wait() -> None:
        try:
            sandbox.call(kind="sleep", n=1000)
        except OverLimit as error:
            outcomes.append(error)

    sandbox.start()
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    sandbox.close()
    thread.join(30)
    assert not thread.is_alive()
    assert len(outcomes) == 1
    with pytest.raises(OverLimit, match="stopped"):
        sandbox.call(b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_ignores_signals_meant_for_its_parent(sandbox, number):
    process = _process(sandbox)
    os.kill(process, number)
    assert _process(sandbox) == process


def test_a_worker_ends_with_its_parent(sandbox, tmp_path):
    code = (
        "import os, signal; from ddsh.sandbox import Sandbox\n"
        "box = Sandbox('functions_of_a_test:work', cpu_seconds=5, timeout=20, max_bytes=10**9)\n"
        "print(box.call(kind='process').tobytes().decode(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    worker = Path(f"/proc/{int(run.stdout)}")
    deadline = time.monotonic() + 30
    while worker.exists() and "\nState:\tZ" not in (worker / "status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_threads_get_two_workers(sandbox):
    found: set[int] = set()
    together = threading.Barrier(2)

    def ask() -> None:
        together.wait()
        sandbox.call(kind="sleep", n=0.2)
        found.add(_process(sandbox))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
