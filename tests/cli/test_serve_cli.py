"""Serving as an operator meets it: the installed program, and its main function, which starts faster."""

import http.client
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
from one_line import fails_in_one_line
from PIL import Image

from ddsh import ImageSearch
from ddsh.methods import save_model
from ddsh.methods.lsh import LSH

PROGRAM = Path(sys.executable).with_name("ddsh")
PATIENCE = 60


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def index(tmp_path_factory, photo):
    folder = tmp_path_factory.mktemp("serve")
    save_model(LSH(n_bits=16).fit(np.random.default_rng(0).random((30, 12 * 12 * 3))), folder / "model")
    with ImageSearch.create(folder / "index", folder / "model") as search:
        search.add([photo])
    return folder / "index"


@pytest.fixture
def serve(index):
    """Start the program and return it with the line it prints; it is killed in the end."""
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


def test_a_request_under_way_is_answered_before_the_service_stops(serve, photo):
    process, line = serve(DDSH_TOKEN="")
    url, port = re.match(r"(http://127\.0\.0\.1:(\d+)): 1 images of 16 bits, read-only", line).groups()
    assert url in line
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


def test_serving_other_machines_is_warned_of(serve):
    process, line = serve("--host", "0.0.0.0")
    assert line.startswith("http://0.0.0.0:")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert "warning" in process.stderr.read()


def test_an_index_that_is_not_there_is_one_line(ddsh, tmp_path):
    fails_in_one_line(ddsh("serve", tmp_path / "nothing", "--port", 0), "nothing", "ddsh index")


def test_a_port_that_is_taken_is_one_line(ddsh, index):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        fails_in_one_line(ddsh("serve", index, "--port", port), f"Port {port}", "is taken", "--port")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "not a host", "a..b", "é" * 70])
def test_a_host_that_is_not_known_is_one_line(ddsh, index, host):
    fails_in_one_line(ddsh("serve", index, "--host", host, "--port", 0), "is not known", "127.0.0.1")


def test_a_host_of_another_machine_is_one_line(ddsh, index):
    fails_in_one_line(ddsh("serve", index, "--host", "192.0.2.1", "--port", 0), "Cannot listen on 192.0.2.1")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--timeout", "0"), "timeout"),
        (("--max-upload-mb", "0"), "max-upload-mb"),
        (("--max-megapixels", "1000"), "max-megapixels"),
        (("--encodes", "0"), "encodes"),
        (("--port", "70000"), "port"),
        (("--token-file", "/no/such/file"), "token file"),
        (("--allow-host", "http://a.example", "--port", "0"), "without a port"),
    ],
)
def test_options_that_make_no_sense_are_one_line(ddsh, index, arguments, word):
    fails_in_one_line(ddsh("serve", index, *arguments), word)


def test_a_token_that_is_easily_guessed_is_one_line(ddsh, index, tmp_path):
    (tmp_path / "token").write_text("secret")
    outcome = ddsh("serve", index, "--token-file", tmp_path / "token")
    fails_in_one_line(outcome, "16 or more", "secrets.token_urlsafe")


def test_without_the_extra_one_line_says_what_to_install(index):
    code = "import sys; sys.modules['fastapi'] = None; from ddsh.cli import main; main()"
    outcome = subprocess.run([sys.executable, "-c", code, "serve", index], capture_output=True, text=True)
    fails_in_one_line(outcome, "fastapi", "pip install 'ddsh[service]'")
