"""Encoding on Ray: a killed worker and a killed driver lose nothing, and nothing is encoded twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddsh.distributed.encoder import ShardEncoder, read_model
from ddsh.distributed.parts import to_parquet
from ddsh.distributed.shards import find_shards
from ddsh.errors import Unavailable
from ddsh.search.address import open_store

pytest.importorskip("ray", reason="needs ddsh[ray]")

from ddsh.distributed.ray import encode_to_parquet

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

DRIVER = """
import sys
import ray
from ddsh.distributed.ray import encode_to_parquet, encode_to_store
from ddsh.distributed.shards import find_shards
from ddsh.search import ImageSearch

model, photos, out, store = sys.argv[1:]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
shards = find_shards(photos, size=2)
print(encode_to_parquet(model, shards, out).n_known)
ImageSearch.create(store, model).close()
for _ in range(2):
    report = encode_to_store(store, shards, wait=5)
    print(report.n_images, report.n_known, *(skipped.path for skipped in report.broken))
"""


def _start(*arguments):
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _workers(driver):
    """The processes below a driver that encode."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:
            continue
    found = []
    for process, name in names.items():
        above = process
        while above not in (0, driver):
            above = parents.get(above, 0)
        if above == driver and name.startswith(b"ray::MapWorker"):
            found.append(process)
    return found


def _wait_for(driver, out, n_parts):
    deadline = time.monotonic() + 900
    while len(list(out.glob("part-*"))) < n_parts:
        assert driver.poll() is None, driver.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cluster_that_cannot_be_reached_is_one_line(model, photos, tmp_path):
    with pytest.raises(Unavailable, match=r"The Ray cluster 127\.0\.0\.1:1 cannot be reached") as caught:
        encode_to_parquet(model, find_shards(str(photos)), str(tmp_path / "out"), cluster="127.0.0.1:1")
    assert "\n" not in str(caught.value)


def test_killed_workers_and_drivers_change_nothing(model, photos, draw, tmp_path):
    for number in range(150):
        (photos / "b" / f"more-{number:03}.png").write_bytes(draw())
    shards, out, store = find_shards(str(photos), size=2), tmp_path / "parts", tmp_path / "index"
    encoder = ShardEncoder(read_model(model))
    expected = {f"part-{shard.number:06d}.parquet": encoder.encode(shard) for shard in shards}

    driver = _start(model, photos, out, store)
    try:
        _wait_for(driver, out, 3)
        os.kill(_workers(driver.pid)[0], signal.SIGKILL)
        _wait_for(driver, out, 20)
    finally:
        driver.kill()
        driver.communicate()
    before = {path.name: path.stat().st_ino for path in out.glob("part-*")}
    assert 20 <= len(before) < len(shards), "it was killed too late"

    driver = _start(model, photos, out, store)
    said, problems = driver.communicate(timeout=600)
    assert driver.returncode == 0, problems
    broken = photos / "a" / "broken.jpg"
    assert said.splitlines() == [str(len(before)), f"159 0 {broken}", f"0 159 {broken}"]
    assert {path.name: path.read_bytes() for path in out.glob("part-*")} == {
        name: to_parquet(table) for name, table in expected.items()
    }
    assert before.items() <= {path.name: path.stat().st_ino for path in out.glob("part-*")}.items()
    rows = [row for _, table in sorted(expected.items()) for row in table.to_pylist() if row["error"] is None]
    with open_store(store, 5) as opened:
        ids = opened.ids(-1, 1000)
        assert [entry.path for entry in opened.entries(ids)] == [row["address"] for row in rows]
        assert [opened.contents(ids)[number].code for number in ids] == [row["code"] for row in rows]
