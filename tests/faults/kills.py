"""Kill processes at random moments: training, indexing, refreshing, upgrading, and a service that is being changed.

``python tests/faults/kills.py 200`` kills 200 times. After every kill the folder must be whole; what the service has
acknowledged must be there; a training that is continued must give the codes of one that was not interrupted.
"""

import http.client
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))

import numpy as np
from kill_while_writing import kill_often
from PIL import Image

from ddsh import ImageSearch, Model, load
from ddsh.images import encode_png
from ddsh.methods.lsh import LSH

TOKEN = "a-token-of-24-characters"
CONTEXT = multiprocessing.get_context("forkserver")
PIXELS = np.random.default_rng(1).integers(0, 256, (40, 16, 16, 3), np.uint8)


def train(folder: Path, started: Connection, resume: bool) -> None:
    """Train a small network for some epochs, with a checkpoint after each; in a process of its own."""
    from ddsh.backbones import Backbone
    from ddsh.methods.dpsh import DPSH
    from ddsh.methods.training import Training

    data = load("sample")
    rows = np.arange(0, len(data), len(data) // 256)[:256]
    method = DPSH(16, training=Training(epochs=6, learning_rate=0.1, batch_size=64))
    model = Model(method, Backbone("small-grey", device="cpu"))
    started.send(True)
    model.fit(data.images.take(rows), data.labels.take(rows), checkpoints=folder / "checkpoints", resume=resume)
    codes = model.encode(data.images.take(rows)).packed
    np.save(folder / "codes.tmp.npy", codes)
    (folder / "codes.tmp.npy").rename(folder / "codes.npy")


def refresh(folder: Path, started: Connection) -> None:
    """Refresh an index whose files have changed; in a process of its own."""
    with ImageSearch.open(folder / "index", wait=30) as search:
        started.send(True)
        search.refresh()


def serve(folder: Path, started: Connection) -> None:
    """Serve an index; in a process of its own."""
    from ddsh.service import Settings
    from ddsh.service.server import serve as serve_index

    settings = Settings(token=TOKEN)
    serve_index(folder / "index", "127.0.0.1", 0, settings, on_start=lambda info: started.send(info.url))


def killed(target, seconds: float | None, *arguments: object):  # type: ignore[no-untyped-def]
    """Start a process, kill it some seconds after it has begun, and return what it sent and whether it was done."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=target, args=(arguments[0], there, *arguments[1:]))
    process.start()
    assert here.poll(120), "the process did not start"
    sent = here.recv()
    process.join(seconds)
    done = process.exitcode == 0
    process.kill()
    process.join()
    return sent, done


def kill_trainings(times: int, folder: Path, chance: random.Random) -> Counter[str]:
    """Kill trainings and continue them until they are done; compare the codes with those of one without a kill."""
    whole = folder / "whole"
    whole.mkdir()
    start = time.monotonic()
    killed(train, None, whole, False)
    longest, expected = time.monotonic() - start, np.load(whole / "codes.npy")
    counts: Counter[str] = Counter()
    number = 0
    while counts["killed"] < times:
        run = folder / f"run-{number}"
        run.mkdir()
        resume = False
        while not (run / "codes.npy").exists():
            _, done = killed(train, None if counts["killed"] >= times else chance.uniform(0, longest), run, resume)
            counts["done" if done else "killed"] += 1
            resume = True
        assert np.array_equal(np.load(run / "codes.npy"), expected), "a continued training gave other codes"
        number += 1
    return counts


def kill_refreshes(times: int, folder: Path, chance: random.Random) -> Counter[str]:
    """Change files, kill the refresh, and refresh again."""
    photos, counts = folder / "photos", Counter[str]()
    photos.mkdir()
    for number, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(photos / f"{number:02}.png")
    with ImageSearch.create(folder / "index", Model(LSH(16)).fit(PIXELS)) as search:
        search.add(photos)
    while counts["killed"] < times:
        for path in chance.sample(sorted(photos.iterdir()), 10):
            values = np.random.default_rng(chance.randrange(10**9)).integers(0, 256, (16, 16, 3), np.uint8)
            Image.fromarray(values).save(path)
        _, done = killed(refresh, chance.uniform(0, 0.3), folder)
        counts["done" if done else "killed"] += 1
        with ImageSearch.open(folder / "index") as search:
            assert search.verify() == []
            assert len(search.query(1, k=100)) == len(PIXELS)
            search.refresh()
            assert all(search.query(path, k=1)[0].distance == 0 for path in sorted(photos.iterdir())[:5])
    return counts


def kill_services(times: int, folder: Path, chance: random.Random) -> Counter[str]:
    """Add and remove images through a service until it is killed; all acknowledged changes must be there."""
    counts: Counter[str] = Counter()
    with ImageSearch.create(folder / "index", Model(LSH(16)).fit(PIXELS)) as search:
        search.add(list(PIXELS))
        present = set(search.ids(limit=1000))
    for _ in range(times):
        added: set[int] = set()
        removed: set[int] = set()
        asked: set[int] = set()
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=serve, args=(folder, there))
        process.start()
        assert here.poll(120), "the service did not start"
        port = int(here.recv().rsplit(":", 1)[1])
        stop = threading.Timer(chance.uniform(0, 1.5), process.kill)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "image/png"}
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            while True:
                if chance.random() < 0.7 or not present - asked:
                    values = np.random.default_rng(chance.randrange(10**9)).integers(0, 256, (16, 16, 3), np.uint8)
                    connection.request("POST", "/items", encode_png(values), headers)
                    reply = connection.getresponse()
                    body = reply.read()
                    assert reply.status == 201, body
                    added.add(int(body.split(b'"id":')[1].split(b",")[0]))
                else:
                    number = chance.choice(sorted(present - asked))
                    asked.add(number)
                    connection.request("DELETE", f"/items/{number}", headers=headers)
                    reply = connection.getresponse()
                    reply.read()
                    assert reply.status == 200
                    removed.add(number)
                if len(added) + len(removed) == 1:  # the clock runs from the first answer
                    stop.start()
        except (OSError, http.client.HTTPException):
            pass
        stop.join()
        process.join()
        with ImageSearch.open(folder / "index") as search:
            found = set(search.ids(limit=10**6))
            assert added <= found, "an acknowledged image is lost"
            assert not removed & found, "an acknowledged removal is undone"
            assert len(found - present - added) <= 1
            assert search.verify() == []
            assert len(search.query(min(found), k=10**6)) == len(found)
        present = found
        counts["killed"] += 1
        counts["acknowledged changes"] += len(added) + len(removed)
    return counts


def main() -> None:
    """Kill as often as the command line says, and print what happened."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    CONTEXT.set_forkserver_preload(["ddsh.search.engine", "ddsh.methods.dpsh", "ddsh.methods.lsh", "ddsh.service"])
    os.environ["OMP_NUM_THREADS"] = "1"
    chance, share = random.Random(seed), max(1, times // 5)
    folder = Path(tempfile.mkdtemp())
    for name, kill in (("serve", kill_services), ("refresh", kill_refreshes), ("train", kill_trainings)):
        (folder / name).mkdir()
        print(name, dict(kill(share, folder / name, chance)), flush=True)
    outcomes = kill_often(times - 3 * share, folder / "index", seed)
    print(
        "index and upgrade", dict(Counter(f"{each.job} {'done' if each.finished else 'killed'}" for each in outcomes))
    )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
