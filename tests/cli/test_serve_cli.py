"""The serve command: the installed program, and its main function, which starts faster."""

import errno
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddsh import ImageSearch, Model
from ddsh.methods.lsh import LSH

PROGRAM = Path(sys.executable).with_name("ddsh")
PATIENCE = 60


def fails_in_one_line(outcome, *words):
    """Check for exit code 2 and one line on stderr that contains these words."""
    assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1), outcome
    for word in words:
        assert word in outcome.stderr


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def index(tmp_path_factory, photo):
    folder = tmp_path_factory.mktemp("serve")
    pixels = np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), np.uint8)
    Model(LSH(n_bits=16)).fit(pixels).save(folder / "model")
    with ImageSearch.create(folder / "index", folder / "model") as search:
        search.add([photo])
    return folder / "index"


@pytest.fixture
def serve(index):
    """Start the program and return it with the line it prints."""
    started = []

    def start(*arguments, **environment):
        process = subprocess.Popen(
            [PROGRAM, "serve", index, "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process, process.stdout.readline()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_request_in_progress_is_answered_before_the_service_stops(serve, photo):
    process, line = serve(DDSH_TOKEN="")
    port = re.match(r"Serving 1 image \(16 bits, read-only\) at http://127\.0\.0\.1:(\d+)\.", line)[1]
    with closing(http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)) as connection:
        connection.request("GET", "/ready")
        assert connection.getresponse().read() == b'{"n_images":1,"status":"ready"}'
        data = photo.read_bytes()
        connection.putrequest("POST", "/search")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data[:10])
        process.send_signal(signal.SIGTERM)
        _until_refused(int(port))
        connection.send(data[10:])
        assert connection.getresponse().status == 200
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == ""


def _until_refused(port):
    """Wait until the service takes no new connections."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.05).close()
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("the service does not stop")


def test_ctrl_c_stops_the_service_and_a_token_allows_changes(serve):
    process, line = serve("--access-log", DDSH_TOKEN="a-token-of-24-characters")
    assert "changes need the token" in line
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    errors = process.stderr.read()
    assert errors.endswith("ddsh: stopped.\n")
    assert "Traceback" not in errors
    assert "token-of" not in line + errors


def test_several_processes_stop_together(serve):
    process, line = serve("--processes", "2")
    port = int(re.search(r":(\d+)\.", line)[1])
    for _ in range(10):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", "/ready")
            assert connection.getresponse().status == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == ""  # which ends when no process has it open any more
    _until_refused(port)


def test_log_lines_are_json_and_have_the_id_of_the_request(serve):
    process, line = serve("--access-log", "--log-json")
    port = int(re.search(r":(\d+)\.", line)[1])
    for path, given in (("/health", "from-the-proxy"), ("/items/99", 'no id "\\')):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", path, headers={"X-Request-ID": given})
            reply = connection.getresponse()
            reply.read()
        chosen = reply.headers["x-request-id"]
        assert (chosen == given) is (path == "/health")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    records = [json.loads(each) for each in process.stderr.read().splitlines()]
    first, second = (record for record in records if record["logger"] == "ddsh.service.access")
    assert (first["request_id"], first["status"], first["route"]) == ("from-the-proxy", 200, "/health")
    assert (second["request_id"], second["status"], second["path"]) == (chosen, 404, "/items/99")


def test_an_address_that_others_can_reach_gets_a_warning(serve):
    process, line = serve("--host", "0.0.0.0")
    assert "http://0.0.0.0:" in line
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert "warning" in process.stderr.read()


def test_a_missing_index_is_one_line(ddsh, tmp_path):
    fails_in_one_line(ddsh("serve", tmp_path / "nothing", "--port", 0), "nothing", "ddsh index")


def test_a_folder_or_a_file_that_is_no_index_is_one_line(ddsh, tmp_path):
    (tmp_path / "file").write_text("no index")
    for path in (tmp_path, tmp_path / "file"):
        fails_in_one_line(ddsh("serve", path, "--port", 0), str(path), "ddsh index")


def test_a_port_without_permission_is_one_line(ddsh, index, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    fails_in_one_line(ddsh("serve", index, "--port", 80), "Cannot listen", "Permission denied", "--port")


def test_importing_the_command_loads_nothing_heavy():
    code = "import sys, ddsh.cli.serve; print(*sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(outcome.stdout.split()) & {"fastapi", "uvicorn", "torch", "ddsh.service", "ddsh.search.engine"}


def test_a_port_that_is_taken_is_one_line(ddsh, index):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        fails_in_one_line(ddsh("serve", index, "--port", port), f"Port {port}", "in use", "--port")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "not a host", "a..b", "é" * 70])
def test_an_unknown_host_is_one_line(ddsh, index, host):
    fails_in_one_line(ddsh("serve", index, "--host", host, "--port", 0), "is unknown", "127.0.0.1")


def test_a_host_of_another_machine_is_one_line(ddsh, index):
    fails_in_one_line(ddsh("serve", index, "--host", "192.0.2.1", "--port", 0), "Cannot listen on 192.0.2.1")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--timeout", "0"), "timeout"),
        (("--max-upload-mb", "0"), "max-upload-mb"),
        (("--max-megapixels", "1000"), "max-megapixels"),
        (("--workers", "0"), "workers"),
        (("--max-waiting", "-1"), "max-waiting"),
        (("--port", "70000"), "port"),
        (("--token-file", "/no/such/file"), "token file"),
        (("--allow-host", "http://a.example", "--port", "0"), "without a port"),
    ],
)
def test_invalid_options_are_one_line(ddsh, index, arguments, word):
    fails_in_one_line(ddsh("serve", index, *arguments), word)


def test_a_weak_token_is_one_line(ddsh, index, tmp_path):
    (tmp_path / "token").write_text("secret")
    outcome = ddsh("serve", index, "--token-file", tmp_path / "token")
    fails_in_one_line(outcome, "16 or more", "secrets.token_urlsafe")


def test_without_the_extra_one_line_says_what_to_install(index):
    code = "import sys; sys.modules['fastapi'] = None; from ddsh.cli import main; main()"
    outcome = subprocess.run([sys.executable, "-c", code, "serve", index], capture_output=True, text=True)
    fails_in_one_line(outcome, "fastapi", "pip install 'ddsh[service]'")
