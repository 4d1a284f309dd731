"""CPU time of the search service per request, beside a bare FastAPI endpoint that returns the same JSON.

Usage: ``python benchmarks/service.py FOLDER [--quick] [--index INDEX] [--out FILE]``; FOLDER holds the authors' codes.
Both servers run in processes of their own, with the same uvicorn settings and one keep-alive connection; requests to
them alternate, so that other load meets both. The exit code is 1 if a target is missed. Linux only.
"""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from decoding import cpu_of
from large_index import make_index

TARGETS = {20: 1.0, 100: 2.0}
"""Milliseconds of CPU time per request, by number of results."""

LEAST_SHARE = 0.5
"""Of the rate of the bare endpoint."""

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


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=Path)
    parser.add_argument("--quick", action="store_true", help="100,000 entries instead of a million, fewer requests")
    parser.add_argument("--index", type=Path, help="an index that large_index.py made")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    n_entries, n_requests = (100_000, 20) if given.quick else (1_000_000, 100)
    with tempfile.TemporaryDirectory() as folder:
        index = given.index or Path(folder) / "index"
        if given.index is None:
            make_index(index, given.codes, n_entries)
        port = 18_000 + os.getpid() % 10_000
        ours = Server([sys.executable, "-m", "ddsh", "serve", str(index), "--port", str(port)], port)
        try:
            for _ in range(100 if given.quick else 300):  # the compiled kernels are loaded in the background
                ours.get("/search?id=1&k=20")
                time.sleep(0.1)
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
    missed = []
    for row in rows:
        print(row)
        if row["ms"] > TARGETS[row["k"]]:
            missed.append(f"k={row['k']}: {row['ms']} ms of CPU time, the target is {TARGETS[row['k']]}")
        if row["share of the bare rate"] < LEAST_SHARE:
            missed.append(f"k={row['k']}: {row['share of the bare rate']} of the bare rate, target {LEAST_SHARE}")
    given.out.write_text(json.dumps({"n_entries": n_entries, "requests": rows, "missed": missed}, indent=2) + "\n")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
