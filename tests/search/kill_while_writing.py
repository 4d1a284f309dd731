"""Kill a process at random moments while it adds or removes images or upgrades the index, and see what is left.

``python tests/search/kill_while_writing.py 50`` does so fifty times; the test suite does it ten times.
"""

import multiprocessing
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from PIL import Image
from small_photos import COLOURS, draw

from ddsh import ImageSearch
from ddsh.methods.lsh import LSH
from ddsh.model import Model

BATCH = 128
N_PHOTOS = 5 * BATCH


@dataclass(frozen=True)
class Outcome:
    """What one kill left: how many images there were before and after, and whether the process was done already."""

    job: str
    before: int
    after: int
    finished: bool


def work(job: str, folder: Path, photos: Path, started: Connection) -> None:
    """Add all photos, remove all but the first hundred, or upgrade to the other model; in a process of its own."""
    with ImageSearch.open(folder, wait=30) as search:
        started.send(True)
        if job == "add":
            search.add(photos)
        elif job == "upgrade":
            search.upgrade(_model(48 if search.n_bits == 32 else 32))
        else:
            search.remove(search.ids(after=search.ids(limit=100)[-1], limit=10**6))


def kill_often(times: int, folder: Path, seed: int) -> list[Outcome]:
    """Kill so many writers at work, check the folder after each, and let a last one finish."""
    rng, photos = random.Random(seed), folder / "photos"
    _write_photos(photos)
    _make_index(folder)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ddsh.search.engine", "ddsh.methods.lsh", "ddsh.index.buckets"])
    longest = {job: _run(context, job, folder, photos, None) for job in ("add", "upgrade", "remove")}
    outcomes: list[Outcome] = []
    while sum(not outcome.finished for outcome in outcomes) < times:
        before = _count(folder)
        job = "remove" if before > 4 * BATCH or (before > 100 and rng.random() < 0.2) else "add"
        job = "upgrade" if rng.random() < 0.3 else job
        took = _run(context, job, folder, photos, rng.uniform(0, longest[job]))
        outcomes.append(Outcome(job, before, check(folder), took >= 0))
        assert len(outcomes) < 10 * times, "hardly any process was killed at work"
    _run(context, "add", folder, photos, None)
    assert check(folder) == N_PHOTOS, "a rerun did not complete"
    return outcomes


def check(folder: Path) -> int:
    """Return how many images there are, after all that can be compared was found to agree."""
    with ImageSearch.open(folder / "index", wait=0.1) as search:
        ids = search.ids(limit=10**6)
        info = search.info()
        everything = search.query(np.zeros((16, 16, 3), np.uint8), k=10**6)
        assert sorted(hit.id for hit in everything) == ids
        assert len(search) == len(ids) == info.n_images
        assert info.n_contents == len({hit.entry.sha256 for hit in everything})
        for hit in everything[:: max(1, len(everything) // 5)]:
            assert search.query(hit.path, k=1)[0].distance == 0
            assert search.query(hit.path, k=10**6, radius=0)[0].bits == hit.bits
    return len(ids)


def _run(context, job: str, folder: Path, photos: Path, seconds: float | None) -> float:  # type: ignore[no-untyped-def]
    """Let a process work, for some seconds or until it is done; return how long it took, or -1 if it was killed."""
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(job, folder / "index", photos, there))
    process.start()
    assert here.poll(60), "the process did not start"
    start = time.monotonic()
    process.join(seconds if seconds is not None else 120)
    took = time.monotonic() - start if process.exitcode == 0 else -1.0
    process.kill()
    process.join()
    here.close()
    there.close()
    return took


def _count(folder: Path) -> int:
    with ImageSearch.open(folder / "index") as search:
        return len(search)


def _write_photos(folder: Path) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for number in range(N_PHOTOS):
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        Image.fromarray(draw(rng, colour)).save(folder / f"{number:04}.png", compress_level=0)


def _make_index(folder: Path) -> None:
    ImageSearch.create(folder / "index", _model(32)).close()


def _model(n_bits: int) -> Model:
    rng = np.random.default_rng(1)
    pixels = np.stack([draw(rng, colour) for colour in COLOURS.values()])
    return Model(LSH(n_bits=n_bits)).fit(pixels)


def main() -> None:
    """Kill as many times as the command line says, and print what each left."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        outcomes = kill_often(times, Path(folder), seed=int(time.time()))
    for number, outcome in enumerate(outcomes, 1):
        state = "was done" if outcome.finished else "killed"
        print(f"{number:3} {outcome.job:6} {state:8} {outcome.before:4} -> {outcome.after:4} images")  # noqa: T201
    print(f"{times} were killed at work; every folder opened whole, and the last rerun completed")  # noqa: T201


if __name__ == "__main__":
    main()
