"""Calls in processes; what is called is `exec`, which every process can import."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from ddsh.experiment.parallel import call_in_processes


def test_how_each_call_ended_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    note = tmp_path / "threads"
    calls = [
        f"import os; open({str(note)!r}, 'w').write(os.environ['OMP_NUM_THREADS'])",
        "from ddsh.errors import DdshError; raise DdshError('the input is wrong')",
        "import os; os._exit(3)",
        "import signal; signal.raise_signal(signal.SIGKILL)",
    ]
    ended = dict(call_in_processes(exec, [(code,) for code in calls], 2, 3))
    assert (ended[0], ended[1]) == (None, "the input is wrong")
    assert "code 3" in ended[2]
    assert "signal 9" in ended[3]
    assert note.read_text() == "3"
    assert "OMP_NUM_THREADS" not in os.environ


def test_processes_are_ended_when_nobody_waits_for_them_any_more():
    start = time.monotonic()
    with closing(call_in_processes(exec, [("pass",), ("import time; time.sleep(600)",)], 2, 1)) as ended:
        assert next(ended) == (0, None)
    assert time.monotonic() - start < 300


def test_a_call_ends_with_the_process_that_started_it(tmp_path):
    note = tmp_path / "pid"
    call = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"from ddsh.experiment.parallel import call_in_processes; list(call_in_processes(exec, [({call!r},)], 1, 1))"
    parent = subprocess.Popen([sys.executable, "-c", code])
    _wait_until(lambda: note.exists() and note.read_text())
    parent.kill()
    parent.wait()
    _wait_until(lambda: not _is_alive(int(note.read_text())))


def _wait_until(is_so):
    end = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
