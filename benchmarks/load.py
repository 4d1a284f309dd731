"""A service under mixed load: searches, uploads, new images and removals, beside a bare FastAPI endpoint.

Usage: ``python benchmarks/load.py FOLDER [--minutes M] [--entries N] [--clients C] [--index INDEX] [--out FILE]``;
FOLDER holds the authors' codes. Every client waits for an answer before it asks again; after each request it sends one
to the bare endpoint, so that other load meets both. The exit code is 1 if a request fails, a change is lost or the
memory grows.
"""

import argparse
import http.client
import io
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from large_index import make_index
from PIL import Image
from service import BARE, Server

TOKEN = "a-token-of-24-characters"  # noqa: S105 -- of a service that lives as long as this script
SHARES = {"search": 70, "upload": 15, "add": 8, "remove": 7}
"""Of 100 requests."""

_IDLE_SECONDS = 3.0
MAX_GROWTH = 1.1
"""Of the median memory of the last third of the run over that of the second."""


class Client(threading.Thread):
    """One client of both servers; it removes only images that it has added."""

    def __init__(self, ports: tuple[int, int], n_entries: int, until: float, seed: int) -> None:
        super().__init__()
        self.ports, self.n_entries, self.until, self.seed = ports, n_entries, until, seed
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.last_used = dict.fromkeys(ports, 0.0)
        self.failures: list[str] = []
        self.own: set[int] = set()
        self.removed: set[int] = set()

    def run(self) -> None:
        """Send requests until the time is over."""
        chance = random.Random(self.seed)  # noqa: S311
        values = np.random.default_rng(self.seed)
        ours, bare = (http.client.HTTPConnection("127.0.0.1", port, timeout=60) for port in self.ports)
        while time.monotonic() < self.until:
            kind = chance.choices(list(SHARES), list(SHARES.values()))[0]
            if kind == "remove" and not self.own:
                kind = "add"
            if kind == "search":
                self.ask(ours, kind, "GET", f"/search?id={chance.randrange(self.n_entries)}")
            elif kind == "remove":
                number = chance.choice(sorted(self.own))
                if self.ask(ours, kind, "DELETE", f"/items/{number}") is not None:
                    self.own.discard(number)
                    self.removed.add(number)
            else:
                file = io.BytesIO()
                Image.fromarray(values.integers(0, 256, (96, 128, 3), np.uint8)).save(file, "JPEG")
                answer = self.ask(ours, kind, "POST", "/search" if kind == "upload" else "/items", file.getvalue())
                if kind == "add" and answer is not None:
                    self.own.add(answer["id"])
            self.ask(bare, "bare", "GET", "/search?id=1&k=20")

    def ask(
        self, server: http.client.HTTPConnection, kind: str, method: str, path: str, body: bytes | None = None
    ) -> Any:  # noqa: ANN401 -- anything of JSON
        """Send a request; note its time and return the answer, or note the failure."""
        if time.monotonic() - self.last_used[server.port] > _IDLE_SECONDS:
            server.close()  # before the server does; the next request opens it again
        started = time.perf_counter()
        try:
            server.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
            response = server.getresponse()
            content = response.read()
            if response.status not in (200, 201):
                raise OSError(f"{response.status} {content[:200]!r}")
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"{kind} {path}: {error}")
            server.close()
            return None
        self.seconds[kind].append(time.perf_counter() - started)
        self.last_used[server.port] = time.monotonic()
        return json.loads(content)


def memory_of(process: int) -> float:
    """Return the resident memory of a process in megabytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1e3


def run_load(ours: Server, ports: tuple[int, int], n_entries: int, seconds: float, n_clients: int) -> dict[str, Any]:
    """Run all clients, and return latencies, failures, lost changes and memory."""
    until = time.monotonic() + seconds
    clients = [Client(ports, n_entries, until, seed) for seed in range(n_clients)]
    for client in clients:
        client.start()
    memory = []
    while any(client.is_alive() for client in clients):
        memory.append(memory_of(ours.process.pid))
        time.sleep(seconds / 100)
    ours.connection.close()  # it was idle, so the service has closed it
    n_lost = 0
    for client in clients:
        for number, status in [*((each, 200) for each in client.own), *((each, 404) for each in client.removed)]:
            ours.connection.request("GET", f"/items/{number}")
            response = ours.connection.getresponse()
            response.read()
            n_lost += response.status != status
    times = {kind: sorted(each for client in clients for each in client.seconds[kind]) for kind in (*SHARES, "bare")}
    points = {kind: [each[len(each) // 2], each[len(each) * 99 // 100]] for kind, each in times.items() if each}
    third = len(memory) // 3
    return {
        "requests": {kind: len(each) for kind, each in times.items()},
        "failures": [line for client in clients for line in client.failures][:20],
        "lost changes": n_lost,
        "milliseconds, p50 and p99": {kind: [round(1e3 * each, 2) for each in pair] for kind, pair in points.items()},
        "times the bare endpoint": {
            kind: [round(mine / its, 1) for mine, its in zip(pair, points["bare"], strict=True)]
            for kind, pair in points.items()
        },
        "MB": [
            round(memory[0]),
            round(statistics.median(memory[third : 2 * third])),
            round(statistics.median(memory[2 * third :])),
        ],
    }


def main() -> int:
    """Run the load and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--index", type=Path, help="an index that large_index.py made; it is changed")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    os.environ["DDSH_TOKEN"] = TOKEN
    with tempfile.TemporaryDirectory() as folder:
        index = given.index or Path(folder) / "index"
        if given.index is None:
            make_index(index, given.codes, given.entries)
        ports = (18_000 + os.getpid() % 10_000, 18_001 + os.getpid() % 10_000)
        ours = Server([sys.executable, "-m", "ddsh", "serve", str(index), "--port", str(ports[0])], ports[0])
        try:
            for _ in range(50):  # the compiled kernels are loaded in the background
                body = ours.get("/search?id=1&k=20").decode()
                time.sleep(0.1)
            (Path(folder) / "bodies.json").write_text(json.dumps({20: body}))
            program = [sys.executable, "-c", BARE, str(Path(folder) / "bodies.json"), str(ports[1])]
            bare = Server(program, ports[1])
            try:
                outcome = run_load(ours, ports, given.entries, 60 * given.minutes, given.clients)
            finally:
                bare.close()
        finally:
            ours.close()
    print(json.dumps(outcome, indent=2))
    given.out.write_text(json.dumps({"entries": given.entries, "minutes": given.minutes, **outcome}, indent=2) + "\n")
    grown = outcome["MB"][2] > MAX_GROWTH * outcome["MB"][1]
    return int(bool(outcome["failures"] or outcome["lost changes"] or grown))


if __name__ == "__main__":
    sys.exit(main())
