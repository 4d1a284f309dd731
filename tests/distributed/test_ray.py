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

TO_PARQUET = """
import sys
from ddsh.distributed.ray import encode_to_parquet
from ddsh.distributed.shards import find_shards

model, photos, out = sys.argv[1:]
print(encode_to_parquet(model, find_shards(photos, size=2), out).n_known)
"""
TO_STORE = """
import sys
import ray
from ddsh.distributed.ray import encode_to_store
from ddsh.distributed.shards import find_shards
from ddsh.search import ImageSearch

model, store, *sources = sys.argv[1:]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ImageSearch.create(store, model).close()
for source in sources:
    report = encode_to_store(store, find_shards(source, size=4), wait=5)
    print(report.n_images, report.n_known, *(skipped.path for skipped in report.broken))
"""


def _start(script, *arguments):
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
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


@pytest.mark.cluster
def test_killed_workers_and_drivers_change_nothing(model, photos, draw, tmp_path):
    for number in range(150):
        (photos / "b" / f"more-{number:03}.png").write_bytes(draw())
    shards, out = find_shards(str(photos), size=2), tmp_path / "parts"
    encoder = ShardEncoder(read_model(model))
    expected = {f"part-{shard.number:06d}.parquet": to_parquet(encoder.encode(shard)) for shard in shards}

    driver = _start(TO_PARQUET, model, photos, out)
    try:
        _wait_for(driver, out, 3)
        os.kill(_workers(driver.pid)[0], signal.SIGKILL)
        _wait_for(driver, out, 20)
    finally:
        driver.kill()
        driver.communicate()
    before = {path.name: path.stat().st_ino for path in out.glob("part-*")}
    assert 20 <= len(before) < len(shards), "it was killed too late"

    driver = _start(TO_PARQUET, model, photos, out)
    said, problems = driver.communicate(timeout=900)
    assert (driver.returncode, said) == (0, f"{len(before)}\n"), problems
    assert {path.name: path.read_bytes() for path in out.glob("part-*")} == expected
    assert before.items() <= {path.name: path.stat().st_ino for path in out.glob("part-*")}.items()


@pytest.mark.cluster
def test_files_and_archives_come_into_a_store_once_and_in_order(model, photos, archive, tmp_path):
    driver = _start(TO_STORE, model, tmp_path / "index", photos, photos, archive, archive)
    said, problems = driver.communicate(timeout=900)
    broken = photos / "a" / "broken.jpg"
    assert said.splitlines() == [f"9 0 {broken}", f"0 9 {broken}", "4 0", "0 1"], problems
    encoder = ShardEncoder(read_model(model))
    shards = [*find_shards(str(photos), size=4), *find_shards(str(archive))]
    rows = [row for shard in shards for row in encoder.encode(shard).to_pylist() if row["error"] is None]
    with open_store(tmp_path / "index", 5) as store:
        ids = store.ids(-1, 100)
        entries, contents = store.entries(ids), store.contents(ids)
    assert [entry.path for entry in entries] == [row["address"] for row in rows]
    assert [contents[number].code for number in ids] == [row["code"] for row in rows]
    assert [list(entry.labels) for entry in entries] == [row["labels"] for row in rows]
    assert entries[-1].metadata == {"place": 3}
