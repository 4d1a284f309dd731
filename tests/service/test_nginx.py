"""Two services on one PostgreSQL store behind nginx answer as one, and can be restarted one after the other."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ddsh.methods.lsh import LSH
from ddsh.model import Model
from ddsh.search import ImageSearch

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
TOKEN = "a-token-of-24-characters"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt-get install nginx-light)")


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Cluster:
    """Two ``ddsh serve``, and nginx with the configuration of deploy/nginx.conf before them."""

    def __init__(self, store, folder):
        self.store, self.folder = store, folder
        self.port, *self.ports = free_ports(3)
        self.services = [self.start_service(place) for place in (0, 1)]
        self.wait(0)
        self.wait(1)
        text = CONFIGURATION.read_text()
        for before, after in zip((8080, 8001, 8002), (self.port, *self.ports), strict=True):
            assert str(before) in text
            text = text.replace(f"127.0.0.1:{before}", f"127.0.0.1:{after}")
        (folder / "ddsh.conf").write_text(text)
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"{'user root;' if os.getuid() == 0 else ''} daemon off; pid {folder}/pid; error_log stderr;"
            f" events {{}} http {{ access_log off; {temporary} include {folder}/ddsh.conf; }}"
        )
        self.nginx = subprocess.Popen(
            [NGINX, "-c", str(folder / "nginx.conf"), "-e", "stderr"], stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while True:
            assert self.nginx.poll() is None, self.nginx.stderr.read()
            assert time.monotonic() < deadline
            try:
                assert ask(self.port, "GET", "/health")[0] == 200
                return
            except OSError:
                time.sleep(0.05)

    def start_service(self, place):
        environment = os.environ | {"DDSH_TOKEN": TOKEN, "XDG_CACHE_HOME": str(self.folder / f"cache-{place}")}
        command = [sys.executable, "-m", "ddsh", "serve", "--store", self.store, "--port", str(self.ports[place])]
        with self.log(place).open("w") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def log(self, place):
        return self.folder / f"service-{place}.log"

    def wait(self, place):
        """Wait until a service serves."""
        deadline = time.monotonic() + 120
        while "Serving " not in self.log(place).read_text():
            assert self.services[place].poll() is None, self.log(place).read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def restart(self, place):
        self.services[place].send_signal(signal.SIGTERM)
        assert self.services[place].wait(120) == 0
        self.services[place] = self.start_service(place)
        self.wait(place)

    def stop(self):
        for process in (self.nginx, *self.services):
            process.terminate()
            process.wait(60)
        self.nginx.stderr.close()


@pytest.fixture
def cluster(postgres, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3), np.uint8)
    with ImageSearch.create(postgres, Model(LSH(16)).fit(pixels)) as search:
        search.add(pixels[0])
    made = Cluster(postgres.replace("postgres:@", "postgres@"), tmp_path)
    yield made
    made.stop()


def test_no_request_fails_while_services_are_restarted_one_after_the_other(cluster, png, rng):
    failed, added = [], []
    done = threading.Event()

    def work(number):
        mine = np.random.default_rng(1000 + number)
        while not done.is_set():
            status, body = ask(
                cluster.port, "POST", "/items?label=new", png(mine.integers(0, 256, (16, 16, 3), np.uint8))
            )
            if status in (200, 201):
                added.append(json.loads(body)["id"])
            else:
                failed.append((status, body))
            status, body = ask(cluster.port, "GET", "/search?id=1&k=5")
            if status != 200:
                failed.append((status, body))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for place in (0, 1):
            cluster.restart(place)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed, failed[:3]
    assert len(added) > 10
    answers = [
        json.loads(ask(port, "GET", "/search?id=1&k=1000")[1])["hits"] for port in (cluster.port, *cluster.ports)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert sorted(hit["id"] for hit in answers[0]) == sorted([1, *added])
