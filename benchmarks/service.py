"""CPU time of the search service per request, beside a bare FastAPI endpoint that returns the same JSON.

Usage: ``python benchmarks/service.py FOLDER [--quick] [--index INDEX] [--out FILE]``; FOLDER holds the authors' codes.
Both servers run in processes of their own, with the same uvicorn settings and one keep-alive connection; requests to
them alternate, so that other load meets both. The codes of the index are scaled up from real ones, label bits and look
bits alike (large_index.py). Then eight connections ask as fast as they can, one process and two; that is wall-clock
time and needs a machine without other work. The exit code is 1 if a target is missed. Linux only.
"""

import argparse
import http.client
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from decoding import cpu_of
from json_file import json_file
from large_index import make_index

TARGETS = {20: 1.0, 100: 2.0}
"""Milliseconds of CPU time per request, by number of results."""

LEAST_SHARE = 0.5
"""Of the rate of the bare endpoint."""

LEAST_GAIN = 1.8
"""Rate of two processes to that of one, on two cores."""

BARE = """
import json, sys, uvicorn
from fastapi import FastAPI
app, content = FastAPI(), {int(k): json.loads(body) for k, body in json.load(open(sys.argv[1])).items()}

@app.get("/search")
async def search(id: int, k: int = 20):
    return content[k]

uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", loop="asyncio", http="h11")
"""


class Server:
    """A server process and one connection to it."""

    def __init__(self, command: list[str], port: int) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(1200):
            try:
                self.connection.connect()
                return
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit(f"{command[0]} ended with code {self.process.returncode}") from None
                time.sleep(0.1)
        raise SystemExit("a server did not start")

    def get(self, path: str) -> bytes:
        """Return the body of a response."""
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return body

    def close(self) -> None:
        """Stop the server."""
        self.connection.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def measure(ours: Server, bare: Server, k: int, n_entries: int, n_requests: int) -> dict[str, Any]:
    """Return the CPU time per request of both servers in milliseconds, from requests in turns."""
    rng = random.Random(0)  # noqa: S311
    before = cpu_of(ours.process.pid), cpu_of(bare.process.pid)
    for _ in range(n_requests):
        for _ in range(10):  # /proc counts in hundredths of a second
            ours.get(f"/search?id={rng.randrange(n_entries)}&k={k}")
        for _ in range(10):
            bare.get(f"/search?id={rng.randrange(n_entries)}&k={k}")
    after = cpu_of(ours.process.pid), cpu_of(bare.process.pid)
    mine, theirs = (1e3 * (end - start) / (10 * n_requests) for start, end in zip(before, after, strict=True))
    return {
        "k": k,
        "ms": round(mine, 2),
        "bare ms": round(theirs, 2),
        "share of the bare rate": round(theirs / mine, 2),
    }


def rate(port: int, n_entries: int, seconds: float) -> float:
    """Return the requests per second of eight connections, each of which asks again when it has its answer."""
    rng, count = random.Random(1), 0  # noqa: S311
    chosen = selectors.DefaultSelector()

    def ask(connection: socket.socket) -> None:
        query = f"GET /search?id={rng.randrange(n_entries)}&k=20 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        connection.sendall(query.encode())

    received: dict[int, bytes] = {}
    for _ in range(8):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        chosen.register(connection, selectors.EVENT_READ, connection)
        received[connection.fileno()] = b""
        ask(connection)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in chosen.select(1):
            content = received[key.fd] + key.data.recv(1 << 18)
            head, blank, body = content.partition(b"\r\n\r\n")
            received[key.fd] = content
            if blank and len(body) >= int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]):
                assert head.startswith(b"HTTP/1.1 200"), head
                received[key.fd] = b""
                count += 1
                ask(key.data)
    for key in list(chosen.get_map().values()):
        key.data.close()
    return count / seconds


def warm_up(server: Server, n_times: int) -> None:
    """Ask until the compiled kernels are loaded, which happens in the background."""
    for _ in range(n_times):
        server.get("/search?id=1&k=20")
        time.sleep(0.1)


def measure_processes(index: Path, port: int, n_entries: int, *, quick: bool) -> dict[str, Any]:
    """Return the rates of one process and of two."""
    rates = []
    for processes in (1, 2):
        command = [sys.executable, "-m", "ddsh", "serve", str(index), "--port", str(port + processes)]
        server = Server([*command, "--processes", str(processes)], port + processes)
        try:
            warm_up(server, 100 if quick else 300)
            rate(port + processes, n_entries, 5)  # the second process loads its kernels by its own searches
            rates.append(rate(port + processes, n_entries, 3 if quick else 10))
        finally:
            server.close()
    return {"one process": round(rates[0]), "two processes": round(rates[1]), "gain": round(rates[1] / rates[0], 2)}


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=Path)
    parser.add_argument("--quick", action="store_true", help="100,000 entries instead of a million, fewer requests")
    parser.add_argument("--index", type=Path, help="an index that large_index.py made")
    parser.add_argument("--out", type=Path, help="JSON file; beside this one, or in build/ with --quick")
    given = parser.parse_args()
    out = given.out or json_file(__file__, quick=given.quick)
    n_entries, n_requests = (100_000, 20) if given.quick else (1_000_000, 100)
    with tempfile.TemporaryDirectory() as folder:
        index = given.index or Path(folder) / "index"
        if given.index is None:
            make_index(index, given.codes, n_entries)
        port = 18_000 + os.getpid() % 10_000
        ours = Server([sys.executable, "-m", "ddsh", "serve", str(index), "--port", str(port)], port)
        try:
            warm_up(ours, 100 if given.quick else 300)
            bodies = {k: ours.get(f"/search?id=1&k={k}").decode() for k in TARGETS}
            (Path(folder) / "bodies.json").write_text(json.dumps(bodies))
            program = [sys.executable, "-c", BARE, str(Path(folder) / "bodies.json"), str(port + 1)]
            bare = Server(program, port + 1)
            try:
                rows = [measure(ours, bare, k, n_entries, n_requests) for k in TARGETS]
            finally:
                bare.close()
        finally:
            ours.close()
        processes = measure_processes(index, port + 2, n_entries, quick=given.quick)
    missed = []
    for row in rows:
        print(row)
        if row["ms"] > TARGETS[row["k"]]:
            missed.append(f"k={row['k']}: {row['ms']} ms of CPU time, the target is {TARGETS[row['k']]}")
        if row["share of the bare rate"] < LEAST_SHARE:
            missed.append(f"k={row['k']}: {row['share of the bare rate']} of the bare rate, target {LEAST_SHARE}")
    print(processes)
    if processes["gain"] < LEAST_GAIN:
        missed.append(f"two processes answer {processes['gain']} times as many requests, the target is {LEAST_GAIN}")
    content = {"n_entries": n_entries, "requests": rows, "processes": processes, "missed": missed}
    out.write_text(json.dumps(content, indent=2) + "\n")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
